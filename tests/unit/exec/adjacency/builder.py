"""A process of its own that wants an adjacency: `python -m tests.unit.exec.adjacency.builder ROOT CACHE ROWS` prints its size."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from omnigraph.exec.adjacency.topology import Topology
from omnigraph.manifest.model import TableRow
from omnigraph.store.root import open_root
from omnigraph.store.tables import Tables


def main() -> None:
    rows = msgspec.json.decode(sys.argv[3], type=list[TableRow])
    found = Topology(Tables(open_root(sys.argv[1])), Path(sys.argv[2])).adjacency(*rows)
    print(len(found), flush=True)


if __name__ == "__main__":
    main()
