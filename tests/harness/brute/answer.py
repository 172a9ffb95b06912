"""A query's text, its parameters and data -> its answer: projected, grouped, ordered and cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from omnigraph.catalog.model import Catalog
from omnigraph.errors import Kind, LanguageError
from omnigraph.lang import parse_queries, select_query
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Bm25,
    Expr,
    Nearest,
    Now,
    Ordering,
    Projection,
    PropertyRef,
    Read,
    Rrf,
    Variable,
)
from omnigraph.plan.check import check_read
from omnigraph.plan.expr import F64, I64, Value
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.type_codes import NOW_PARAMETER
from tests.harness.brute.data import Data, shown_value
from tests.harness.brute.match import Bound, Matcher, typed_parameters
from tests.harness.brute.text import bm25, distances, fused
from tests.harness.brute.values import Typed

Cells: TypeAlias = tuple[object, ...]
Ranking: TypeAlias = Nearest | Bm25 | Rrf

DEFAULT_K: Final = 60


class Answer(msgspec.Struct, frozen=True):
    """Every row before the limit, in classes: the order of the classes is promised, the order inside one is not.

    Without `order` there is one class. Rows of a match that are ordered are each a class of their own; groups that tie
    share one, since nothing breaks their ties.
    """

    columns: tuple[str, ...]
    classes: tuple[tuple[Cells, ...], ...]
    limit: int | None = None

    @property
    def rows(self) -> tuple[Cells, ...]:
        """One of the right answers."""
        return tuple(row for class_ in self.classes for row in class_)[: self.limit]

    @property
    def ordered(self) -> bool:
        return all(len(class_) == 1 for class_ in self.classes)


def answer(
    source: str,
    params: object,
    *,
    catalog: Catalog,
    data: Data,
    name: str | None = None,
    now_ms: int = 0,
    steps: int | None = None,
) -> Answer:
    """What a read answers. With `steps`, `TooManyRows` instead of a loop that goes round more often."""
    query = select_query(parse_queries(source), name)
    checked = check_read(query, catalog)
    parameters = typed_parameters(checked.parameters, bind_parameters(checked.parameters, params))
    assert isinstance(query.body, Read)
    matcher = Matcher(catalog, data, parameters, now_ms=now_ms, steps=steps)
    return _Tail(query.body, matcher, data).answer()


class _Key(NamedTuple):
    """What rows are ordered by: the result at a place, a property or a ranking."""

    by: int | PropertyRef | Ranking
    descending: bool


class _Tail:
    """What happens to the rows of a match: `return`, `order`, `limit`."""

    def __init__(self, read: Read, matcher: Matcher, data: Data) -> None:
        self._read = read
        self._matcher = matcher
        self._data = data
        self._scores: dict[Ranking, dict[str, float]] = {}

    def answer(self) -> Answer:
        rows = list(self._matcher.rows(self._read.match, {}))
        grouped = any(isinstance(projection.value, Aggregate) for projection in self._read.returns)
        keys = [self._key(ordering, grouped=grouped) for ordering in self._read.order]
        leading = self._ranking(keys[0]) if keys else None
        for projection in self._read.returns:
            self._score(projection.value, rows, leading)
        if leading is not None:
            keys = keys[:1]  # what follows a ranking is ignored
            self._score(leading, rows, leading)
            rows = [row for row in rows if self._value(leading, row).value is not None]
        classes = self._groups(rows, keys) if grouped else self._list(rows, keys)
        columns = tuple(map(column_name, self._read.returns))
        return Answer(columns, tuple(tuple(class_) for class_ in classes), self._read.limit)

    def _key(self, ordering: Ordering, *, grouped: bool) -> _Key:
        """A sort key with its name looked up, or the refusal of one that leads nowhere."""
        match ordering.key:
            case PropertyRef() if not grouped:
                return _Key(ordering.key, ordering.descending)
            case PropertyRef():  # after grouping only results are left, a property under its own name
                plain = [at for at, shown in enumerate(self._read.returns) if shown.value == ordering.key and shown.alias is None]
                return _Key(_found(plain, _name(ordering.key), ordering), ordering.descending)
            case AliasRef(name=name):
                named = [at for at, shown in enumerate(self._read.returns) if column_name(shown) == name]
                return _Key(_found(named, name, ordering), ordering.descending)
            case Nearest():
                return _Key(ordering.key, descending=False)
            case Bm25() | Rrf():
                return _Key(ordering.key, descending=True)
            case _:
                raise LanguageError(Kind.TYPE, "unsupported ordering expression", span=ordering.key.span)

    def _ranking(self, key: _Key) -> Ranking | None:
        """The ranking a sort key stands for, if it does."""
        expr = self._read.returns[key.by].value if isinstance(key.by, int) else key.by
        return expr if isinstance(expr, Nearest | Bm25 | Rrf) else None

    # rows as they are

    def _list(self, rows: list[Bound], keys: Sequence[_Key]) -> Iterable[Sequence[Cells]]:
        if not keys:
            return [[self._cells(row) for row in rows]]
        return [[self._cells(row)] for row in self._sorted(rows, keys)]

    def _sorted(self, rows: list[Bound], keys: Sequence[_Key]) -> list[Bound]:
        """Ties are broken by the ids of all named variables, in the order of the names."""
        rows = sorted(rows, key=lambda row: [row[name].id for name in sorted(row)])
        for key in reversed(keys):  # sorting is stable, in both directions
            expr = self._read.returns[key.by].value if isinstance(key.by, int) else key.by
            values = [nulls_first(self._value(expr, row).value) for row in rows]
            rows = [rows[at] for at in sorted(range(len(rows)), key=values.__getitem__, reverse=key.descending)]
        return rows

    def _cells(self, row: Bound) -> Cells:
        return tuple(_shown(self._value(projection.value, row)) for projection in self._read.returns)

    def _value(self, expr: Expr, row: Bound) -> Typed:
        if isinstance(expr, Nearest | Bm25 | Rrf):
            return Typed(self._scores[expr].get(row[_ranked(expr).variable.name].id), F64)
        return self._matcher.value(expr, row)

    # groups

    def _groups(self, rows: list[Bound], keys: Sequence[_Key]) -> Iterable[Sequence[Cells]]:
        if keys and self._ranking(keys[0]) is not None:  # the groups are formed of the best rows only
            rows, keys = self._sorted(rows, keys)[: self._read.limit], ()
        grouping = [projection.value for projection in self._read.returns if not isinstance(projection.value, Aggregate)]
        groups: dict[tuple[Value, ...], list[Bound]] = {} if grouping else {(): []}
        for row in rows:
            groups.setdefault(tuple(self._value(expr, row).value for expr in grouping), []).append(row)
        values = [tuple(self._group_value(projection.value, members) for projection in self._read.returns) for members in groups.values()]
        return [[tuple(map(_shown, group)) for group in class_] for class_ in _tied(values, keys)]

    def _group_value(self, expr: Expr, members: list[Bound]) -> Typed:
        if not isinstance(expr, Aggregate):
            return self._value(expr, members[0])
        return aggregate(expr.function, [self._value(expr.argument, row) for row in members])

    # rankings

    def _score(self, expr: Expr, rows: list[Bound], leading: Ranking | None) -> None:
        inner = expr.argument if isinstance(expr, Aggregate) else expr
        if isinstance(inner, Nearest | Bm25 | Rrf):
            self._scores[inner] = self._scored(inner, rows, leads=inner == leading)

    def _scored(self, ranking: Ranking, rows: list[Bound], *, leads: bool) -> dict[str, float]:
        """The scores of the ranked entities. A fusion that leads the order looks only as deep as the limit into its arms."""
        field = _ranked(ranking)
        entities = {row[field.variable.name].id: row[field.variable.name] for row in rows}
        match ranking:
            case Nearest(query=query):
                vectors: dict[str, Any] = {id_: entity.row[field.property.text] for id_, entity in entities.items()}
                vector: Any = self._matcher.value(query, {}).value
                return distances(vectors, vector)
            case Bm25(query=query):
                type_name = next((entity.type.name for entity in entities.values()), None)
                texts: dict[str, Any] = {str(row["id"]): row[field.property.text] for row in self._data.nodes.get(type_name or "", [])}
                text: Any = self._matcher.value(query, {}).value
                return bm25(texts, text, set(entities))
            case Rrf(first=first, second=second, k=k):
                depth = self._read.limit if leads else None
                arms = [_best(self._scored(arm, rows, leads=False), smallest=isinstance(arm, Nearest)) for arm in (first, second)]
                number: Any = DEFAULT_K if k is None else self._matcher.value(k, {}).value
                return fused([arm[:depth] for arm in arms], number)
            case _:
                assert_never(ranking)


def _tied(groups: list[tuple[Typed, ...]], keys: Sequence[_Key]) -> list[list[tuple[Typed, ...]]]:
    """Groups in order, those that tie together."""
    if not keys:
        return [groups]
    positions = []
    for key in reversed(keys):
        assert isinstance(key.by, int)
        positions.append(key.by)
        values = [nulls_first(group[key.by].value) for group in groups]
        groups = [groups[at] for at in sorted(range(len(groups)), key=values.__getitem__, reverse=key.descending)]
    classes: list[list[tuple[Typed, ...]]] = []
    for group in groups:
        if classes and all(classes[-1][0][at].value == group[at].value for at in positions):
            classes[-1].append(group)
        else:
            classes.append([group])
    return classes


def _found(places: Sequence[int], name: str, ordering: Ordering) -> int:
    """Of two results with one name, the one a row of JSON would show."""
    if not places:
        raise LanguageError(Kind.TYPE, f"alias '{name}' not found for ordering", span=ordering.key.span)
    return places[-1]


def aggregate(function: AggregateFunction, values: Sequence[Typed]) -> Typed:
    """One result of many values; nulls are left out."""
    known: list[Any] = [typed.value for typed in values if typed.value is not None]
    match function:
        case AggregateFunction.COUNT:
            return Typed(len(known), I64)
        case AggregateFunction.SUM:
            return Typed(sum(map(float, known)) if known else None, F64)
        case AggregateFunction.AVG:
            return Typed(sum(map(float, known)) / len(known) if known else None, F64)
        case AggregateFunction.MIN:
            return Typed(min(known, default=None), values[0].type if values else F64)
        case AggregateFunction.MAX:
            return Typed(max(known, default=None), values[0].type if values else F64)
        case _:
            assert_never(function)


def column_name(projection: Projection) -> str:
    """The alias, or what a column is called without one."""
    return _name(projection.value) if projection.alias is None else projection.alias.text


def _name(expr: Expr) -> str:
    match expr:
        case PropertyRef(variable=variable, property=property_):
            return f"{variable.name}.{property_}"
        case Variable(name=name) | AliasRef(name=name):
            return name
        case Aggregate(argument=argument):
            return _name(argument)
        case Now():
            return NOW_PARAMETER
        case Nearest():
            return "nearest"
        case Bm25():
            return "bm25"
        case Rrf():
            return "rrf"
        case _:
            return "literal"


def nulls_first(value: Any) -> tuple[bool, Any]:
    """A sort key: null is the smallest of all."""
    return (value is not None, 0 if value is None else value)


def _shown(typed: Typed) -> object:
    return shown_value(typed.value, typed.type)


def _ranked(ranking: Ranking) -> PropertyRef:
    field = ranking.first.field if isinstance(ranking, Rrf) else ranking.field
    assert isinstance(field, PropertyRef)
    return field


def _best(scores: Mapping[str, float], *, smallest: bool) -> list[str]:
    return sorted(scores, key=lambda id_: (scores[id_] if smallest else -scores[id_], id_))
