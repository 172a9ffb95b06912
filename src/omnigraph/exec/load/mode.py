"""The modes of a load, and what they mean for a type."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.catalog.layout import unique_ends
from omnigraph.catalog.model import EntityType


class LoadMode(StrEnum):
    """How a load treats rows whose ids already exist."""

    APPEND = "append"
    """An existing id is a conflict."""
    MERGE = "merge"
    """The new row replaces the whole old row."""
    UPSERT = "upsert"
    """The new row replaces the properties that its record names."""
    OVERWRITE = "overwrite"
    """The new rows replace all rows of every type in the input."""

    @property
    def keeps(self) -> bool:
        """Properties that a record leaves out keep their values."""
        return self is LoadMode.UPSERT

    @property
    def replaces(self) -> bool:
        """A row replaces the one with the same id, if there is one."""
        return self in (LoadMode.MERGE, LoadMode.UPSERT)

    def finds_by_ends(self, entity: EntityType) -> bool:
        """An edge without an id replaces the one with the same ends, of which there can be only one."""
        return self.replaces and unique_ends(entity)

    def patches(self, entity: EntityType) -> bool:
        """The rows of this type depend on the rows of the snapshot, so they are complete only on a snapshot."""
        return self.keeps or self.finds_by_ends(entity)
