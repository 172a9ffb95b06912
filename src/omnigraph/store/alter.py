"""A table and the columns it shall have -> a staged change of its schema: renamed, dropped and added columns, no row rewritten."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.errors import Kind, Unsupported
from omnigraph.store.stage import Staged
from omnigraph.store.tables import Table


def alter(table: Table, schema: pa.Schema, *, uuid: str | None = None) -> Staged | None:
    raise Unsupported(Kind.UNSUPPORTED, f"the columns of {table.ref.path} cannot be changed to {schema.names} yet", uuid=uuid)
