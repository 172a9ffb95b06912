"""Names -> stable identities: minted once, kept through renames, stored with the schema.

A type id identifies a table and a property id identifies the values of a column, under any name. A new schema keeps the
ids of every type and property it still has: first by exact name, then by `@rename_from`. A type or property that is dropped
and later added again gets a new id.

The stored form of a catalog (`encode`) is the meaning of a schema with its identities. Its hash is the **accepted schema
identity**, which `head` names and writers compare. The `.pg` source is stored beside it and is not hashed: an edit of comments
or layout is not a change; the same source with other identities is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from omnigraph.catalog.constraints import ordered_key
from omnigraph.catalog.model import AnyType, Catalog, EdgeType, InterfaceType, Key, NodeType, Property, TypeKind
from omnigraph.catalog.resolution import RenameHint, RenameHints, ResolvedSchema, resolve
from omnigraph.catalog.schema_codes import SchemaCode, refuse
from omnigraph.errors import FormatError, Kind, LanguageError, StorageError
from omnigraph.ids import PropertyId, TypeId
from omnigraph.lang.schema import Schema

Mint = Callable[[], str]
"""Returns a fresh id at every call: `ids.new_hex16` outside of tests."""

_T = TypeVar("_T", InterfaceType, NodeType, EdgeType)
_Named = TypeVar("_Named", InterfaceType, NodeType, EdgeType, Property)

STORED_FORMAT: Final = 1


class _Stored(msgspec.Struct, frozen=True):
    format: int
    catalog: Catalog


class _FormatHeader(msgspec.Struct, frozen=True):
    format: int


def build_catalog(schema: Schema, *, mint: Mint) -> Catalog:
    """The catalog of a first schema. All its ids are new, and rename hints have no effect."""
    return identify(resolve(schema), mint=mint)


def identify(resolved: ResolvedSchema, *, mint: Mint, accepted: Catalog | None = None) -> Catalog:
    """Give every type and property its identity: the accepted one if the type or property exists already, else a minted one."""
    wanted, hints = resolved
    if accepted is None:
        accepted, hints = Catalog(), RenameHints({}, {})
    matching = _Matching(accepted, hints, mint)
    return Catalog(
        _identify_group(TypeKind.INTERFACE, wanted.interfaces, accepted.interfaces, matching),
        _identify_group(TypeKind.NODE, wanted.nodes, accepted.nodes, matching),
        _identify_group(TypeKind.EDGE, wanted.edges, accepted.edges, matching),
    )


def encode(catalog: Catalog) -> bytes:
    """The stored form: the same bytes for the same meaning and identities."""
    return msgspec.json.encode(_Stored(STORED_FORMAT, catalog))


def decode(stored: bytes) -> Catalog:
    """The catalog of a stored form. Raises `FormatError` for the form of another release and `StorageError` for damaged bytes."""
    try:
        found = msgspec.json.decode(stored, type=_FormatHeader).format
        if found != STORED_FORMAT:
            kind = Kind.FORMAT_NEWER if found > STORED_FORMAT else Kind.FORMAT_OLDER
            raise FormatError(kind, f"the schema is stored in format {found}; this release reads {STORED_FORMAT}", found=found)
        return msgspec.json.decode(stored, type=_Stored).catalog
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(Kind.CORRUPT, f"the stored schema cannot be read: {error}") from error


class _Matching(NamedTuple):
    accepted: Catalog
    hints: RenameHints
    mint: Mint


def _identify_group(kind: TypeKind, wanted: tuple[_T, ...], accepted: tuple[_T, ...], matching: _Matching) -> tuple[_T, ...]:
    hints = {name: hint for (hinted, name), hint in matching.hints.types.items() if hinted is kind}

    def missing(name: str, hint: RenameHint) -> LanguageError:
        elsewhere = next((other for other in _all_types(matching.accepted) if other.name == hint.old), None)
        if elsewhere is not None:
            return _bad_hint(f"{kind} {name}", hint, f"that is {_article(elsewhere.kind)} {elsewhere.kind}, and a rename keeps the kind")
        return _bad_hint(f"{kind} {name}", hint, "no accepted declaration has that name")

    before = _match(wanted, accepted, hints, missing=missing, label=lambda name: f"{kind} {name}")
    return tuple(_identify_type(type_, before.get(type_.name), matching) for type_ in wanted)


def _identify_type(type_: _T, before: _T | None, matching: _Matching) -> _T:
    """The type with its own id and its properties'. Fresh ids are minted in the order of the stored form."""
    type_id = before.id if before is not None else TypeId(matching.mint())
    accepted = _match_properties(type_, before, matching)
    properties = tuple(
        msgspec.structs.replace(property_, id=accepted[property_.name].id if property_.name in accepted else PropertyId(matching.mint()))
        for property_ in type_.properties
    )
    identified = msgspec.structs.replace(type_, id=type_id, properties=properties)
    if isinstance(identified, EdgeType) or isinstance(before, EdgeType) or before is None:
        return identified
    return msgspec.structs.replace(identified, key=_key_in_order(identified, before))


