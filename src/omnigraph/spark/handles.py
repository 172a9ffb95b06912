"""A location or an encoded schema -> its storage, its tables or its catalog, cached for the tasks of one process."""

from __future__ import annotations

from functools import lru_cache

from omnigraph.catalog import Catalog, decode
from omnigraph.exec.load.embedded import readable_catalog
from omnigraph.spark.messages import Job, Place
from omnigraph.store.checked import Sums
from omnigraph.store.root import Root, open_root
from omnigraph.store.tables import Tables


def root_of(place: Place) -> Root:
    """Return the storage of a graph."""
    return _root(place.uri, tuple(sorted(place.storage_options.items())))


def tables_of(place: Place, sums: Sums | None = None) -> Tables:
    """Return the tables of a graph. What is read from them is compared with the checksums `sums`, which the driver found."""
    root_of(place).given.update(sums or {})
    return _tables(place.uri, tuple(sorted(place.storage_options.items())))


@lru_cache(maxsize=4)
def catalog_of(stored: bytes) -> Catalog:
    """Decode the schema of a job."""
    return decode(stored)


def readable_by(job: Job) -> Catalog:
    """Return the catalog that the records of a load are read by: with a provider, vectors may be missing."""
    catalog = catalog_of(job.catalog)
    return catalog if job.embedding is None else readable_catalog(catalog)


@lru_cache(maxsize=4)
def _root(uri: str, options: tuple[tuple[str, str], ...]) -> Root:
    return open_root(uri, storage_options=dict(options))


@lru_cache(maxsize=4)
def _tables(uri: str, options: tuple[tuple[str, str], ...]) -> Tables:
    return Tables(_root(uri, options))
