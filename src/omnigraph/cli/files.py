"""Paths given on the command line -> their text, or a file that is written whole; or an error that names the path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph.errors import InvalidInput, Kind
from omnigraph.ids import new_hex16
from omnigraph.lang import Source


def read_source(path: Path, *, what: str) -> Source:
    """The text of a file, under the name the user gave it, without a byte order mark. `what` is what the file should hold."""
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


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when all of it is on the disk, and is gone when it is not."""
    staged = path.parent / f".{path.name}.{new_hex16()}.tmp"
    try:
        if path.is_dir():
            raise IsADirectoryError
        with staged.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError as error:
        why = "a directory, not a file" if isinstance(error, IsADirectoryError) else error.strerror or str(error)
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot write '{path}': {why}", path=str(path)) from error
    finally:
        staged.unlink(missing_ok=True)


def _unreadable(path: Path, what: str, why: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {what} '{path}': {why}", path=str(path))
