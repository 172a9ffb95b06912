"""OmniGraph: a typed property graph on plain Lance datasets that branches, merges and travels in time."""

from omnigraph.errors import (
    ConflictError,
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

__version__ = "0.1.0"

__all__ = [
    "ConflictError",
    "ExpectedVersionMismatch",
    "FormatError",
    "InvalidInput",
    "KeyConflict",
    "Kind",
    "LanguageError",
    "LimitError",
    "MergeConflicts",
    "NotFound",
    "OmniGraphError",
    "Outcome",
    "PolicyDenied",
    "PreconditionFailed",
    "ReadSetChanged",
    "RecoveryRequired",
    "ResourceLimitExceeded",
    "StorageError",
    "Unsupported",
    "__version__",
]
