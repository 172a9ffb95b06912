"""Loads, exports and data frames on Apache Spark, with the rules of `Graph.load`. Needs the extra `spark` and Java 17 or newer."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from omnigraph.spark.exports import export
    from omnigraph.spark.load import GraphLoad
    from omnigraph.spark.sessions import register, session
    from omnigraph.spark.source import register_views

__all__ = ["GraphLoad", "export", "register", "register_views", "session"]

_MODULES: Final = {"GraphLoad": "load", "export": "exports", "register": "sessions", "register_views": "source", "session": "sessions"}


def __getattr__(name: str) -> object:
    """Import a name at its first use: executors import only what they run."""
    if name in _MODULES:
        return getattr(import_module(f"omnigraph.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'omnigraph.spark' has no attribute {name!r}")
