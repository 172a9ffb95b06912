"""Calls on `g.branches` and `g.tags` -> names of lines of history and of commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.arguments import checked_methods
from omnigraph.exec.engine import check_at
from omnigraph.handle import OWN_CHECKS, Handle
from omnigraph.ids import MAIN, EntityName
from omnigraph.manifest.registry import check_name, given_name, list_branches
from omnigraph.manifest.tags import Tag, living_tags
from omnigraph.store.leaving import waited_for_methods

if TYPE_CHECKING:
    from omnigraph.exec.history.merge import MergeResult


@waited_for_methods
@checked_methods(but=OWN_CHECKS)
class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Handle) -> None:
        self._graph = graph

    def __repr__(self) -> str:
        return f"Branches of {self._graph!r}"

    def list(self) -> list[str]:
        """Return all branch names, main first."""
        return [MAIN, *list_branches(self._graph.engine.manifest.root.objects)]

    def create(self, name: str, *, from_: str = MAIN, at: str | int | datetime | None = None) -> str:
        """Create a branch with the contents of `from_`: now, or at a manifest version or a time; or of a commit of any branch.

        No data is copied.
        """
        from omnigraph.manifest.branches import create_branch

        self._graph.require_writable()
        return create_branch(self._graph.engine.manifest, name, from_=given_name(from_), at=check_at(at)).name

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[EntityName, str] | None = None,
        message: str | None = None,
        token: str | None = None,
        delete_source: bool = False,
        dry_run: bool = False,
    ) -> MergeResult:
        """Merge a branch into another, as `Graph.merge` does."""
        return self._graph.merge(
            source,
            into,
            strategy=strategy,
            on_conflict=on_conflict,
            resolve=resolve,
            message=message,
            token=token,
            delete_source=delete_source,
            dry_run=dry_run,
        )

    def delete(self, name: str) -> None:
        """Delete a branch and the table forks that only it uses."""
        from omnigraph.manifest.branches import delete_branch

        self._graph.require_writable()
        delete_branch(self._graph.engine.manifest, check_name(name))


@waited_for_methods
@checked_methods(but=OWN_CHECKS)
class Tags:
    """The tags of a graph: names of commits. A tag keeps what its commit shows, and stands wherever a commit id does."""

    def __init__(self, graph: Handle) -> None:
        self._graph = graph

    def __repr__(self) -> str:
        return f"Tags of {self._graph!r}"

    def list(self) -> list[Tag]:
        """Return all tags, sorted by name."""
        return living_tags(self._graph.engine.manifest.root.objects)

    def create(self, name: str, *, branch: str = MAIN, at: str | int | datetime | None = None, message: str | None = None) -> Tag:
        """Name a commit: the newest of `branch`, or at a manifest version or a time of it; or a commit of any branch by its id."""
        from omnigraph.manifest.tagging import create_tag

        self._graph.require_writable()
        manifest, actor = self._graph.engine.manifest, self._graph.actor
        return create_tag(manifest, name, branch=given_name(branch), at=check_at(at), actor=actor, message=message)

    def delete(self, name: str) -> None:
        """Delete a tag. Its commit stays in the history."""
        from omnigraph.manifest.tagging import delete_tag

        self._graph.require_writable()
        delete_tag(self._graph.engine.manifest, name)
