"""OmniGraph: a typed property graph on plain Lance datasets that branches, merges and travels in time."""

__version__ = "0.1.0"
