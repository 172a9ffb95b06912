"""Bulk work on Apache Spark: the same loads and exports, the same rules, one commit. Needs the extra `spark` and Java 17 or newer."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.spark.driver import session
    from omnigraph.spark.load import GraphLoad

__all__ = ["GraphLoad", "session"]


def __getattr__(name: str) -> object:
    """Loaded when asked for: executors need only what they run."""
    if name == "GraphLoad":
        from omnigraph.spark.load import GraphLoad

        return GraphLoad
    if name == "session":
        from omnigraph.spark.driver import session

        return session
    raise AttributeError(f"module 'omnigraph.spark' has no attribute {name!r}")
