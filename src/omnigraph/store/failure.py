"""An exception from Lance -> an OmniGraph error."""

from __future__ import annotations

import os
import re
from typing import Final

from omnigraph.errors import Kind, NotFound, Outcome, StorageError
from omnigraph.store.foreign import wrap_os_error

# Lance's Python errors have no errno. The operating system's number is only in the text, in the fixed format of Rust.
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
_INTERRUPTED: Final = re.compile(r"\bKeyboardInterrupt\b")
_PANIC: Final = "PanicException"
_SOURCE: Final = re.compile(r",? /\S+\.rs:\d+(:\d+)?")


def raised_by_lance() -> tuple[type[BaseException], ...]:
    """The exceptions that a call into Lance can raise, for an `except` clause. Python evaluates the clause only after an exception.

    The class of a Rust panic cannot be imported. It is created by the first panic, as a direct subclass of BaseException.
    """
    panics = (each for each in BaseException.__subclasses__() if each.__name__ == _PANIC)
    return (OSError, ValueError, RuntimeError, MemoryError, *panics)


def lance_error(error: BaseException, *, doing: str, path: str, outcome: Outcome = Outcome.DID_NOT_HAPPEN) -> BaseException:
    """The exception to raise in place of `error`, which Lance raised while `doing` something at `path`.

    If an interrupt reaches Lance during a scan, Lance raises another error whose text names it. This returns a KeyboardInterrupt then.
    """
    text = str(error)
    if _INTERRUPTED.search(text):
        return KeyboardInterrupt()
    if (number := _OS_ERROR.search(text)) is not None:
        code = int(number.group(1))
        return wrap_os_error(OSError(code, os.strerror(code)), doing=doing, path=path, outcome=outcome)
    if isinstance(error, MemoryError):
        return StorageError(Kind.STORAGE, f"could not {doing} {path}: out of memory", outcome=outcome, path=path)
    if type(error).__name__ == _PANIC:
        broken = f"could not {doing} {path}: its bytes cannot be decoded ({_first_line(text)}); run `omnigraph verify` to find the damage"
        return StorageError(Kind.CORRUPT, broken, outcome=outcome, path=path)
    return StorageError(Kind.STORAGE, f"could not {doing} {path}: {_first_line(text)}", outcome=outcome, path=path)


def missing_table(path: str, *, branch: str | None, version: int | None) -> NotFound:
    where = f"{path} at version {version}" if version is not None else path
    on = f" on native branch {branch!r}" if branch is not None else ""
    return NotFound(
        Kind.TABLE_NOT_FOUND if version is None else Kind.VERSION_NOT_FOUND,
        f"there is no table {where}{on}; the graph's directory is incomplete; run `omnigraph verify`, or restore a backup",
        path=path,
        branch=branch,
        version=version,
    )


def reclaimed(path: str, *, branch: str | None, version: int) -> NotFound:
    """The error for a version that existed and was removed (T-06)."""
    on = f" on native branch {branch!r}" if branch is not None else ""
    return NotFound(
        Kind.VERSION_RECLAIMED,
        f"version {version} of {path}{on} was removed, by cleanup or by a schema change that discards history; read a newer commit",
        path=path,
        branch=branch,
        version=version,
    )


def _first_line(text: str) -> str:
    """The reason that Lance gives, without the place in its own source."""
    return _SOURCE.sub("", text.splitlines()[0])[:400] if text else "no reason given"
