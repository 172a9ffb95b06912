"""Filters that are pushed down mean to Lance exactly what they mean to Spark: random ones over every type, judged by both."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource as ds

from omnigraph.graph import Graph
from omnigraph.spark.filters import MAX_IN_VALUES, push_down, sql
from tests.spark.world import DAYS, TEXTS, TIMES, WHOLE, make_world

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

FILTERS = 400
COMPARED = {
    "id": ("k003", "k050", "", "zz"),
    "text": (*TEXTS, "b", "\x00", "z"),
    "mood": ("glad", "sad", "other"),
    "flag": (True, False),
    **{name: (*pool, *(value + 1 for value in pool if abs(value) < 2**30)) for name, pool in WHOLE.items()},
    "day": (*DAYS, DAYS[1] + timedelta(days=1)),
    "at": (*TIMES, TIMES[3] + timedelta(microseconds=1), TIMES[3] + timedelta(milliseconds=1)),
    "half": (0.0, -0.0, 0.1, float("nan")),
    "real": (0.0, -0.0, 1e300, float("nan")),
}
ORDERED = (ds.EqualTo, ds.EqualNullSafe, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual)
TEXTUAL = (ds.StringStartsWith, ds.StringEndsWith, ds.StringContains)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return make_world(tmp_path_factory.mktemp("world"))


def _pushed(column: str, value: Any) -> Any:
    return Decimal(value) if column == "huge" else value


def random_filter(rng: random.Random) -> ds.Filter:
    column = rng.choice(list(COMPARED))
    path, pool = (column,), COMPARED[column]
    value = rng.choice(pool)
    as_pushed = _pushed(column, value)
    made: ds.Filter
    match rng.randrange(6):
        case 0:
            made = rng.choice((ds.IsNull, ds.IsNotNull))(path)
        case 1:
            chosen = rng.sample(pool, rng.randrange(1, 1 + min(4, len(pool))))
            made = ds.In(path, tuple(_pushed(column, one) for one in chosen))
        case 2 if isinstance(value, str):
            made = rng.choice(TEXTUAL)(path, value[: rng.randrange(3)])
        case _:
            made = rng.choice(ORDERED)(path, as_pushed)
    return ds.Not(made) if rng.random() < 0.3 else made


def in_spark(one: ds.Filter) -> Column:
    from pyspark.sql import functions as f

    def literal(value: Any) -> Column:
        if isinstance(value, datetime):  # Python would write the year 1 without its zeros
            return f.expr(f"timestamp'{value.isoformat()}'")
        return f.expr(f"date'{value.isoformat()}'") if isinstance(value, date) else f.lit(value)

    match one:
        case ds.Not(child):
            return ~in_spark(child)
        case ds.IsNull((name,)):
            return f.col(name).isNull()
        case ds.IsNotNull((name,)):
            return f.col(name).isNotNull()
        case ds.In((name,), values):
            return f.col(name).isin([literal(value) for value in values])
        case ds.EqualTo((name,), value):
            return f.col(name) == literal(value)
        case ds.EqualNullSafe((name,), value):
            return f.col(name).eqNullSafe(literal(value))
        case ds.GreaterThan((name,), value):
            return f.col(name) > literal(value)
        case ds.GreaterThanOrEqual((name,), value):
            return f.col(name) >= literal(value)
        case ds.LessThan((name,), value):
            return f.col(name) < literal(value)
        case ds.LessThanOrEqual((name,), value):
            return f.col(name) <= literal(value)
        case ds.StringStartsWith((name,), value):
            return f.col(name).startswith(value)
        case ds.StringEndsWith((name,), value):
            return f.col(name).endswith(value)
        case ds.StringContains((name,), value):
            return f.col(name).contains(value)
    raise AssertionError(one)


def test_a_pushed_filter_keeps_the_rows_that_spark_would_keep(spark: SparkSession, world: Graph) -> None:
    """Spark judges them all in one pass over rows that nobody filtered; Lance one by one, by index and by scan, part by part."""
    rng = random.Random(11)
    filters = [random_filter(rng) for _ in range(FILTERS)]
    made = spark.read.format("omnigraph").options(graph=world.uri, type="Every").load()
    judged = made.select("id", *(in_spark(one).alias(f"f{at}") for at, one in enumerate(filters))).collect()
    entity = world.catalog.node("Every")
    row = world.engine.manifest.snapshot().state.table("node:Every")
    assert entity is not None
    assert row is not None
    table = world.engine.tables.open(row.ref)
    parts = [part.fragment_id for part in table.dataset.get_fragments()]
    taken = 0
    for at, one in enumerate(filters):
        where = sql(one, entity)
        if where is None:
            continue
        taken += 1
        expected = sorted(found["id"] for found in judged if found[f"f{at}"])
        assert sorted(table.scan(["id"], where=where).read_all().column("id").to_pylist()) == expected, (one, where)
        by_part = [id_ for part in parts for id_ in table.scan(["id"], where=where, fragments=[part]).read_all().column("id").to_pylist()]
        assert sorted(by_part) == expected, (one, where)
    assert taken > FILTERS / 2


def test_what_the_two_would_judge_differently_stays_with_spark(world: Graph) -> None:
    entity = world.catalog.node("Every")
    assert entity is not None
    left = [
        ds.EqualTo(("real",), 0.0),
        ds.GreaterThan(("half",), float("nan")),
        ds.In(("small",), (1, None)),
        ds.EqualTo(("small",), None),
        ds.GreaterThan(("count",), -1),
        ds.LessThan(("huge",), Decimal(2**64)),
        ds.EqualTo(("at",), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ds.IsNull(("data",)),
        ds.IsNotNull(("texts",)),
        ds.EqualTo(("numbers", "element"), 1),
        ds.In(("small",), tuple(range(MAX_IN_VALUES + 1))),
    ]
    assert push_down(left, entity) == (None, left)
    assert push_down([ds.Not(one) for one in left], entity)[0] is None
    assert push_down([ds.IsNull(("real",)), left[0]], entity) == ("(`real` IS NULL)", [left[0]])
