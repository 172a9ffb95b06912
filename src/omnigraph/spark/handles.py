"""A location or an encoded schema -> its storage, its tables or its catalog, cached for the tasks of one process."""

from __future__ import annotations

from functools import lru_cache

from omnigraph.catalog import Catalog, decode
from omnigraph.spark.messages import Place
from omnigraph.store.root import Root, open_root
from omnigraph.store.tables import Tables


def root_of(place: Place) -> Root:
    """Return the storage of a graph."""
    return _root(place.uri, tuple(sorted(place.storage_options.items())))


def tables_of(place: Place) -> Tables:
    """Return the tables of a graph."""
    return _tables(place.uri, tuple(sorted(place.storage_options.items())))


@lru_cache(maxsize=4)
def catalog_of(stored: bytes) -> Catalog:
    """Decode the schema of a job."""
    return decode(stored)


@lru_cache(maxsize=4)
def _root(uri: str, options: tuple[tuple[str, str], ...]) -> Root:
    return open_root(uri, storage_options=dict(options))


@lru_cache(maxsize=4)
def _tables(uri: str, options: tuple[tuple[str, str], ...]) -> Tables:
    return Tables(_root(uri, options))
