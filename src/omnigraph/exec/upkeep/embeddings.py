"""A branch and its catalog -> commits with the vectors that its `@embed` properties lack: one, or several if they are many.

The texts are embedded before the branch's lock is taken, and their vectors are kept in a temporary file. Rows are read again when the write
is prepared. A vector is used only for the text it was made from: a text that another writer changed meanwhile stays without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from tempfile import TemporaryFile
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.errors import EmbeddingError, InvalidInput, Kind
from omnigraph.exec.blobs import charge_carried
from omnigraph.exec.embedding import CALL_TEXTS, EmbedTarget, embed_targets, has_text, vector_array, vectors_of
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.predicate import column as quoted
from omnigraph.exec.write.image import Image
from omnigraph.exec.write.protocol import Change, Prepared, Request, repeated, write
from omnigraph.exec.write.tokens import digest_of
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId, TypeId
from omnigraph.manifest.model import Commit, CommitKind
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import Mask, Places, whole
from omnigraph.store.fingerprints import Hashes, fingerprints
from omnigraph.store.tables import Table

EMBEDDED: Final = "embedded"
MESSAGE: Final = "ensure_embeddings"
"""The message of a commit without one."""
PART_ROWS: Final = 50_000
PART_SHARE: Final = 4
"""Vectors are committed once there are this many, and a quarter as many as before: every commit reads all rows that lack one."""


class EmbeddedProperty(msgspec.Struct, frozen=True):
    """One `@embed` property of a type: how many vectors were made, how many rows have no text, and how many changed meanwhile."""

    table: str
    property: str
    model: str | None
    """The model of the provider; None if nothing was to be embedded."""
    embedded: int
    without_text: int
    pending: int


class Embeddings(msgspec.Struct, frozen=True):
    """The result of `ensure_embeddings`. `commit` is the last one; None if no vector was missing."""

    branch: str
    properties: tuple[EmbeddedProperty, ...]
    commit: Commit | None

    def __repr__(self) -> str:
        by = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"Embeddings({self.embedded:,} embedded, {self.pending:,} pending on {self.branch}, {by})"

    @property
    def embedded(self) -> int:
        """The number of texts that were embedded now."""
        return sum(each.embedded for each in self.properties)

    @property
    def pending(self) -> int:
        """The number of texts that changed meanwhile, and that another call embeds."""
        return sum(each.pending for each in self.properties)


class EmbeddingProgress(msgspec.Struct, frozen=True):
    """How many of the rows of a property without a vector were read. Most of them are embedded; those without a text are not."""

    table: str
    property: str
    rows: int
    of: int


OnEmbeddingProgress = Callable[[EmbeddingProgress], None]


class _Key(NamedTuple):
    """A property, also after another writer renamed or replaced it: texts decide whether a vector is still right."""

    type: TypeId
    property: str
    dimension: int


def ensure_embeddings(
    engine: Engine,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
    message: str | None = None,
    token: str | None = None,
    on_progress: OnEmbeddingProgress | None = None,
) -> Embeddings:
    """Embed every text whose vector is missing. A second call has nothing to do.

    Vectors are expensive, so those of a long call are committed in parts, and if the provider fails, those that it made are committed too.
    The last part has the token: a call that did not get there goes on where it ended.
    """
    before = engine.snapshot(branch)
    catalog = engine.catalog(before)
    request = Request(CommitKind.MUTATE, branch=branch, actor=actor, message=message or MESSAGE)
    last = msgspec.structs.replace(request, token=token, digest=digest_of(MESSAGE))
    with _Filling(engine, request, catalog) as filling:
        if (first := repeated(engine.manifest, last)) is not None:
            return Embeddings(branch, tuple(filling.results()), first.commit)
        try:
            for node, target in _properties(catalog):
                _embed_property(engine, before, node, target, filling, on_progress)
        except EmbeddingError as error:
            filling.commit()
            if filling.commit_ is None:
                raise
            done = sum(each.used for each in filling.done.values())
            kept = (
                f"{counted(done, 'vector')} made before {'is' if done == 1 else 'are'} committed; call ensure_embeddings again for the rest"
            )
            raise EmbeddingError(error.kind, f"{error.message}; {kept}", **{**error.facts, "embedded": done}) from error
        filling.commit(last)
        return Embeddings(branch, tuple(filling.results()), filling.commit_)


def _properties(catalog: Catalog) -> Iterator[tuple[NodeType, EmbedTarget]]:
    return ((node, target) for node in catalog.nodes for target in embed_targets(node) if not target.required)


class _Done(msgspec.Struct):
    """What was done for one property."""

    made: int = 0
    used: int = 0
    without_text: int = 0


class _Filling:
    """The vectors that were made and not committed yet, and what was done so far."""

    def __init__(self, engine: Engine, request: Request, catalog: Catalog) -> None:
        self._engine: Final = engine
        self._request: Final = request
        self._catalog: Final = catalog
        self._made: dict[_Key, _Spool] = {}
        self.done: Final = {_key(node, target): _Done() for node, target in _properties(catalog)}
        self.commit_: Commit | None = None
        """The newest commit."""

    def __enter__(self) -> _Filling:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def add(self, key: _Key, ids: pa.Array, texts: pa.Array, vectors: pa.Array) -> None:
        """Keep some vectors. If those before them are many beside those that are committed, they are committed: the last part is left."""
        waiting = sum(spool.rows for spool in self._made.values())
        if waiting >= max(PART_ROWS, (sum(each.made for each in self.done.values()) - waiting) // PART_SHARE):
            self.commit()
        if key not in self._made:
            self._made[key] = _Spool(key.dimension)
        self._made[key].add(ids, texts, vectors)
        self.done[key].made += len(texts)

    def commit(self, request: Request | None = None) -> None:
        """Commit the vectors that were made, if there are any."""
        if not self._made:
            return
        images: list[Image] = []

        def prepare(snapshot: BranchSnapshot) -> Prepared:
            _discard(images)  # the branch moved: nothing will name the files of the first attempt
            for spool in self._made.values():
                spool.used = 0
            try:
                changes = dict(_changes(self._engine, snapshot, self._made, images))
            except BaseException:
                _discard(images)
                raise
            return Prepared(changes, counts={EMBEDDED: sum(spool.used for spool in self._made.values())})

        self.commit_ = write(self._engine, request or self._request, prepare).commit or self.commit_
        for key, spool in self._made.items():
            self.done[key].used += spool.used
        self._clear()

    def results(self) -> Iterator[EmbeddedProperty]:
        for node, target in _properties(self._catalog):
            done, embedder = self.done[_key(node, target)], self._engine.embedder
            model = embedder.model if done.made and embedder is not None else None
            yield EmbeddedProperty(node.alias, target.name, model, done.used, done.without_text, done.made - done.used)

    def _clear(self) -> None:
        for spool in self._made.values():
            spool.close()
        self._made = {}


def _discard(images: list[Image]) -> None:
    for image in images:
        image.discard()
    images.clear()


def _key(node: NodeType, target: EmbedTarget) -> _Key:
    return _Key(node.id, target.name, target.dimension)


# -- embedding, before the lock


def _embed_property(
    engine: Engine,
    snapshot: BranchSnapshot,
    node: NodeType,
    target: EmbedTarget,
    filling: _Filling,
    on_progress: OnEmbeddingProgress | None,
) -> None:
    table = engine.tables.open(snapshot.table_of(node.id, name=node.name).ref)
    key, where = _key(node, target), f"{quoted(target.name)} IS NULL"
    of, read = table.count(where) if on_progress is not None else 0, 0
    for batch in table.scan([ID, target.source], where=where, batch_rows=CALL_TEXTS):
        texts = batch.column(target.source)
        wanted = has_text(texts)
        ids, texts = batch.column(ID).filter(wanted), texts.filter(wanted)
        if len(texts):
            filling.add(key, ids, texts, _vectors(engine, target, texts))
        filling.done[key].without_text += batch.num_rows - len(texts)
        read += batch.num_rows
        if on_progress is not None:
            on_progress(EmbeddingProgress(node.alias, target.name, read, of))


def _vectors(engine: Engine, target: EmbedTarget, texts: pa.Array) -> pa.Array:
    if (embedder := engine.embedder) is None:
        raise InvalidInput(
            Kind.EMBEDDING_MISSING,
            f"{target.owner}.{target.name} lacks vectors, and no embedding provider is configured; set OMNIGRAPH_EMBED_PROVIDER",
            type=target.owner,
            property=target.name,
        )
    target.check_model(embedder)
    return vectors_of(embedder, texts, target.dimension)


class _Spool:
    """The vectors of one property in a temporary file, found by the id of their row and its text. In memory are 16 bytes a row."""

    def __init__(self, dimension: int) -> None:
        self._dimension: Final = dimension
        self._file: Final = TemporaryFile()  # noqa: SIM115  # `close` closes it; without a name, it vanishes with the process
        self._ids: Hashes = np.zeros(0, np.uint64)
        self._texts: Hashes = np.zeros(0, np.uint64)
        self._order: Places = np.zeros(0, np.int64)
        """The vectors in the order of their ids."""
        self._parts: list[tuple[Hashes, Hashes]] = []
        self.rows = 0
        self.used = 0

    def close(self) -> None:
        self._file.close()

    def add(self, ids: pa.Array, texts: pa.Array, vectors: pa.Array) -> None:
        self._parts.append((fingerprints(ids), fingerprints(texts)))
        self._file.write(vectors.flatten().to_numpy().astype("<f4").tobytes())
        self.rows += len(texts)

    def find(self, ids: pa.Array, texts: pa.Array) -> Places:
        """For each row the number of its vector, or -1."""
        self._join()
        if not self.rows:
            return np.full(len(texts), -1)
        wanted = fingerprints(ids)
        at = np.minimum(np.searchsorted(self._ids, wanted, sorter=self._order), self.rows - 1)
        places: Places = self._order[at]
        fits = (self._ids[places] == wanted) & (self._texts[places] == fingerprints(texts)) & _valid(texts)
        return np.where(fits, places, -1)

    def read(self, places: Places) -> pa.Array:
        """The vectors with these numbers."""
        stored = np.memmap(self._file, "<f4", mode="r", shape=(self.rows, self._dimension))
        return vector_array(np.asarray(stored[places], np.float32), self._dimension)

    def _join(self) -> None:
        if self._parts:
            self._file.flush()
            self._ids = np.concatenate([self._ids, *(ids for ids, _ in self._parts)])
            self._texts = np.concatenate([self._texts, *(texts for _, texts in self._parts)])
            self._order = np.argsort(self._ids, kind="stable")
            self._parts.clear()


# -- the rows, for every snapshot


def _changes(
    engine: Engine, snapshot: BranchSnapshot, made: Mapping[_Key, _Spool], images: list[Image]
) -> Iterator[tuple[TableId, Change]]:
    for node in engine.catalog(snapshot).nodes:
        found = {target: made.get(_Key(node.id, target.name, target.dimension)) for target in embed_targets(node)}
        spools = {target: spool for target, spool in found.items() if spool is not None and spool.rows}
        if not spools:
            continue
        row = snapshot.table_of(node.id, name=node.name)
        image = Image(node, row, engine.tables.open(row.ref), snapshot)
        images.append(image)
        image.put(_filled(image.table, image, spools), new=False)
        if (change := image.change()) is not None:
            yield row.id, change


def _filled(table: Table, image: Image, spools: Mapping[EmbedTarget, _Spool]) -> Iterator[pa.Table]:
    """The rows that get a vector, whole."""
    where = " OR ".join(f"{quoted(target.name)} IS NULL" for target in spools)
    charge_carried(table, image.blobs, [where])
    for batch in table.scan(image.schema.names, where=where):
        rows = pa.Table.from_batches([batch]).select(image.schema.names)
        changed = np.zeros(len(rows), bool)
        for target, spool in spools.items():
            given = whole(rows.column(target.name))
            places = spool.find(whole(rows.column(ID)), whole(rows.column(target.source)))
            places[_valid(given)] = -1
            if not (new := places >= 0).any():
                continue
            spool.used += int(new.sum())
            changed |= new
            sources = np.arange(len(rows))
            sources[new] = np.arange(len(rows), len(rows) + int(new.sum()))
            vectors = pa.concat_arrays([given, spool.read(places[new]).cast(given.type)]).take(pa.array(sources))
            place = rows.schema.get_field_index(target.name)
            rows = rows.set_column(place, rows.schema.field(place), vectors)
        if changed.any():
            yield rows.filter(pa.array(changed)).cast(image.schema)


def _valid(column: pa.Array) -> Mask:
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
