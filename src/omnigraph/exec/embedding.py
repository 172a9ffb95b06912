"""Texts of `@embed` sources -> vectors of their targets, for every writer; and texts in `nearest` -> vectors, for reads.

A provider may take a minute to answer, so it is never called under a lock. A writer whose preparation may run under one collects the texts
that it lacks (`TextVectors`), ends, and is prepared again with their vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, assert_never

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EntityType, Property, TypeKind
from omnigraph.catalog.types import VectorOf
from omnigraph.embed import Embedder, Purpose, Vectors, embed_texts
from omnigraph.errors import ConflictError, InvalidInput, Kind, ResourceLimitExceeded
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import Field, TypeRef
from omnigraph.store.arrays import Column, Places, joined, whole
from omnigraph.store.membership import Members

HELD_BYTES: Final = 512 << 20
"""How many bytes of vectors one mutation may hold."""
CALL_TEXTS: Final = 4_096
"""How many texts are embedded in one call. A call sends several requests at once."""
ROUNDS: Final = 8
"""How often a write is prepared again because other writers gave it new texts meanwhile."""

P = TypeVar("P")


class EmbedTarget(msgspec.Struct, frozen=True):
    """A vector property with `@embed`: the source of its texts, its dimension, and the model that is recorded, if any."""

    owner: str
    name: str
    source: str
    dimension: int
    model: str | None
    required: bool

    def check_model(self, embedder: Embedder) -> None:
        if self.model is not None and embedder.model != self.model:
            raise InvalidInput(
                Kind.EMBEDDING_MODEL,
                f"the schema records model '{self.model}' for the vectors of {self.owner}.{self.name}, but the embedding provider resolves "
                f"to '{embedder.model}'; set OMNIGRAPH_EMBED_MODEL to the recorded model, or give the vectors",
                type=self.owner,
                property=self.name,
                recorded=self.model,
                configured=embedder.model,
            )


def embed_targets(entity: EntityType) -> tuple[EmbedTarget, ...]:
    return tuple(_target(entity.name, each) for each in entity.properties if each.embed is not None)


def _target(owner: str, property_: Property) -> EmbedTarget:
    assert property_.embed is not None
    assert isinstance(property_.type, VectorOf)
    embed = property_.embed
    return EmbedTarget(owner, property_.name, embed.source, property_.type.dimension, embed.model, required=not property_.nullable)


def has_text(texts: Column) -> pa.Array:
    """Which texts can be embedded: those that are not null and not blank."""
    return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(whole(texts)), ""), fill_value=False)


def vectors_of(embedder: Embedder, texts: pa.Array, dimension: int) -> pa.Array:
    """The vectors of texts, none of them null or blank. Equal texts are embedded once."""
    encoded = texts.dictionary_encode()
    unique = encoded.dictionary
    parts = [
        embed_texts(embedder, unique.slice(start, CALL_TEXTS).to_pylist(), dimension, Purpose.DOCUMENT)
        for start in range(0, len(unique), CALL_TEXTS)
    ]
    return vector_array(np.concatenate(parts) if parts else np.zeros((0, dimension), np.float32), dimension).take(encoded.indices)


def vector_array(vectors: Vectors, dimension: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), dimension)


# -- vectors of one write


class SuppliesWanted(Exception):
    """A preparation met texts whose vectors are not known yet, or URIs whose blobs are not read yet. The write is prepared again."""


class _Known(msgspec.Struct, frozen=True):
    """Texts and their vectors."""

    texts: pa.Array
    vectors: pa.Array
    places: Members


class TextVectors:
    """The vectors of the texts of one write. A preparation takes those that are known; the others are noted, and embedded later."""

    def __init__(self, embedder: Callable[[], Embedder | None]) -> None:
        """`embedder` is called only if there is something to embed: wrong settings harm no other write."""
        self._embedder: Final = embedder
        self._known: Final[dict[int, _Known]] = {}
        self._wanted: Final[dict[int, list[pa.Array]]] = {}
        self._wanted_bytes = 0

    def of(self, target: EmbedTarget, texts: pa.Array) -> pa.Array | None:
        """The vectors of texts, none of them null or blank; zeros for those that are not known yet. None without a provider."""
        if (embedder := self._embedder()) is None:
            return None
        target.check_model(embedder)
        known = self._known.get(target.dimension)
        places: Places = np.full(len(texts), -1) if known is None else known.places.find(texts)
        if (absent := places < 0).any():
            self._want(target, pc.unique(texts.filter(pa.array(absent))))
        zeros = vector_array(np.zeros((1, target.dimension), np.float32), target.dimension)
        every = zeros if known is None else pa.concat_arrays([zeros, known.vectors])
        return every.take(pa.array(places + 1))

    def require(self) -> None:
        """Raise SuppliesWanted if the preparation met texts whose vectors are not known."""
        if self._wanted:
            raise SuppliesWanted

    def embed(self) -> None:
        """Embed the texts that were noted, if any. The caller holds no lock."""
        if not self._wanted:
            return
        wanted = {dimension: pc.unique(whole(joined(texts, pa.string()))) for dimension, texts in self._wanted.items()}
        self._wanted.clear()
        embedder = self._embedder()
        assert embedder is not None, "texts are noted only with a provider"
        for dimension, texts in wanted.items():
            vectors = vectors_of(embedder, texts, dimension)
            if (known := self._known.get(dimension)) is not None:
                texts, vectors = pa.concat_arrays([known.texts, texts]), pa.concat_arrays([known.vectors, vectors])
            self._known[dimension] = _Known(texts, vectors, Members(texts))

    def _want(self, target: EmbedTarget, texts: pa.Array) -> None:
        self._wanted.setdefault(target.dimension, []).append(texts)
        self._wanted_bytes += len(texts) * target.dimension * 4
        if self._wanted_bytes > HELD_BYTES:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"one mutation may embed {HELD_BYTES >> 20} MiB of vectors, and the texts of {target.owner}.{target.source} need more; "
                f"set {target.name} to null in the same statement, then call ensure_embeddings",
                resource="embedded_bytes",
                limit=HELD_BYTES,
                actual=self._wanted_bytes,
            )


def with_supplies(supply: Callable[[], None], write: Callable[[], P]) -> P:
    """The result of a write that is prepared again whenever it lacks vectors or blobs. `supply` gets them when its locks are released."""
    for _ in range(ROUNDS):
        try:
            return write()
        except SuppliesWanted:
            supply()
    raise ConflictError(
        Kind.CONTENTION, f"other writers changed what is embedded or read from outside {ROUNDS} times meanwhile; nothing was written"
    )


# -- texts in `nearest`


def with_query_vectors(plan: ops.ReadPlan, catalog: Catalog, embedder: Callable[[], Embedder | None]) -> ops.ReadPlan:
    """The plan with a vector in place of each text that `nearest` compares with."""
    known: dict[ir.Nearest, tuple[float, ...]] = {}

    def nearest(ranking: ir.Nearest) -> ir.Nearest:
        if not isinstance(ranking.query, str):
            return ranking
        if ranking not in known:  # a column and a key of the order are often the same ranking
            type_ = plan.bindings[ranking.field.binding].type
            assert type_ is not None
            properties = _properties(type_, ranking.field.column, catalog)
            known[ranking] = _query_vector(ranking.query, ranking.field, properties, embedder())
        return msgspec.structs.replace(ranking, query=known[ranking])

    def ranked(ranking: ir.Ranking) -> ir.Ranking:
        match ranking:
            case ir.Nearest():
                return nearest(ranking)
            case ir.Fusion(first, second):
                return msgspec.structs.replace(
                    ranking,
                    first=nearest(first) if isinstance(first, ir.Nearest) else first,
                    second=nearest(second) if isinstance(second, ir.Nearest) else second,
                )
            case ir.Bm25():
                return ranking
            case _:
                assert_never(ranking)

    def within(op: ops.Op) -> ops.Op:
        """A ranking scores the rows of the whole match, so it stands above every join and every block."""
        below: ops.Op | None = getattr(op, "input", None)
        if below is None:
            return op
        if isinstance(op, ops.Rank):
            return msgspec.structs.replace(op, ranking=ranked(op.ranking), input=within(below))
        changed = within(below)
        return op if changed is below else msgspec.structs.replace(op, input=changed)

    return msgspec.structs.replace(plan, root=within(plan.root))


def _properties(type_: TypeRef, name: str, catalog: Catalog) -> list[Property]:
    """The property of a node type, or of each type that implements an interface."""
    interface = catalog.interface(type_.name) if type_.kind is TypeKind.INTERFACE else None
    nodes = [catalog.by_id(type_.id)] if interface is None else catalog.implementing(interface)
    return [found for node in nodes if node is not None and (found := node.property(name)) is not None]


def _query_vector(text: str, field: Field, properties: list[Property], embedder: Embedder | None) -> tuple[float, ...]:
    name = field.column
    if not text.strip():
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"nearest() on '{name}' needs a text that is not blank", property=name)
    if embedder is None:
        raise InvalidInput(
            Kind.EMBEDDING_MISSING,
            f"nearest() on '{name}' compares with a text, and no embedding provider is configured; set OMNIGRAPH_EMBED_PROVIDER, "
            "or pass a vector",
            property=name,
        )
    for model in (each.embed.model for each in properties if each.embed is not None):
        if model is not None and model != embedder.model:
            raise InvalidInput(
                Kind.EMBEDDING_MODEL,
                f"nearest() on '{name}': its stored vectors were embedded with model '{model}', but the query embedder resolves to "
                f"'{embedder.model}'; set OMNIGRAPH_EMBED_MODEL to the recorded model, or pass a vector",
                property=name,
                recorded=model,
                configured=embedder.model,
            )
    assert isinstance(field.type, VectorOf)
    (vector,) = embed_texts(embedder, [text], field.type.dimension, Purpose.QUERY)
    return tuple(map(float, vector))
