"""An exception out of Lance -> one of our errors, at the place where it enters."""

from __future__ import annotations

import os
import re
from typing import Final

from omnigraph.errors import Kind, NotFound, OmniGraphError, Outcome, StorageError
from omnigraph.store.objects import wrap_os_error

# Lance's Python errors carry no errno; the operating system's number survives only in Rust's fixed rendering of it.
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")

_PANIC: Final = "PanicException"


def raised_by_lance() -> tuple[type[BaseException], ...]:
    """What a call of Lance may raise, for an `except` clause, which asks only when something was raised.

    A panic in Rust is a class that cannot be imported: it comes to be with the first panic, directly under BaseException.
    """
    panics = (each for each in BaseException.__subclasses__() if each.__name__ == _PANIC)
    return (OSError, ValueError, RuntimeError, MemoryError, *panics)


def lance_error(error: BaseException, *, doing: str, path: str, outcome: Outcome = Outcome.DID_NOT_HAPPEN) -> OmniGraphError:
    """What to raise in place of `error`, which Lance raised while `doing` something at `path`."""
    text = str(error)
    if (number := _OS_ERROR.search(text)) is not None:
        code = int(number.group(1))
        return wrap_os_error(OSError(code, os.strerror(code)), doing=doing, path=path, outcome=outcome)
    return StorageError(Kind.STORAGE, f"could not {doing} {path}: {_first_line(text)}", outcome=outcome, path=path)


def missing_table(path: str, *, branch: str | None, version: int | None) -> NotFound:
    where = f"{path} at version {version}" if version is not None else path
    on = f" on native branch {branch!r}" if branch is not None else ""
    return NotFound(
        Kind.TABLE_NOT_FOUND if version is None else Kind.VERSION_NOT_FOUND,
        f"there is no table {where}{on}; it may have been collected, or the graph's folder is incomplete",
        path=path,
        branch=branch,
        version=version,
    )


def reclaimed(path: str, *, branch: str | None, version: int) -> NotFound:
    """T-06: the version was there once, and was given up."""
    on = f" on native branch {branch!r}" if branch is not None else ""
    return NotFound(
        Kind.VERSION_RECLAIMED,
        f"version {version} of {path}{on} has been removed, by a schema change that gave its past up or by a cleanup; "
        "ask for a newer commit",
        path=path,
        branch=branch,
        version=version,
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0][:400] if text else "no reason given"
