"""Importing the engine -> the same modules, without pandas.

pyarrow imports pandas, if it is installed, while Lance is imported. That takes as long as the rest of the import. No command shows a
data frame, so the command line hides pandas from pyarrow while it imports the engine. Later imports of pandas work. Commands that run
Spark do not hide pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class _PandasBlocker:
    """An import hook that makes `import pandas` fail as if pandas were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas inside this block. Does nothing if pyarrow or pandas is loaded already."""
    if "pyarrow" in sys.modules or "pandas" in sys.modules:
        yield
        return
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        yield
    finally:
        sys.meta_path.remove(blocker)
