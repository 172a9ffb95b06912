"""The schemas of two branches, and of the states that both come from -> the schema of their merge, or why they have none.

A schema that the target has or had changes nothing. Types and properties that one side added are in the schema of the merge, with the
identities that they have there. Names and rules that differ would need rows to be checked that no side has checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from omnigraph.catalog import encode
from omnigraph.catalog.identity import identify
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.resolution import resolve
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.conflicts import Conflict, ConflictKind
from omnigraph.ids import SchemaHash, TypeId, new_hex16
from omnigraph.lang import parse_schema
from omnigraph.lang.schema import Declaration
from omnigraph.lang.tree import Syntax
from omnigraph.manifest.model import SchemaText
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch

_E = TypeVar("_E", NodeType, EdgeType)
_NAME: Final = "schema.pg"


class JointSchema(NamedTuple):
    """The schema of a target after a merge."""

    catalog: Catalog
    text: SchemaText | None = None
    """None if the target keeps its own."""
    taken: frozenset[TypeId] = frozenset()
    """The types that are as the source declares them. The target takes over the tables that they need."""
    extended: Mapping[TypeId, EntityType] = {}
    """The types to which both sides added properties, with those of both. The tables of the target get the columns."""


def joint_schema(engine: Engine, theirs: BranchSnapshot, ours: BranchSnapshot, bases: Sequence[BranchSnapshot]) -> JointSchema | Conflict:
    """The schema of the target after a merge, or the conflict of two schemas that have none."""
    here, there = engine.catalog(ours), engine.catalog(theirs)
    now, other = ours.state.head.schema, theirs.state.head.schema
    if other == now or _had(engine.manifest, ours.branch, other):
        return JointSchema(here)
    source = engine.manifest.schema(other, branch=theirs.branch.name)
    if _had(engine.manifest, theirs.branch, now) and _only_adds(there, here):
        return JointSchema(there, source, frozenset(entity.id for entity in there.entities))
    added = _additions(there, here, [engine.catalog(base) for base in bases])
    if isinstance(added, str):
        return _conflict(theirs, ours, added)
    target = engine.manifest.schema(now, branch=ours.branch.name)
    text = _joint_text(target.source, source.source, added)
    wanted = Catalog(here.interfaces, _joint(here.nodes, there.nodes, added), _joint(here.edges, there.edges, added))
    found = identify(resolve(parse_schema(text, name=_NAME)), mint=new_hex16, accepted=wanted)
    if found != wanted:
        return _conflict(theirs, ours, "their texts cannot be joined")
    return JointSchema(wanted, SchemaText(text, encode(wanted).decode()), frozenset(added.taken), added.extended)


def _had(manifest: Manifest, branch: Branch, schema: SchemaHash) -> bool:
    return any(commit.schema == schema for commit in manifest.history(branch.name).values())


def _conflict(theirs: BranchSnapshot, ours: BranchSnapshot, reason: str) -> Conflict:
    message = (
        f"branches {theirs.branch.name!r} and {ours.branch.name!r} have different schemas: {reason}; "
        "undo the change of the schema on one of them first"
    )
    return Conflict(ConflictKind.SCHEMA_CONFLICT, "graph", theirs.branch.name, None, message)


class _Additions(NamedTuple):
    """What the source added to the schema of the target."""

    taken: dict[TypeId, EntityType]
    """The types that only the source added, or added properties to, as it declares them."""
    extended: dict[TypeId, EntityType]
    """The types to which both added properties, with those of both."""

    def of(self, type_id: TypeId) -> EntityType | None:
        return self.taken.get(type_id) or self.extended.get(type_id)


def _additions(there: Catalog, here: Catalog, bases: Sequence[Catalog]) -> _Additions | str:
    """What the source added, or why the two schemas have no joint one."""
    if there.interfaces != here.interfaces or not all(_only_adds(side, base) for side in (here, there) for base in bases):
        return "more than types and properties was added since they parted"
    added = _Additions({}, {})
    for entity in there.entities:
        mine = here.by_id(entity.id)
        before = [base.by_id(entity.id) for base in bases]
        if mine is None:
            if (here.node if isinstance(entity, NodeType) else here.edge)(entity.name) is not None:
                return f"both added a type {entity.alias}"
            added.taken[entity.id] = entity
        elif mine != entity and all(known == mine for known in before):
            added.taken[entity.id] = entity
        elif mine != entity and any(known != entity for known in before):
            extended = _extended(mine, entity, before)
            if isinstance(extended, str):
                return extended
            added.extended[entity.id] = extended
    return added


def _extended(mine: EntityType, theirs: EntityType, bases: Sequence[EntityType | None]) -> EntityType | str:
    """A type of the target with the properties that the source added; or why it cannot have them."""
    here = {property_.id for property_ in mine.properties}
    new = [property_ for property_ in theirs.properties if property_.id not in here]
    if not all(base is not None and _plainly_adds(theirs, base) for base in bases):
        return f"both changed the declaration of {mine.alias}, and not only by new properties"
    if twice := [property_.name for property_ in new if mine.property(property_.name) is not None]:
        return f"both added a property {mine.name}.{twice[0]}"
    names = {property_.name for property_ in new}
    indexes = {*mine.indexes, *(one for one in theirs.indexes if names & {*one.columns})}
    properties = sorted((*mine.properties, *new), key=attrgetter("name"))
    return msgspec.structs.replace(mine, properties=tuple(properties), indexes=tuple(sorted(indexes, key=attrgetter("columns"))))


def _plainly_adds(theirs: EntityType, base: EntityType) -> bool:
    """Whether a declaration is that of the base but for new properties and their indexes."""
    known = {property_.id for property_ in base.properties}
    old = tuple(property_ for property_ in theirs.properties if property_.id in known)
    names = {property_.name for property_ in theirs.properties if property_.id not in known}
    indexes = tuple(one for one in theirs.indexes if not names & {*one.columns})
    return bool(msgspec.structs.replace(theirs, properties=old, indexes=indexes) == base)


def _only_adds(theirs: Catalog, ours: Catalog) -> bool:
    """Whether a schema only adds types and properties to another, and leaves names and rules as they are.

    A rule that the other side added was not checked for the rows of the target.
    """
    return all((known := theirs.by_id(entity.id)) is not None and _only_adds_to(known, entity) for entity in ours.entities)


def _only_adds_to(theirs: EntityType, ours: EntityType) -> bool:
    known = {property_.id: (property_.name, property_.type, property_.nullable) for property_ in theirs.properties}
    if any(known.get(one.id) != (one.name, one.type, one.nullable) for one in ours.properties):
        return False
    if (theirs.name, theirs.kind, theirs.uniques) != (ours.name, ours.kind, ours.uniques):
        return False
    match theirs, ours:
        case NodeType(), NodeType():
            return (theirs.key, theirs.ranges, theirs.checks) == (ours.key, ours.ranges, ours.checks)
        case EdgeType(), EdgeType():
            return (theirs.source, theirs.target, theirs.cardinality) == (ours.source, ours.target, ours.cardinality)
        case _:
            return False


def _joint(here: Sequence[_E], there: Sequence[_E], added: _Additions) -> tuple[_E, ...]:
    chosen: list[_E] = [entity for entity in here if added.of(entity.id) is None]
    chosen += [entity for entity in there if entity.id in added.taken]
    chosen += [cast(_E, added.extended[entity.id]) for entity in here if entity.id in added.extended]
    chosen.sort(key=attrgetter("name"))
    return tuple(chosen)


def _joint_text(here: str, there: str, added: _Additions) -> str:
    """The text of the target with what the source added: whole declarations in the place of its own, or at the end; properties at the
    end of its own.
    """
    own, other = _declared(here), _declared(there)
    taken, extended = ({(type(entity).__name__, entity.name): entity for entity in each.values()} for each in added)
    parts, at = list[str](), 0
    for key, mine in own.items():
        if key in taken:
            parts += [here[at : mine.span.start], _text(there, other[key])]
        elif key in extended:
            known = {property_.name.text for property_ in mine.properties}
            new = [_text(there, property_) for property_ in other[key].properties if property_.name.text not in known]
            parts += [here[at : mine.span.start], _with_properties(_text(here, mine), new)]
        else:
            continue
        at = mine.span.end
    text = "".join([*parts, here[at:]])
    new_types = [_text(there, other[key]) for key in other if key in taken and key not in own]
    return "\n".join([text.rstrip("\n"), *new_types, ""]) if new_types else text


def _with_properties(declaration: str, new: Sequence[str]) -> str:
    """A declaration with more properties before its closing brace, on lines of their own if its brace is."""
    body = declaration[: declaration.rindex("}")]
    before, after = ("\n  ", "\n") if "\n" in body else ("  ", " ")
    return "".join([body.rstrip(), *(f"{before}{one}" for one in new), after, "}"])


def _text(source: str, node: Syntax) -> str:
    return source[node.span.start : node.span.end]


def _declared(text: str) -> dict[tuple[str, str], Declaration]:
    """What a text declares by kind and name, in its order."""
    return {(type(one).__name__, one.name.text): one for one in parse_schema(text, name=_NAME).declarations}
