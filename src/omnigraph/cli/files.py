"""Paths given on the command line -> their text, or an error that names the path."""

from __future__ import annotations

from pathlib import Path

from omnigraph.errors import InvalidInput, Kind
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


def _unreadable(path: Path, what: str, why: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {what} '{path}': {why}", path=str(path))
