"""A path of the command line -> its text, and language errors drawn in that text; an output path -> a file that is replaced atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.ids import new_hex16

if TYPE_CHECKING:
    from omnigraph.lang import Source


def read_source(path: Path, *, what: str) -> Source:
    """Read a text file. A byte order mark is removed. `what` is the noun for the file in messages."""
    from omnigraph.lang import Source  # here: `--help` must not load the compiler

    try:
        return Source(path.read_text("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise _unreadable(path, what, f"not UTF-8 at byte {error.start}") from error
    except FileNotFoundError as error:
        raise _unreadable(path, what, "no such file") from error
    except IsADirectoryError as error:
        raise _unreadable(path, what, "a directory, not a file") from error
    except OSError as error:
        raise _unreadable(path, what, error.strerror or str(error)) from error


def _unreadable(path: Path, what: str, why: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {what} '{path}': {why}", path=str(path))


@contextmanager
def draw_errors(source: Source) -> Iterator[None]:
    """Render language errors with their line of `source`, under the name that the user gave it."""
    from omnigraph.lang import render

    try:
        yield
    except LanguageError as error:
        error.rendered = render(error, source)
        raise


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before work whose result it is to hold."""
    if os.path.isdir(path):  # unlike the method of Path, it raises nothing if the name is too long
        raise _unwritable(path, "a directory, not a file")
    if not os.path.isdir(path.parent):
        raise _unwritable(path, f"there is no directory '{path.parent}'")


def _unwritable(path: Path, why: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, f"cannot write '{path}': {why}", path=str(path))


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`. It replaces `path` after a flush, or is removed if the block fails."""
    staged = path.parent / f".{path.name}.{new_hex16()}.tmp"
    check_output(path)
    try:
        with staged.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    finally:
        with suppress(OSError):  # the name may be too long for any file
            staged.unlink(missing_ok=True)
