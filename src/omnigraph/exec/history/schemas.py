"""The schemas of two branches, and of the states that both come from -> the schema of their merge, or why they have none.

A schema that the target has or had changes nothing. Types and properties that one side added are in the schema of the merge, with the
identities that they have there. Names and rules that differ would need rows to be checked that no side has checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from omnigraph.catalog import encode
from omnigraph.catalog.identity import identify
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.resolution import resolve
from omnigraph.errors import Span
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.conflicts import Conflict, ConflictKind
from omnigraph.ids import SchemaHash, TypeId, new_hex16
from omnigraph.lang import parse_schema
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


def joint_schema(engine: Engine, theirs: BranchSnapshot, ours: BranchSnapshot, bases: Sequence[BranchSnapshot]) -> JointSchema | Conflict:
    """The schema of the target after a merge, or the conflict of two schemas that have none."""
    here, there = engine.catalog(ours), engine.catalog(theirs)
    now, other = ours.state.head.schema, theirs.state.head.schema
    if other == now or _had(engine.manifest, ours.branch, other):
        return JointSchema(here)
    source = engine.manifest.schema(other, branch=theirs.branch.name)
    if _had(engine.manifest, theirs.branch, now) and _only_adds(there, here):
        return JointSchema(there, source, frozenset(entity.id for entity in there.entities))
    taken = _additions(there, here, [engine.catalog(base) for base in bases])
    if isinstance(taken, str):
        return _conflict(theirs, ours, taken)
    target = engine.manifest.schema(now, branch=ours.branch.name)
    text = _joint_text(target.source, source.source, {(type(entity).__name__, entity.name) for entity in taken.values()})
    wanted = Catalog(here.interfaces, _joint(here.nodes, there.nodes, taken), _joint(here.edges, there.edges, taken))
    found = identify(resolve(parse_schema(text, name=_NAME)), mint=new_hex16, accepted=wanted)
    if found != wanted:
        return _conflict(theirs, ours, "their texts cannot be joined")
    return JointSchema(wanted, SchemaText(text, encode(wanted).decode()), frozenset(taken))


def _had(manifest: Manifest, branch: Branch, schema: SchemaHash) -> bool:
    return any(commit.schema == schema for commit in manifest.history(branch.name).values())


def _conflict(theirs: BranchSnapshot, ours: BranchSnapshot, reason: str) -> Conflict:
    message = (
        f"branches {theirs.branch.name!r} and {ours.branch.name!r} have different schemas: {reason}; "
        "undo the change of the schema on one of them first"
    )
    return Conflict(ConflictKind.SCHEMA_CONFLICT, "graph", theirs.branch.name, None, message)


def _additions(there: Catalog, here: Catalog, bases: Sequence[Catalog]) -> dict[TypeId, EntityType] | str:
    """The types that only the source added, or added properties to; or why the two schemas have no joint one."""
    if there.interfaces != here.interfaces or not all(_only_adds(side, base) for side in (here, there) for base in bases):
        return "more than types and properties was added since they parted"
    taken: dict[TypeId, EntityType] = {}
    for entity in there.entities:
        mine = here.by_id(entity.id)
        before = [base.by_id(entity.id) for base in bases]
        if mine is None:
            if (here.node if isinstance(entity, NodeType) else here.edge)(entity.name) is not None:
                return f"both added a type {entity.alias}"
            taken[entity.id] = entity
        elif mine != entity and all(known == mine for known in before):
            taken[entity.id] = entity
        elif mine != entity and any(known != entity for known in before):
            return f"both changed the declaration of {entity.alias}"
    return taken


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


def _joint(here: Sequence[_E], there: Sequence[_E], taken: Mapping[TypeId, EntityType]) -> tuple[_E, ...]:
    chosen: list[_E] = [entity for entity in here if entity.id not in taken]
    chosen += [entity for entity in there if entity.id in taken]
    chosen.sort(key=attrgetter("name"))
    return tuple(chosen)


def _joint_text(here: str, there: str, taken: set[tuple[str, str]]) -> str:
    """The text of the target with the declarations of the source that are taken: in the place of its own, or at the end."""
    own = _declared(here)
    wanted = {key: there[span.start : span.end] for key, span in _declared(there).items() if key in taken}
    parts, at = list[str](), 0
    for key, span in own.items():
        if key in wanted:
            parts += [here[at : span.start], wanted[key]]
            at = span.end
    text = "".join([*parts, here[at:]])
    added = [declaration for key, declaration in wanted.items() if key not in own]
    return "\n".join([text.rstrip("\n"), *added, ""]) if added else text


def _declared(text: str) -> dict[tuple[str, str], Span]:
    """Where a text declares each kind and name, in its order."""
    return {(type(one).__name__, one.name.text): one.span for one in parse_schema(text, name=_NAME).declarations}
