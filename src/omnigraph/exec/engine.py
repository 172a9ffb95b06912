"""A manifest -> the shared state of one open graph: tables, catalogs, compiled queries, and the caches that reads share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from omnigraph.catalog import Catalog, decode
from omnigraph.embed import Embedder, EmbeddingProvider, resolve_embedder
from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.exec.adjacency.cache import cache_directory
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.exec.compiled import CompiledRead, compile_mutation, compile_read, parse
from omnigraph.exec.external_blobs import BlobPolicy, bases_in
from omnigraph.exec.read.table_statistics import Surveyor
from omnigraph.exec.read.view import OpenTables, View
from omnigraph.ids import MAIN, SchemaHash
from omnigraph.lang import Source
from omnigraph.lang.query import Query
from omnigraph.lru import Lru
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import given_name
from omnigraph.plan.typed import TypedMutation
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables

QUERIES: Final = 256
"""The number of compiled reads in the cache, and of compiled mutations."""
CATALOGS: Final = 64
VIEWS: Final = 4
"""The number of snapshots whose open tables are kept. Most reads use the newest snapshot."""

At = str | int | datetime | None
"""A commit id or its beginning, a tag, a manifest version, a time, or None for the newest commit."""
_DATE: Final = re.compile(r"\d{4}-\d\d")
"""How a date begins. No commit id and no tag does."""
AfterWrite = Callable[["Engine", Commit], None]
_Key = tuple[str, str | None, SchemaHash]


def check_at(at: At) -> At:
    """Return `at`, a text of a date or a time as a time (UTC by default), or raise InvalidInput if it is nothing that can be read at."""
    if not isinstance(at, str | int | datetime | None):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"`at` takes a commit id, a manifest version or a time, not {at!r}")
    if not isinstance(at, str) or _DATE.match(at) is None:
        return at
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        what = f"{at!r} is no commit id, tag, manifest version or time such as 2026-01-31T12:00:00Z"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class Engine:
    """The shared state of one open graph. Safe to use from many threads. It contains no algorithms: functions of exec take it."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        embedding: Embedder | EmbeddingProvider | None = None,
        external_blobs: tuple[str, ...] | None = None,
        after_write: AfterWrite | None = None,
    ) -> None:
        self.manifest: Final = manifest
        self.after_write: Final = after_write
        """Called after every write that made a commit, without a lock."""
        self.embedding: Final = embedding
        self.external_bases: Final = external_blobs
        self.tables: Final = Tables(manifest.root)
        self.topology: Final = Topology(self.tables, cache_directory(manifest.graph_id))
        self.surveyor: Final = Surveyor(self.tables)
        self._open_tables: Final = OpenTables(self.tables, self.topology)
        self._catalogs: Final = Lru[SchemaHash, Catalog](CATALOGS)
        self._parsed: Final = Lru[tuple[str, str | None], Query](QUERIES)
        self._reads: Final = Lru[_Key, CompiledRead](QUERIES)
        self._mutations: Final = Lru[_Key, TypedMutation](QUERIES)
        self._views: Final = Lru[tuple[str | None, int], View](VIEWS)

    @property
    def root(self) -> Root:
        return self.manifest.root

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedder of this graph, or None. Its settings are read, and wrong ones refused, on first use."""
        return resolve_embedder(self.embedding, os.environ)

    @cached_property
    def external_blobs(self) -> BlobPolicy:
        """From where blobs may be copied into this graph. The environment is asked, and a wrong base there refused, on first use."""
        bases = self.external_bases if self.external_bases is not None else bases_in(os.environ)
        return BlobPolicy(bases, self.root.storage_options)

    def snapshot(self, branch: str = MAIN, at: At = None) -> BranchSnapshot:
        """Return a snapshot of a branch: the newest, or at a commit, a manifest version or a time."""
        return self.manifest.snapshot(given_name(branch), at=check_at(at))

    def point(self, at: str | int | datetime) -> BranchSnapshot:
        """Return the snapshot of a branch, or else of a commit or tag; or of main at a manifest version or a time."""
        if not isinstance(at, str):
            return self.snapshot(at=at)
        with suppress(NotFound, InvalidInput):  # not the name of a branch
            return self.snapshot(at)
        try:
            commit = self.manifest.commit(at)
        except NotFound:
            if isinstance(check_at(at), str):
                raise NotFound(Kind.COMMIT_NOT_FOUND, f"there is no branch, commit or tag {at!r}", name=at) from None
            return self.snapshot(at=at)  # a time
        return self.snapshot(at=commit.id)

    def reading(self, snapshot: BranchSnapshot, at: At = None) -> AbstractContextManager[None]:
        """Return the context manager for reading a snapshot. If the branch is deleted meanwhile, the error says so."""
        return self.manifest.reading(snapshot, past=at is not None)

    def catalog(self, snapshot: BranchSnapshot) -> Catalog:
        """Return the catalog of the snapshot's own schema (D-14). Each schema is decoded once."""
        schema = snapshot.state.head.schema
        if (known := self._catalogs.get(schema)) is not None:
            return known
        text = self.manifest.schema(schema, branch=snapshot.branch.name)
        return self._catalogs.put(schema, decode(text.ir.encode()))

    def view(self, snapshot: BranchSnapshot) -> View:
        """Return the tables of a snapshot as reads see them."""
        key = (snapshot.branch.native, snapshot.version)
        if (known := self._views.get(key)) is not None:
            return known
        return self._views.put(key, View(snapshot, self.catalog(snapshot), self._open_tables, self.topology))

    def parsed(self, source: Source, name: str | None) -> Query:
        """Parse a query of a text. It needs no snapshot, so syntax errors are reported before anything is read."""
        key = (source.text, name)
        if (known := self._parsed.get(key)) is not None:
            return known
        return self._parsed.put(key, parse(source, name))

    def compiled_read(self, source: Source, name: str | None, snapshot: BranchSnapshot) -> CompiledRead:
        """Return a read of a text, checked once per schema."""
        key = (source.text, name, snapshot.state.head.schema)
        if (known := self._reads.get(key)) is not None:
            return known
        return self._reads.put(key, compile_read(self.parsed(source, name), source, self.catalog(snapshot)))

    def compiled_mutation(self, source: Source, name: str | None, snapshot: BranchSnapshot) -> TypedMutation:
        """Return a mutation of a text, checked once per schema."""
        key = (source.text, name, snapshot.state.head.schema)
        if (known := self._mutations.get(key)) is not None:
            return known
        return self._mutations.put(key, compile_mutation(self.parsed(source, name), source, self.catalog(snapshot)))
