"""Lines of records and a specification -> the same lines with vectors in them. No graph is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from omnigraph.embed.vectors import Embedder, Purpose, embed_texts
from omnigraph.errors import InvalidInput, Kind

WINDOW_TEXTS: Final = 1_024
"""How many texts are embedded together."""
WINDOW_LINES: Final = 16_384
"""How many lines are held until the vectors of those before them are there."""


class EmbedMode(StrEnum):
    """Which records get a vector."""

    FILL_MISSING = "fill_missing"
    """Those whose vector is missing, null or empty."""
    REEMBED_SELECTED = "reembed_selected"
    REEMBED_ALL = "reembed_all"
    CLEAN = "clean"
    """None: vectors are removed."""


class TypeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The property that gets the vector, and the properties whose values are its text."""

    target: str
    fields: tuple[str, ...]


class EmbedSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to embed: `{"dimension": 256, "types": {"Doc": {"target": "vec", "fields": ["title", "text"]}}}`."""

    dimension: int
    types: dict[str, TypeSpec]


class RecordSelector(NamedTuple):
    """Records whose property has a value, of one type or of any."""

    type: str | None
    field: str
    value: str

    @staticmethod
    def parse(text: str) -> RecordSelector:
        """`[Type:]field=value`."""
        head, equals, value = text.partition("=")
        type_, colon, field = head.rpartition(":")
        if not equals or not field or (colon and not type_):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{text}' is no selector; write [Type:]field=value")
        return RecordSelector(type_ or None, field, value)

    def matches(self, type_: str, data: Mapping[str, Any]) -> bool:
        return self.type in (None, type_) and self.field in data and _shown(data[self.field]) == self.value


class RecordSelection(msgspec.Struct, frozen=True):
    """The records that a run is about: of these types, if any are named, and chosen by one of the selectors, if there are any."""

    mode: EmbedMode
    types: frozenset[str] = frozenset()
    selectors: tuple[RecordSelector, ...] = ()

    def has(self, type_: str, data: Mapping[str, Any]) -> bool:
        chosen = not self.selectors or any(selector.matches(type_, data) for selector in self.selectors)
        return chosen and (not self.types or type_ in self.types)


class EmbeddedFile:
    """The numbers of one run. They are complete when all lines were read."""

    def __init__(self) -> None:
        self.records = 0
        self.selected = 0
        self.embedded = 0
        self.cleaned = 0


def decode_spec(value: object) -> EmbedSpec:
    """The specification in a JSON or YAML value."""
    try:
        spec = msgspec.convert(value, EmbedSpec)
    except msgspec.ValidationError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the specification of embeddings is invalid: {error}") from None
    if spec.dimension < 1 or not all(type_.target and type_.fields for type_ in spec.types.values()):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, "the specification of embeddings needs a dimension above 0, and a target and fields a type"
        )
    return spec


def embed_lines(
    lines: Iterable[bytes], spec: EmbedSpec, selection: RecordSelection, embedder: Embedder | None, done: EmbeddedFile
) -> Iterator[bytes]:
    """The lines, in order. A line without a record of a type in the specification is passed on as it is."""
    held: list[_RecordLine] = []
    texts = 0
    for number, line in enumerate(lines, start=1):
        held.append(_read(line, number, spec, selection, done))
        texts += held[-1].text is not None
        if len(held) >= WINDOW_LINES or texts >= WINDOW_TEXTS:
            yield from _written(held, spec, embedder, done)
            held, texts = [], 0
    yield from _written(held, spec, embedder, done)


class _RecordLine(NamedTuple):
    """A line as it was read; and, if it changes, its record, the target in it, and the text to embed."""

    line: bytes
    record: dict[str, Any] | None = None
    target: str = ""
    text: str | None = None


def _read(line: bytes, number: int, spec: EmbedSpec, selection: RecordSelection, done: EmbeddedFile) -> _RecordLine:
    if not line.strip():
        return _RecordLine(line)
    try:
        record = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidInput(Kind.VALIDATION, f"line {number}: invalid JSON: {error}", line=number) from None
    done.records += 1
    type_ = record.get("type") if isinstance(record, dict) else None
    if not isinstance(type_, str) or (wanted := spec.types.get(type_)) is None:
        return _RecordLine(line)
    data = record.setdefault("data", {})
    if not isinstance(data, dict):
        raise InvalidInput(Kind.VALIDATION, f"line {number}: 'data' must be an object", line=number)
    if not selection.has(type_, data):
        return _RecordLine(line)
    done.selected += 1
    if selection.mode is EmbedMode.CLEAN:
        if wanted.target not in data:
            return _RecordLine(line)
        del data[wanted.target]
        done.cleaned += 1
        return _RecordLine(line, record, wanted.target)
    if selection.mode is EmbedMode.FILL_MISSING and data.get(wanted.target) not in (None, []):
        return _RecordLine(line)
    text = _text(type_, data, wanted.fields)
    return _RecordLine(line) if text is None else _RecordLine(line, record, wanted.target, text)


def _text(type_: str, data: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """`type: T`, then a line for each field with a value; None if none has one."""
    found = [f"{field}: {shown}" for field in fields if (shown := _shown(data.get(field))).strip()]
    return "\n".join([f"type: {type_}", *found]) if found else None


def _shown(value: object) -> str:
    """A text as it is, nothing for null and what is empty, another value as JSON."""
    if value is None or value == [] or value == {}:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _written(held: Sequence[_RecordLine], spec: EmbedSpec, embedder: Embedder | None, done: EmbeddedFile) -> Iterator[bytes]:
    texts = [one.text for one in held if one.text is not None]
    if texts and embedder is None:
        raise InvalidInput(Kind.EMBEDDING_MISSING, "no embedding provider is configured; set OMNIGRAPH_EMBED_PROVIDER")
    vectors = iter([] if embedder is None else embed_texts(embedder, texts, spec.dimension, Purpose.DOCUMENT))
    done.embedded += len(texts)
    for one in held:
        if one.record is None:
            yield one.line if one.line.endswith(b"\n") else one.line + b"\n"
            continue
        if one.text is not None:
            one.record["data"][one.target] = [float(number) for number in next(vectors)]
        yield json.dumps(one.record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
