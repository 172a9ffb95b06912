"""A graph -> one temporary view a type, all of one snapshot, so that Spark SQL can join them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.spark.options import STORAGE, At, opened
from omnigraph.spark.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_views(
    spark: SparkSession,
    graph: str | os.PathLike[str] | Graph,
    *,
    branch: str = MAIN,
    at: At | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Make a view of every type; the answer says what each is called: `{"node:Person": "Person"}`.

    A node and an edge type of one name, which Spark would not tell apart, become `Likes_node` and `Likes_edge`. All views show one
    snapshot; later commits do not reach them until this is called again.
    """
    from_ = opened(graph, storage_options)
    snapshot = from_._snapshot(branch, at)
    names = view_names(from_._catalog(snapshot))
    for alias, name in names.items():
        reader = spark.read.format(NAME).option("graph", from_.uri).option("type", alias).option("at", snapshot.commit)
        for key, value in from_._manifest.root.storage_options.items():
            reader = reader.option(f"{STORAGE}{key}", value)
        reader.load().createOrReplaceTempView(name)
    return names


def view_names(catalog: Catalog) -> dict[str, str]:
    """What the view of each type is called, by alias. Spark folds the case of names, so only what is left then tells two apart."""
    entities: list[EntityType] = [*catalog.nodes, *catalog.edges]
    times = Counter(entity.name.lower() for entity in entities)
    names = {
        f"{entity.kind}:{entity.name}": entity.name if times[entity.name.lower()] == 1 else f"{entity.name}_{entity.kind}"
        for entity in entities
    }
    folded = Counter(name.lower() for name in names.values())
    for alias, name in names.items():
        if folded[name.lower()] > 1:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"Spark cannot tell the view of {alias} from another one called {name}; read the types one by one"
            )
    return names
