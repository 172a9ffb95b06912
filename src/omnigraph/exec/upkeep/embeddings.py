"""A branch and its catalog -> one commit with the vectors that its `@embed` properties lack.

The texts are embedded before the branch's lock is taken, and their vectors are kept in a temporary file. Rows are read again when the write
is prepared. A vector is used only for the text it was made from: a text that another writer changed meanwhile stays without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import charge_carried
from omnigraph.exec.embedding import EmbedTarget, embed_targets, has_text, vector_array, vectors_of
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.predicate import column as quoted
from omnigraph.exec.write.image import Image
from omnigraph.exec.write.protocol import Change, Prepared, Request, write
from omnigraph.ids import MAIN, BranchName, TableId, TypeId
from omnigraph.manifest.model import Commit, CommitKind
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import Mask, Places, whole
from omnigraph.store.fingerprints import Hashes, fingerprints
from omnigraph.store.tables import ADDRESS, Table

EMBEDDED: Final = "embedded"
MESSAGE: Final = "ensure_embeddings"
"""The message of a commit without one."""


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
    """The result of `ensure_embeddings`. `commit` is None if no vector was missing."""

    branch: str
    properties: tuple[EmbeddedProperty, ...]
    commit: Commit | None

    @property
    def embedded(self) -> int:
        return sum(each.embedded for each in self.properties)

    @property
    def pending(self) -> int:
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
    on_progress: OnEmbeddingProgress | None = None,
) -> Embeddings:
    """Embed every text whose vector is missing, as one commit. A second call has nothing to do."""
    before = engine.snapshot(branch)
    images: list[Image] = []
    with ExitStack() as files:
        made = {
            _Key(node.id, target.name, target.dimension): files.enter_context(_Spool(target.dimension))
            for node, target in _properties(engine.catalog(before))
        }
        for node, target in _properties(engine.catalog(before)):
            _embed_property(engine, before, node, target, made[_Key(node.id, target.name, target.dimension)], on_progress)

        def prepare(snapshot: BranchSnapshot) -> Prepared:
            for image in images:  # the branch moved: nothing will name the files of the first attempt
                image.discard()
            images.clear()
            for spool in made.values():
                spool.used = 0
            try:
                changes = dict(_changes(engine, snapshot, made, images))
            except BaseException:
                for image in images:
                    image.discard()
                raise
            return Prepared(changes, counts={EMBEDDED: sum(spool.used for spool in made.values())})

        if not any(spool.rows for spool in made.values()):
            return Embeddings(branch, tuple(_results(engine.catalog(before), made, engine)), None)
        written = write(engine, Request(CommitKind.MUTATE, branch=branch, actor=actor, message=message or MESSAGE), prepare)
        return Embeddings(branch, tuple(_results(engine.catalog(before), made, engine)), written.commit)


def _properties(catalog: Catalog) -> Iterator[tuple[NodeType, EmbedTarget]]:
    return ((node, target) for node in catalog.nodes for target in embed_targets(node) if not target.required)


def _results(catalog: Catalog, made: Mapping[_Key, _Spool], engine: Engine) -> Iterator[EmbeddedProperty]:
    for node, target in _properties(catalog):
        spool = made[_Key(node.id, target.name, target.dimension)]
        model = engine.embedder.model if spool.rows and engine.embedder is not None else None
        yield EmbeddedProperty(node.alias, target.name, model, spool.used, spool.without_text, spool.rows - spool.used)


# -- embedding, before the lock


def _embed_property(
    engine: Engine, snapshot: BranchSnapshot, node: NodeType, target: EmbedTarget, spool: _Spool, on_progress: OnEmbeddingProgress | None
) -> None:
    table = engine.tables.open(snapshot.table_of(node.id, name=node.name).ref)
    where = f"{quoted(target.name)} IS NULL"
    of, read = table.count(where) if on_progress is not None else 0, 0
    for batch in table.scan([target.source], where=where, addresses=True):
        texts = batch.column(target.source)
        wanted = has_text(texts)
        addresses, texts = batch.column(ADDRESS).filter(wanted), texts.filter(wanted)
        if len(texts):
            spool.add(addresses.to_numpy(), texts, _vectors(engine, target, texts))
        spool.without_text += batch.num_rows - len(texts)
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
    """The vectors of one property in a temporary file, found by the address of their row and its text. In memory are 16 bytes a row.

    A table that was overwritten uses addresses again, and a row that was updated has another one; so both must fit.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension: Final = dimension
        self._file: Final = TemporaryFile()  # noqa: SIM115  # `__exit__` closes it; without a name, it vanishes with the process
        self._addresses: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._texts: Hashes = np.zeros(0, np.uint64)
        self._order: Places = np.zeros(0, np.int64)
        """The vectors in the order of their addresses."""
        self._parts: list[tuple[npt.NDArray[np.uint64], Hashes]] = []
        self.rows = 0
        self.used = 0
        self.without_text = 0

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, addresses: npt.NDArray[np.uint64], texts: pa.Array, vectors: pa.Array) -> None:
        self._parts.append((addresses, fingerprints(texts)))
        self._file.write(vectors.flatten().to_numpy().astype("<f4").tobytes())
        self.rows += len(texts)

    def find(self, addresses: npt.NDArray[np.uint64], texts: pa.Array) -> Places:
        """For each row the number of its vector, or -1."""
        self._join()
        if not self.rows:
            return np.full(len(texts), -1)
        at = np.minimum(np.searchsorted(self._addresses, addresses, sorter=self._order), self.rows - 1)
        places: Places = self._order[at]
        fits = (self._addresses[places] == addresses) & (self._texts[places] == fingerprints(texts)) & _valid(texts)
        return np.where(fits, places, -1)

    def read(self, places: Places) -> pa.Array:
        """The vectors with these numbers."""
        stored = np.memmap(self._file, "<f4", mode="r", shape=(self.rows, self._dimension))
        return vector_array(np.asarray(stored[places], np.float32), self._dimension)

    def _join(self) -> None:
        if self._parts:
            self._file.flush()
            self._addresses = np.concatenate([self._addresses, *(addresses for addresses, _ in self._parts)])
            self._texts = np.concatenate([self._texts, *(texts for _, texts in self._parts)])
            self._order = np.argsort(self._addresses, kind="stable")
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
    for batch in table.scan(image.schema.names, where=where, addresses=True):
        addresses = batch.column(ADDRESS).to_numpy()
        rows = pa.Table.from_batches([batch]).select(image.schema.names)
        changed = np.zeros(len(rows), bool)
        for target, spool in spools.items():
            given = whole(rows.column(target.name))
            places = spool.find(addresses, whole(rows.column(target.source)))
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