def _key_in_order(type_: InterfaceType | NodeType, before: InterfaceType | NodeType) -> Key | None:
    """The key's columns in the order in which ids are spelled from them. A rename changes names and never this order."""
    if type_.key is None or before.key is None:
        return type_.key
    now = {property_.id: property_.name for property_ in type_.properties}
    ordered = [now.get(property_.id) for name in before.key.columns if (property_ := before.property(name)) is not None]
    columns = tuple(name for name in ordered if name is not None)
    same = sorted(columns) == sorted(type_.key.columns)
    return ordered_key(columns, type_.key.in_declared_order) if same else type_.key


def _match_properties(type_: AnyType, before: AnyType | None, matching: _Matching) -> Mapping[str, Property]:
    hints = {name: hint for (kind, owner, name), hint in matching.hints.properties.items() if kind is type_.kind and owner == type_.name}
    accepted = before.properties if before is not None else ()
    free = {property_.name for property_ in accepted if type_.property(property_.name) is None}
    hints = {name: hint for name, hint in hints.items() if not hint.inherited or hint.old in free}

    def label(name: str) -> str:
        return f"property {type_.name}.{name}"

    def missing(name: str, hint: RenameHint) -> LanguageError:
        if before is None:
            return _bad_hint(label(name), hint, f"{type_.kind} {type_.name} is new and cannot take a property over")
        owner = next((other for other in _all_types(matching.accepted) if other.property(hint.old) is not None), None)
        if owner is not None:
            return _bad_hint(label(name), hint, f"that property belongs to {owner.kind} {owner.name}, and a rename keeps the owner")
        return _bad_hint(label(name), hint, "no accepted declaration has that name")

    return _match(type_.properties, accepted, hints, missing=missing, label=label)


def _match(
    wanted: Iterable[_Named],
    accepted: Iterable[_Named],
    hints: Mapping[str, RenameHint],
    *,
    missing: Callable[[str, RenameHint], LanguageError],
    label: Callable[[str], str],
) -> Mapping[str, _Named]:
    """Wanted name -> accepted declaration. An exact name takes precedence over a hint; each declaration is matched once."""
    by_name = {thing.name: thing for thing in accepted}
    names = [thing.name for thing in wanted]
    found = {name: by_name[name] for name in names if name in by_name}
    claimed = {name: name for name in found}
    for name in names:
        hint = hints.get(name)
        if name in found or hint is None:
            continue
        if hint.old not in by_name:
            raise missing(name, hint)
        if hint.old in claimed:
            raise _bad_hint(label(name), hint, f"{label(claimed[hint.old])} already is that declaration")
        claimed[hint.old] = name
        found[name] = by_name[hint.old]
    return found


def _bad_hint(label: str, hint: RenameHint, but: str) -> LanguageError:
    return refuse(SchemaCode.BAD_RENAME, f'{label} declares @rename_from("{hint.old}") but {but}', span=hint.span)


def _article(kind: TypeKind) -> str:
    return "a" if kind is TypeKind.NODE else "an"


def _all_types(catalog: Catalog) -> tuple[AnyType, ...]:
    return (*catalog.interfaces, *catalog.nodes, *catalog.edges)
