"""A path given on the command line -> a file that is there when all of it is, and before that is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph.errors import InvalidInput, Kind
from omnigraph.ids import new_hex16


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
