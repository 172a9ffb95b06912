"""OmniGraph: a typed property graph on plain Lance datasets that branches and travels in time."""

from typing import TYPE_CHECKING

from omnigraph.errors import (
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
    from omnigraph.exec.upkeep.embeddings import Embeddings
    from omnigraph.exec.upkeep.indices import Indexes
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
        init,
    )
    from omnigraph.graph import open_ as open  # noqa: A004  # the public name is og.open

__version__ = "0.1.0"

__all__ = [
    "AppliedSchema",
    "Cancellation",
    "ConflictError",
    "EmbeddingError",
    "EmbeddingProvider",
    "Embeddings",
    "ExpectedVersionMismatch",
    "Explanation",
    "FormatError",
    "Graph",
    "Indexes",
    "InvalidInput",
    "KeyConflict",
    "Kind",
    "LanguageError",
    "LimitError",
    "LoadReceipt",
    "MergeConflicts",
    "NotFound",
    "OmniGraphError",
    "Outcome",
    "PolicyDenied",
    "PreconditionFailed",
    "ReadSetChanged",
    "Receipt",
    "Recovery",
    "RecoveryRequired",
    "ResourceLimitExceeded",
    "Result",
    "SchemaPlan",
    "Snapshot",
    "StorageError",
    "TableState",
    "Unsupported",
    "__version__",
    "init",
    "open",
]

_ELSEWHERE = {
    "AppliedSchema": "exec.write.migrate",
    "EmbeddingProvider": "embed",
    "Embeddings": "exec.upkeep.embeddings",
    "Indexes": "exec.upkeep.indices",
    "SchemaPlan": "catalog.evolve",
}


def __getattr__(name: str) -> object:
    """Load the engine on first use: `omnigraph --help` must not pay for importing Lance."""
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"omnigraph.{_ELSEWHERE.get(name, 'graph')}"), "open_" if name == "open" else name)
