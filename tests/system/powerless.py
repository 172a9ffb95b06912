"""The command line without the rights of root: `python -m tests.system.powerless ARGUMENTS`."""

from __future__ import annotations

# Nobody may not be able to import: what the command line imports late comes now.
import encodings.utf_8_sig  # noqa: F401

import omnigraph.cli.queries
import omnigraph.graph  # noqa: F401
from omnigraph.cli.main import main
from omnigraph.ids import new_ulid
from tests.system.doomed import become_nobody

if __name__ == "__main__":
    new_ulid()
    become_nobody()
    main()
