"""The modes of a load."""

from __future__ import annotations

from enum import StrEnum


class LoadMode(StrEnum):
    """How a load treats rows whose ids already exist."""

    APPEND = "append"
    """An existing id is a conflict."""
    MERGE = "merge"
    """The new row replaces the whole old row."""
    OVERWRITE = "overwrite"
    """The new rows replace all rows of every type in the input."""
