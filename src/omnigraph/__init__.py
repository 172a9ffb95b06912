"""OmniGraph: a typed property graph on plain Lance datasets that branches, merges and travels in time.

import omnigraph as og

g = og.init("people.omni", schema="node Person { name: String @key  born: I32? }")   # or og.open(...), or og.memory(schema=...)
g.load([{"type": "Person", "data": {"name": "Ada", "born": 1815}}])
g.query("match { $p: Person } return { $p.name, $p.born }")
"""

from typing import TYPE_CHECKING

from omnigraph.errors import (
    ChangeCursorRejected,
    ChangeFeedGap,
    ConflictError,
    EmbeddingError,
    ExpectedVersionMismatch,
    FormatError,
    InvalidInput,
    KeyConflict,
    Kind,
    LanguageError,
    LimitError,
    MergeConflicts,
    NotFound,
    OmniGraphError,
    Outcome,
    PolicyDenied,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimitExceeded,
    StorageError,
    Unsupported,
)

if TYPE_CHECKING:
    from omnigraph.catalog.evolve import SchemaPlan
    from omnigraph.embed import EmbeddingProvider
    from omnigraph.exec.feed.baseline import Baseline
    from omnigraph.exec.feed.pages import ChangeBlock, ChangePage, CommitPage
    from omnigraph.exec.history.changes import EntityChange
    from omnigraph.exec.history.conflicts import Conflict
    from omnigraph.exec.history.entity_log import LogEntry
    from omnigraph.exec.history.merge import MergeResult, RevertResult
    from omnigraph.exec.upkeep.embeddings import Embeddings
    from omnigraph.exec.upkeep.indices import Indexes
    from omnigraph.exec.upkeep.keeper import Keeper
    from omnigraph.exec.upkeep.optimize import Optimized
    from omnigraph.exec.write.migrate import AppliedSchema
    from omnigraph.graph import (
        Cancellation,
        Explanation,
        Graph,
        LoadReceipt,
        Receipt,
        Recovery,
        Result,
        Snapshot,
        TableState,
        Tag,
        TransactionReceipt,
        init,
        memory,
    )
    from omnigraph.graph import open_ as open  # noqa: A004  # the public name is og.open
    from omnigraph.transaction import Transaction

__version__ = "0.1.0"

__all__ = [
    "AppliedSchema",
    "Baseline",
    "Cancellation",
    "ChangeBlock",
    "ChangeCursorRejected",
    "ChangeFeedGap",
    "ChangePage",
    "CommitPage",
    "Conflict",
    "ConflictError",
    "EmbeddingError",
    "EmbeddingProvider",
    "Embeddings",
    "EntityChange",
    "ExpectedVersionMismatch",
    "Explanation",
    "FormatError",
    "Graph",
    "Indexes",
    "InvalidInput",
    "Keeper",
    "KeyConflict",
    "Kind",
    "LanguageError",
    "LimitError",
    "LoadReceipt",
    "LogEntry",
    "MergeConflicts",
    "MergeResult",
    "NotFound",
    "OmniGraphError",
    "Optimized",
    "Outcome",
    "PolicyDenied",
    "PreconditionFailed",
    "ReadSetChanged",
    "Receipt",
    "Recovery",
    "RecoveryRequired",
    "ResourceLimitExceeded",
    "Result",
    "RevertResult",
    "SchemaPlan",
    "Snapshot",
    "StorageError",
    "TableState",
    "Tag",
    "Transaction",
    "TransactionReceipt",
    "Unsupported",
    "__version__",
    "init",
    "memory",
    "open",
]

_ELSEWHERE = {
    "AppliedSchema": "exec.write.migrate",
    "Baseline": "exec.feed.baseline",
    "ChangeBlock": "exec.feed.pages",
    "ChangePage": "exec.feed.pages",
    "CommitPage": "exec.feed.pages",
    "Conflict": "exec.history.conflicts",
    "EmbeddingProvider": "embed",
    "Embeddings": "exec.upkeep.embeddings",
    "EntityChange": "exec.history.changes",
    "Indexes": "exec.upkeep.indices",
    "Keeper": "exec.upkeep.keeper",
    "LogEntry": "exec.history.entity_log",
    "MergeResult": "exec.history.merge",
    "Optimized": "exec.upkeep.optimize",
    "RevertResult": "exec.history.merge",
    "SchemaPlan": "catalog.evolve",
    "Transaction": "transaction",
}


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet."""
    return __all__


def __getattr__(name: str) -> object:
    """Load the engine on first use: `omnigraph --help` must not pay for importing Lance."""
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"omnigraph.{_ELSEWHERE.get(name, 'graph')}"), "open_" if name == "open" else name)
