"""A query's text, its parameters and data -> its answer: projected, grouped, made distinct, ordered and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import INTEGERS, scalar_of
from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Arithmetic,
    Bm25,
    Expr,
    FunctionCall,
    Nearest,
    Negative,
    NullOrder,
    Ordering,
    Projection,
    PropertyRef,
    Read,
    Rrf,
    Variable,
)
from omnigraph.lang.tree import Scalar, Syntax
from omnigraph.plan.check import check_read
from omnigraph.plan.expr import F64, I64, U64
from omnigraph.plan.params import bind_parameters
from tests.harness.brute.bound import Bound, Entity, types_of
from tests.harness.brute.calculate import calculated, list_of, negated, within
from tests.harness.brute.data import Data, shown_value
from tests.harness.brute.match import Matcher, apply, typed_parameters
from tests.harness.brute.text import bm25, distances, fused
from tests.harness.brute.values import Typed, same
from tests.harness.printer import print_expression

Cells: TypeAlias = tuple[object, ...]
Ranking: TypeAlias = Nearest | Bm25 | Rrf
Line: TypeAlias = tuple[Typed, ...]
"""One result: a value for every output."""

Key: TypeAlias = tuple[str, str]
"""The id and the type of an entity."""

DEFAULT_K: Final = 60


class Answer(msgspec.Struct, frozen=True):
    """Every row before the cut, in classes: the order of the classes is promised, the order inside one is not.

    Without `order` there is one class. Rows of a match that are ordered are each a class of their own, unless they agree in
    everything that breaks ties; groups and distinct rows that tie share one, since nothing breaks their ties.
    """

    columns: tuple[str, ...]
    classes: tuple[tuple[Cells, ...], ...]
    limit: int | None = None
    skip: int = 0

    @property
    def rows(self) -> tuple[Cells, ...]:
        """One of the right answers."""
        whole = tuple(row for class_ in self.classes for row in class_)[self.skip :]
        return whole[: self.limit]

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
    with located(Source(source, "query")):
        checked = check_read(query, catalog)
    parameters = typed_parameters(checked.parameters, bind_parameters(checked.parameters, params))
    assert isinstance(query.body, Read)
    matcher = _ScoredMatcher(catalog, data, parameters, now_ms=now_ms, steps=steps)
    return _Tail(query.body, matcher, catalog, data).answer()


class _Key(NamedTuple):
    """What rows are ordered by: the result at a place, or an expression."""

    by: int | Expr
    descending: bool
    nulls_first: bool


class _ScoredMatcher(Matcher):
    """A matcher that knows scores, once all rows are known."""

    scores: dict[Ranking, dict[Key, float]]

    def score(self, ranking: Ranking, bound: Bound) -> Typed:
        entity = bound[_ranked(ranking).variable.name]
        assert isinstance(entity, Entity)
        return Typed(None if entity.id is None else self.scores[ranking].get((entity.id, entity.type.name)), F64)


class _Tail:
    """What happens to the rows of a match: `return`, `order`, `skip`, `limit`."""

    def __init__(self, read: Read, matcher: _ScoredMatcher, catalog: Catalog, data: Data) -> None:
        self._read = read
        self._catalog = catalog
        self._matcher = matcher
        self._data = data
        self._nothing = matcher.nothing(read.match)
        self._skip = self._count(read.skip) or 0
        self._limit = self._count(read.limit)
        self._scores: dict[Ranking, dict[Key, float]] = {}
        matcher.scores = self._scores

    def answer(self) -> Answer:
        rows = sorted(self._matcher.rows(self._read.match, {}), key=_ids)
        grouped = any(_holds_aggregate(projection.value) for projection in self._read.returns)
        keys = [self._key(ordering, outputs_only=grouped or self._read.distinct) for ordering in self._read.order]
        leading = self._ranking(keys[0]) if keys else None
        for projection in self._read.returns:
            self._score(projection.value, rows, leading)
        if leading is not None:
            if not isinstance(keys[0].by, int):
                keys = keys[:1]  # what follows a ranking is ignored
            self._score(leading, rows, leading)
            rows = [row for row in rows if self._value(leading, row).value is not None]
        classes = self._groups(rows, keys) if grouped else self._distinct(rows, keys) if self._read.distinct else self._list(rows, keys)
        columns = tuple(map(column_name, self._read.returns))
        return Answer(columns, tuple(tuple(_shown(line) for line in class_) for class_ in classes), self._limit, self._skip)

    def _count(self, count: int | Variable | None) -> int | None:
        if not isinstance(count, Variable):
            return count
        given = self._matcher.value(count, {}).value
        assert isinstance(given, int)
        if given < 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"parameter '{count.name}' is negative")
        return given

    def _key(self, ordering: Ordering, *, outputs_only: bool) -> _Key:
        """A sort key with its name looked up, or the refusal of one that leads nowhere."""
        descending = isinstance(ordering.key, Bm25 | Rrf) or ordering.descending
        nulls_first = not descending if ordering.nulls is None else ordering.nulls is NullOrder.FIRST
        match ordering.key:
            case AliasRef(name=name):
                named = [at for at, shown in enumerate(self._read.returns) if column_name(shown) == name]
                return _Key(_found(named, name, ordering), descending, nulls_first)
            case key if outputs_only and not isinstance(key, Nearest | Bm25 | Rrf):  # only results are left, each under its own name
                plain = [at for at, shown in enumerate(self._read.returns) if shown.value == key and shown.alias is None]
                return _Key(_found(plain, _name(key), ordering), descending, nulls_first)
            case key:
                return _Key(key, descending, nulls_first)

    def _ranking(self, key: _Key) -> Ranking | None:
        """The ranking a sort key stands for, if it does."""
        expr = self._read.returns[key.by].value if isinstance(key.by, int) else key.by
        return expr if isinstance(expr, Nearest | Bm25 | Rrf) else None

    # rows as they are

    def _list(self, rows: list[Bound], keys: Sequence[_Key]) -> Iterable[Sequence[Line]]:
        if not keys:
            return [[self._line(row) for row in rows]]
        return [[self._line(row) for row in class_] for class_ in self._sorted(rows, keys)]

    def _sorted(self, rows: list[Bound], keys: Sequence[_Key]) -> list[list[Bound]]:
        """Ties are broken by the ids of all named variables, in the order of the names: `rows` come in that order."""

        def value(row: Bound, key: _Key) -> Any:
            return self._value(self._read.returns[key.by].value if isinstance(key.by, int) else key.by, row).value

        return _tied(rows, keys, value, ties=_ids)

    def _line(self, row: Bound) -> Line:
        return tuple(self._value(projection.value, row) for projection in self._read.returns)

    def _value(self, expr: Expr, row: Bound) -> Typed:
        return self._matcher.value(expr, row)

    # distinct rows

    def _distinct(self, rows: list[Bound], keys: Sequence[_Key]) -> Iterable[Sequence[Line]]:
        if keys and not isinstance(keys[0].by, int):  # a ranking: the best rows, in its order
            return [[line] for line in _once(map(self._line, self._best_rows(rows, keys)))]
        return _tied(_once(map(self._line, rows)), keys, _result)

    def _best_rows(self, rows: list[Bound], keys: Sequence[_Key]) -> list[Bound]:
        return [row for class_ in self._sorted(rows, keys) for row in class_][: self._limit]

    # groups

    def _groups(self, rows: list[Bound], keys: Sequence[_Key]) -> Iterable[Sequence[Line]]:
        if keys and not isinstance(keys[0].by, int):  # a ranking: the groups are formed of the best rows only
            rows, keys = self._best_rows(rows, keys), ()
        grouping = [projection.value for projection in self._read.returns if not _holds_aggregate(projection.value)]
        groups: dict[tuple[object, ...], list[Bound]] = {} if grouping else {(): []}
        for row in rows:
            groups.setdefault(tuple(same(self._value(expr, row).value) for expr in grouping), []).append(row)
        lines = [tuple(self._group_value(projection.value, members) for projection in self._read.returns) for members in groups.values()]
        return _tied(_once(lines) if self._read.distinct else lines, keys, _result)

    def _group_value(self, expr: Expr, members: list[Bound]) -> Typed:
        match expr:
            case Aggregate():
                return self._aggregate(expr, members)
            case _ if not _holds_aggregate(expr):
                return self._value(expr, members[0] if members else self._nothing)
            case Arithmetic(left=left, operator=operator, right=right):
                return calculated(self._group_value(left, members), operator, self._group_value(right, members))
            case Negative(operand=operand):
                return negated(self._group_value(operand, members))
            case FunctionCall(name=name, arguments=arguments):
                return apply(name.text, [self._group_value(argument, members) for argument in arguments])
            case _:
                raise AssertionError("nothing else holds an aggregate")

    def _aggregate(self, expr: Aggregate, members: list[Bound]) -> Typed:
        if expr.argument is None:
            return Typed(len(members), I64)
        known = [typed for row in members if (typed := self._value(expr.argument, row)).value is not None]
        type_ = F64 if isinstance(expr.argument, Nearest | Bm25 | Rrf) else self._value(expr.argument, self._nothing).type
        if expr.distinct:
            known = [typed for (typed,) in _once((typed,) for typed in known)]
        return aggregate(expr.function, Typed(None, type_), known)

    # rankings

    def _score(self, expr: Expr, rows: list[Bound], leading: Ranking | None) -> None:
        for inner in _rankings(expr):
            self._scores[inner] = self._scored(inner, rows, leads=inner == leading)

    def _scored(self, ranking: Ranking, rows: list[Bound], *, leads: bool) -> dict[Key, float]:
        """The scores of the ranked entities. A fusion that leads the order looks only as deep as the limit into its arms."""
        field = _ranked(ranking)
        entities: dict[Key, Entity] = {}
        for row in rows:
            entity = row[field.variable.name]
            if isinstance(entity, Entity) and entity.id is not None:
                entities[entity.id, entity.type.name] = entity
        match ranking:
            case Nearest(query=query):
                vectors: dict[Key, Any] = {key: (entity.row or {})[field.property.text] for key, entity in entities.items()}
                vector: Any = self._matcher.value(query, {}).value
                return distances(vectors, vector)
            case Bm25(query=query):
                declared = self._nothing[field.variable.name]
                assert isinstance(declared, Entity)
                types = [node.name for node in types_of(self._catalog, declared.declared)]
                texts: dict[Key, Any] = {
                    (str(row["id"]), name): row[field.property.text] for name in types for row in self._data.nodes[name]
                }
                text: Any = self._matcher.value(query, {}).value
                return bm25(texts, text, set(entities))
            case Rrf(first=first, second=second, k=k):
                grouped = self._read.distinct or any(_holds_aggregate(projection.value) for projection in self._read.returns)
                depth = None if self._limit is None or not leads else self._limit + (0 if grouped else self._skip)
                arms = [_best(self._scored(arm, rows, leads=False), smallest=isinstance(arm, Nearest)) for arm in (first, second)]
                number: Any = DEFAULT_K if k is None else self._matcher.value(k, {}).value
                return fused([arm[:depth] for arm in arms], number)
            case _:
                assert_never(ranking)


# order


def _ids(row: Bound) -> list[tuple[bool, str, str]]:
    """The ids of all named variables in the order of the names, a missing one first; a path has none.

    Nodes of several types of an interface may share an id: their order is then that of their types.
    """
    entities = (row[name] for name in sorted(row))
    return [(entity.id is not None, entity.id or "", entity.type.name) for entity in entities if isinstance(entity, Entity)]


def _tied(
    items: list[Any], keys: Sequence[_Key], value: Callable[[Any, _Key], Any], *, ties: Callable[[Any], object] | None = None
) -> list[list[Any]]:
    """Items in order, in classes of those that tie. `ties` tells apart what the keys do not."""
    if not keys:
        return [items]
    for key in reversed(keys):  # sorting is stable, in both directions
        values = [value(item, key) for item in items]
        known = sorted((at for at, found in enumerate(values) if found is not None), key=values.__getitem__, reverse=key.descending)
        unknown = [at for at, found in enumerate(values) if found is None]
        items = [items[at] for at in (unknown + known if key.nulls_first else known + unknown)]
    classes: list[list[Any]] = []
    last: object = None
    for item in items:
        place = ([same(value(item, key)) for key in keys], None if ties is None else ties(item))
        if classes and place == last:
            classes[-1].append(item)
        else:
            classes.append([item])
        last = place
    return classes


def _result(line: Line, key: _Key) -> Any:
    assert isinstance(key.by, int)
    return line[key.by].value


def _once(lines: Iterable[Line]) -> list[Line]:
    """Each line once: the first of those that are equal."""
    seen: dict[tuple[object, ...], Line] = {}
    for line in lines:
        seen.setdefault(tuple(same(typed.value) for typed in line), line)
    return list(seen.values())


def _found(places: Sequence[int], name: str, ordering: Ordering) -> int:
    if not places:
        raise LanguageError(Kind.TYPE, f"alias '{name}' not found for ordering", span=ordering.key.span)
    return places[-1]


# aggregates


def aggregate(function: AggregateFunction, nothing: Typed, known: Sequence[Typed]) -> Typed:
    """One result of many values, none of them null. `nothing` is a null of their type."""
    values: list[Any] = [typed.value for typed in known]
    match function:
        case AggregateFunction.COUNT:
            return Typed(len(values), I64)
        case AggregateFunction.SUM:
            return _sum(values, nothing)
        case AggregateFunction.AVG:
            return Typed(sum(map(float, values)) / len(values) if values else None, F64)
        case AggregateFunction.MIN:
            return Typed(min(values, default=None), nothing.type)
        case AggregateFunction.MAX:
            return Typed(max(values, default=None), nothing.type)
        case AggregateFunction.COLLECT:
            return Typed(tuple(values), list_of(nothing.type))
        case _:
            assert_never(function)


def _sum(values: Sequence[Any], nothing: Typed) -> Typed:
    """Exact for integers: only the total has to fit."""
    scalar = scalar_of(nothing.type)
    if scalar not in INTEGERS:
        return Typed(sum(map(float, values)) if values else None, F64)
    type_ = U64 if scalar is Scalar.U64 else I64
    return Typed(within(sum(values), type_) if values else None, type_)


def _holds_aggregate(value: object) -> bool:
    return any(isinstance(part, Aggregate) for part in _parts(value))


def _rankings(value: object) -> list[Ranking]:
    return [part for part in _parts(value) if isinstance(part, Nearest | Bm25 | Rrf)]


def _parts(value: object) -> Iterable[Syntax]:
    """A tree and everything in it."""
    match value:
        case tuple():
            for item in value:
                yield from _parts(item)
        case Syntax():
            yield value
            for field in value.__struct_fields__:
                yield from _parts(getattr(value, field))
        case _:
            return


# names


def column_name(projection: Projection) -> str:
    """The alias, or the expression as it is written, without the signs of its variables."""
    return _name(projection.value) if projection.alias is None else projection.alias.text


def _name(expr: Expr) -> str:
    return print_expression(_unsigned(expr))


def _unsigned(value: Any) -> Any:
    match value:
        case Variable(name=name):
            return AliasRef(name)
        case PropertyRef(variable=variable, property=property_):
            return AliasRef(f"{variable.name}.{property_}")
        case tuple():
            return tuple(map(_unsigned, value))
        case Syntax():
            return msgspec.structs.replace(value, **{field: _unsigned(getattr(value, field)) for field in value.__struct_fields__})
        case _:
            return value


def _shown(line: Line) -> Cells:
    return tuple(shown_value(typed.value, typed.type) for typed in line)


def _ranked(ranking: Ranking) -> PropertyRef:
    field = ranking.first.field if isinstance(ranking, Rrf) else ranking.field
    assert isinstance(field, PropertyRef)
    return field


def _best(scores: Mapping[Key, float], *, smallest: bool) -> list[Key]:
    return sorted(scores, key=lambda id_: (scores[id_] if smallest else -scores[id_], id_))
