"""The columns that a change sets -> the vectors of `@embed` properties that it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.embedding import EmbedTarget, TextVectors, embed_targets, has_text
from omnigraph.exec.problems import EMBED_REMEDY
from omnigraph.exec.write.image import Image
from omnigraph.store.arrays import Column, Mask, whole

OldColumn = Callable[[str], Column]
"""A column of the rows before the change."""


def kept_columns(image: Image, values: Iterable[str]) -> list[str]:
    """The columns that a change of some properties keeps, and the texts whose vectors are kept if they stay the same."""
    named = set(values)
    sources = {target.source for target in embed_targets(image.entity) if target.name not in named}
    return [name for name in image.schema.names if name not in named or name in sources]


def embedded(
    vectors: TextVectors, image: Image, new: Mapping[str, Column], count: int, old: OldColumn | None = None
) -> dict[str, pa.Array]:
    """The vectors of `@embed` properties that a change leaves out, if it sets their texts. A text that stays keeps its vector.

    Without a provider the vector of a new text is null: the old one is the vector of another text.
    """
    return {
        target.name: _column(vectors, target, image.schema.field(target.name).type, whole(new[target.source]), count, old)
        for target in embed_targets(image.entity)
        if target.source in new and target.name not in new
    }


def _column(vectors: TextVectors, target: EmbedTarget, type_: pa.DataType, texts: pa.Array, count: int, old: OldColumn | None) -> pa.Array:
    same = np.zeros(count, bool) if old is None else _equal(texts, whole(old(target.source)))
    wanted = ~same & has_text(texts).to_numpy(zero_copy_only=False)
    made = vectors.of(target, texts.filter(pa.array(wanted))) if wanted.any() else None
    places = np.full(count, -1)
    places[same] = np.flatnonzero(same)
    every = pa.nulls(count, type_) if old is None else whole(old(target.name)).cast(type_)
    if made is not None:
        places[wanted] = np.arange(count, count + len(made))
        every = pa.concat_arrays([every, made.cast(type_)])
    column = every.take(pa.array(places, mask=places < 0))
    if target.required and column.null_count:
        without_provider = made is None and wanted.any()
        why = EMBED_REMEDY if without_provider else f"its source '{target.source}' has no text to embed"
        message = f"missing required property '{target.name}': {why}"
        raise InvalidInput(Kind.VALIDATION, message, property=target.name, type=f"node:{target.owner}")
    return column


def _equal(one: pa.Array, other: pa.Array) -> Mask:
    same: Mask = pc.fill_null(pc.equal(one, other), fill_value=False).to_numpy(zero_copy_only=False)
    return same
