"""The constraints of a type before and after -> steps, grouped by property, and those of the body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, assert_never

from omnigraph.catalog.evolve.refusals import property_refusal, type_refusal
from omnigraph.catalog.evolve.steps import AddConstraint, IndexForm, Step
from omnigraph.catalog.model import AnyType, Check, Constraint, EdgeType, Index, Key, Range, Unique

_ORDER: Final[tuple[type[Constraint], ...]] = (Key, Unique, Index, Range, Check)


class _Subject(NamedTuple):
    """The subject of a constraint: its kind (by its index in `_ORDER`) and its columns (by their new names)."""

    rank: int
    columns: tuple[str, ...]

    @property
    def kind(self) -> type[Constraint]:
        return _ORDER[self.rank]


_Held = Mapping[_Subject, frozenset[Constraint]]
"""The constraints of each subject. Only ranges and checks can have several, or differ between two schemas."""


class ConstraintChanges(NamedTuple):
    """The steps of a type's constraints."""

    by_property: Mapping[str, tuple[Step, ...]]
    """One-column keys, unique constraints and indexes, which may be annotations of the property."""
    body: tuple[Step, ...]
    """All others, and those whose property is dropped."""


def constraint_changes(old: AnyType, new: AnyType) -> ConstraintChanges:
    """Compare by identity: a constraint over renamed properties is the same constraint."""
    now = {property_.id: property_.name for property_ in new.properties}
    names = {property_.name: now.get(property_.id, property_.name) for property_ in old.properties}
    before = _held(old.constraints, names)
    after = _held(new.constraints, {})
    by_property: dict[str, tuple[Step, ...]] = {}
    body: list[Step] = []
    for subject in sorted(_differing(before, after)):
        step = _step(new, subject, before.get(subject), after.get(subject))
        if subject.kind in (Key, Unique, Index) and len(subject.columns) == 1 and new.property(subject.columns[0]) is not None:
            by_property[subject.columns[0]] = (*by_property.get(subject.columns[0], ()), step)
        else:
            body.append(step)
    return ConstraintChanges(by_property, tuple(body))


def _held(constraints: Iterable[Constraint], names: Mapping[str, str]) -> _Held:
    held: dict[_Subject, frozenset[Constraint]] = {}
    for constraint in constraints:
        renamed = _renamed(constraint, names)
        subject = _Subject(_ORDER.index(type(renamed)), _columns(renamed))
        held[subject] = held.get(subject, frozenset()) | {renamed}
    return held


def _renamed(constraint: Constraint, names: Mapping[str, str]) -> Constraint:
    """The constraint in new names. A key's columns are sorted here: their order belongs to the type, not to the constraint."""
    match constraint:
        case Key(columns):
            return Key(_sorted(columns, names))
        case Unique(columns):
            return Unique(_sorted(columns, names))
        case Index(columns):
            return Index(_sorted(columns, names))
        case Range(property_, low, high):
            return Range(names.get(property_, property_), low, high)
        case Check(property_, pattern):
            return Check(names.get(property_, property_), pattern)
        case _:
            assert_never(constraint)


def _sorted(columns: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(names.get(column, column) for column in columns))


def _columns(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return columns
        case Range(property_) | Check(property_):
            return (property_,)
        case _:
            assert_never(constraint)


def _differing(before: _Held, after: _Held) -> Iterator[_Subject]:
    for subject in before.keys() | after.keys():
        if before.get(subject) != after.get(subject) and not _implied(subject, before, after):
            yield subject


def _implied(subject: _Subject, before: _Held, after: _Held) -> bool:
    """A key implies the index over its columns, so only the key itself can be added or removed."""
    key = _Subject(_ORDER.index(Key), subject.columns)
    return subject.kind is Index and (key in before or key in after)


def _step(new: AnyType, subject: _Subject, before: frozenset[Constraint] | None, after: frozenset[Constraint] | None) -> Step:
    if before is None and subject.kind is Index:
        return AddConstraint(new.kind, new.name, IndexForm(subject.columns))
    verb = "adding" if before is None else "removing" if after is None else "changing"
    name = subject.kind.__name__.lower()
    if len(subject.columns) == 1 and not (isinstance(new, EdgeType) and subject.columns[0] in ("src", "dst")):
        return property_refusal(new, subject.columns[0], f"{verb} @{name} on")
    return type_refusal(new, f"{verb} @{name}({', '.join(subject.columns)}) on '{new.name}'")
