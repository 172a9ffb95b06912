"""A graph on a disk -> its data files, and those that no version of any table names: what `cleanup` may remove one day."""

from __future__ import annotations

from pathlib import Path

import lance

from omnigraph.graph import Graph


def data_files(graph: Graph) -> set[Path]:
    return {path for path in Path(graph.uri).rglob("data/*.lance") if "__manifest" not in str(path)}


def orphans(graph: Graph) -> set[Path]:
    return data_files(graph) - {file for table in _tables(Path(graph.uri)) for file in _named(table)}


def _tables(root: Path) -> set[Path]:
    """Every folder that has versions: tables, and the native branches inside them."""
    return {path.parent for path in root.rglob("_versions") if "__manifest" not in str(path)}


def _named(table: Path) -> set[Path]:
    dataset = lance.dataset(str(table))
    versions = [lance.dataset(str(table), version=version["version"]) for version in dataset.versions()]
    return {table / "data" / file.path for one in versions for fragment in one.get_fragments() for file in fragment.data_files()}
