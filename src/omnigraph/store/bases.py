"""The message of a Lance version and the location of its table -> the same message with every inherited file at that location.

A native branch names the directories of the lines that it was made from by absolute paths, in every version. After a move the paths
do not exist; after a copy of the files they name the original. So they are never used: the directory of a line follows from its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.store.protobuf import counted, fields

# Field numbers of `Manifest` and `BasePath` in Lance's table.proto.
_BASE_PATHS: Final = 18
_NAME: Final = 2
_PATH: Final = 4


def home(path: str, branch: str | None) -> str:
    """The directory of a native branch's own files. None is the main line."""
    return path if branch is None else f"{path}/tree/{branch}"


def rebased(message: bytes, place: Callable[[str | None], str]) -> bytes:
    """Return the message with the path of each base replaced by `place(name of its line)`. The name of the main line is None."""
    return b"".join(
        counted(_BASE_PATHS, _moved(field.body, place)) if field.number == _BASE_PATHS else field.whole for field in fields(message)
    )


def _moved(base: bytes, place: Callable[[str | None], str]) -> bytes:
    parts = list(fields(base))
    name = next((part.body.decode() for part in parts if part.number == _NAME), None)
    return b"".join(part.whole for part in parts if part.number != _PATH) + counted(_PATH, place(name).encode())
