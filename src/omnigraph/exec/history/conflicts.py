"""What a merge can disagree about, how the caller settles it, and the error that carries what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, MergeConflicts
from omnigraph.exec.history.changes import EntityImage
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.findings import Violation
from omnigraph.ids import EntityName

DESCRIBED: Final = 1_000
"""How many conflicts are described with their values. All are counted."""
NAMED: Final = 3
"""How many conflicts the message of the error names."""


class ConflictKind(StrEnum):
    """Stable codes of what two sides disagree about. Append only."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    CONCURRENT_CHANGE = "concurrent_change"
    """Both sides changed the entity to the same values. A conflict only for a transaction: one of two equal increments would be lost."""
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    SCHEMA_CONFLICT = "schema_conflict"


_BY_CODE: Final = {
    ProblemCode.ENDPOINT: ConflictKind.ORPHAN_EDGE,
    ProblemCode.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    ProblemCode.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}


class Conflict(msgspec.Struct, frozen=True):
    """One disagreement. `ours` is the entity on the target, `theirs` on the merged side, `base` on the state that both come from.

    None is an entity that does not exist there. `properties` are those that both sides changed differently.
    """

    kind: ConflictKind
    entity_kind: str
    type_name: str
    id: str | None
    message: str
    base: EntityImage | None = None
    ours: EntityImage | None = None
    theirs: EntityImage | None = None
    properties: tuple[str, ...] = ()


class Strategy(StrEnum):
    """What both sides may change without a conflict: different entities, or different properties of one entity too."""

    ENTITY = "entity"
    PROPERTY = "property"


class Choice(StrEnum):
    """Which side a conflict is settled for. `FAIL` settles nothing."""

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


class Settlement(msgspec.Struct, frozen=True):
    """How conflicts between entities are settled: some by their names, all others in one way.

    `strict`: an entity that both sides changed is in conflict even if the values are the same now.
    """

    strategy: Strategy = Strategy.ENTITY
    otherwise: Choice = Choice.FAIL
    chosen: Mapping[tuple[str, ...], Choice] = {}
    strict: bool = False

    def of(self, kind: str, type_name: str) -> dict[str, Choice]:
        """The choices for entities of one type, by id."""
        return {name[-1]: choice for name, choice in self.chosen.items() if names(name, kind, type_name)}

    @property
    def text(self) -> str:
        """What was asked for, for the digest of a token."""
        return repr((self.strategy.value, self.otherwise.value, sorted((*key, choice.value) for key, choice in self.chosen.items())))


def names(name: tuple[str, ...], kind: str, type_name: str) -> bool:
    """Whether this may name an entity of a type."""
    return name[-2] == type_name and (len(name) == 2 or name[0] == kind)


def settlement(strategy: str, on_conflict: str, resolve: Mapping[EntityName, str] | None) -> Settlement:
    """Check the words of a caller."""
    if strategy not in tuple(Strategy):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"strategy must be one of {', '.join(Strategy)}, not {strategy!r}", strategy=strategy)
    if on_conflict not in tuple(Choice):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"on_conflict must be one of {', '.join(Choice)}, not {on_conflict!r}", given=on_conflict)
    chosen: dict[tuple[str, ...], Choice] = {}
    for key, choice in (resolve or {}).items():
        if not (isinstance(key, tuple) and len(key) in (2, 3) and all(isinstance(part, str) for part in key)):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"a conflict is named by its type and id, or by kind, type and id, not by {key!r}")
        type_name, id_ = key[-2:]
        if len(key) == 3 and key[0] not in ("node", "edge"):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"the kind of {type_name} '{id_}' is 'node' or 'edge', not {key[0]!r}", given=key[0])
        if len(key) == 3 and key[1:] in (resolve or {}):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"{type_name} '{id_}' is named twice, with its kind and without", type=type_name, id=id_
            )
        if choice not in (Choice.OURS, Choice.THEIRS):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"{type_name} '{id_}' is settled for 'ours' or 'theirs', not for {choice!r}", type=type_name, id=id_
            )
        chosen[key] = Choice(choice)
    return Settlement(Strategy(strategy), Choice(on_conflict), chosen)


class _ChosenConflict(msgspec.Struct):
    """One entry of a file of conflicts: the part that settles it. Null leaves it open."""

    type_name: str
    id: str
    choice: str | None
    entity_kind: str | None = None


def read_choices(data: bytes, *, name: str) -> dict[tuple[str, ...], str]:
    """The choices in a JSON document: a list of conflicts as a merge prints them, each with a `choice`; or an object with that list.

    A choice of null leaves a conflict to the other ways of settling it.
    """
    try:
        found = msgspec.json.decode(data)
        listed: Any = found.get("conflicts") if isinstance(found, dict) else found
        written = msgspec.convert(listed, list[_ChosenConflict])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{name} is not a list of conflicts with `type_name`, `id` and `choice` each: {error}",
            path=name,
        ) from error
    choices: dict[tuple[str, ...], str] = {}
    for one in written:
        if one.choice is None:
            continue
        key = (one.type_name, one.id) if one.entity_kind is None else (one.entity_kind, one.type_name, one.id)
        if choices.setdefault(key, one.choice) != one.choice:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{name} settles {one.type_name} '{one.id}' twice, differently", path=name)
    return choices


def rule_conflicts(violations: Iterable[Violation]) -> list[Conflict]:
    """The rules of the schema that the merged graph would break."""
    found = []
    for broken in violations:
        kind, _, type_name = broken.type.partition(":")
        code = _BY_CODE.get(broken.code, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
        properties = () if broken.property is None else (broken.property,)
        found.append(Conflict(code, kind, type_name, broken.id, broken.message, properties=properties))
    return found


class Conflicts(msgspec.Struct, frozen=True):
    """The first conflicts of a merge, and the number of all."""

    described: tuple[Conflict, ...] = ()
    count: int = 0


def merge_error(conflicts: Conflicts, **facts: object) -> MergeConflicts:
    named = [_name(conflict) for conflict in conflicts.described[:NAMED]]
    more = [f"and {conflicts.count - len(named)} more"] if conflicts.count > len(named) else []
    message = f"merge conflicts: {'; '.join([*named, *more])}; nothing was written"
    return MergeConflicts(Kind.MERGE_CONFLICTS, message, conflicts=conflicts.described, count=conflicts.count, **facts)


def _name(conflict: Conflict) -> str:
    if conflict.id is None:  # of a schema: only the message says what does not fit
        return f"{conflict.message} ({conflict.kind})"
    return f"{conflict.entity_kind} type '{conflict.type_name}', entity id '{conflict.id}' ({conflict.kind})"
