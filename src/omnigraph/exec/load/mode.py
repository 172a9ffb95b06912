"""The ways in which a load meets rows that are there."""

from __future__ import annotations

from enum import StrEnum


class LoadMode(StrEnum):
    """What becomes of rows whose ids are there already."""

    APPEND = "append"
    """An id that is there is a conflict."""
    MERGE = "merge"
    """The new row replaces the old one, whole."""
    OVERWRITE = "overwrite"
    """Every type that appears is replaced by exactly these rows."""
