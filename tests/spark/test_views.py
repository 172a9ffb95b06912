"""Spark SQL over a graph: one view a type, all of one snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.catalog import build_catalog
from omnigraph.errors import InvalidInput
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_schema
from omnigraph.spark import register_views
from omnigraph.spark.source import view_names
from tests.spark.world import link, make_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOINED = "SELECT a.key, b.key FROM Link JOIN Every a ON a.id = src JOIN Every b ON b.id = dst ORDER BY 1, 2"


def test_views_join_what_one_snapshot_shows(spark: SparkSession, tmp_path: Path) -> None:
    graph = make_world(tmp_path)
    names = register_views(spark, graph.uri)
    assert names == {
        "node:Every": "Every",
        "node:Likes": "Likes_node",
        "node:Nobody": "Nobody",
        "edge:Likes": "Likes_edge",
        "edge:Link": "Link",
    }
    seen = [tuple(row) for row in spark.sql(JOINED).collect()]
    assert seen == [("k000", "k001"), ("k030", "k003"), ("k040", "k059")]
    commit = graph.commits(limit=1)[0].id
    graph.load([link(1, 2)])
    assert len(spark.sql(JOINED).collect()) == 3, "a view does not move"
    register_views(spark, graph, branch="main", at=commit)
    assert len(spark.sql("SELECT * FROM Link").collect()) == 3
    register_views(spark, graph)
    assert len(spark.sql("SELECT * FROM Link").collect()) == 4


def test_views_that_spark_could_not_tell_apart_are_refused() -> None:
    text = "node Film { a: String }\nnode FILM { a: String }"
    catalog = build_catalog(parse_schema(text, name="s.pg"), mint=new_hex16)
    with pytest.raises(InvalidInput, match="cannot distinguish the view of node:FILM"):
        view_names(catalog)
