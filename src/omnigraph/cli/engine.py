"""The engine, loaded without pandas.

pyarrow looks for pandas while Lance is imported, and if it is installed that takes as long as all the rest. No command shows a data
frame; so here, in a process that is ours, pyarrow does not find it. What asks for pandas later gets it. Commands that run Spark leave
things as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class _Hidden:
    """An import of pandas fails as if it were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Inside this block pyarrow may be imported, and finds no pandas."""
    if "pyarrow" in sys.modules or "pandas" in sys.modules:
        yield
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)
