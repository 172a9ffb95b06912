"""A schema's trees -> a `Catalog` of types, with identities, keys and evolution. Pure: no files, no Lance."""

from omnigraph.catalog.identity import build_catalog, decode, encode
from omnigraph.catalog.model import Catalog

__all__ = ["Catalog", "build_catalog", "decode", "encode"]
