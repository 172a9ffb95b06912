"""What is kept of files is bounded also if each entry is tiny."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from omnigraph.store.file_memory import DELETED_BYTES, ENTRY_BYTES, KEYS_BYTES, ROWS_BYTES, TABLE_BYTES, FileMemory, KeyBlock


def test_entries_of_one_row_are_counted_with_what_they_take_besides() -> None:
    """Small commits leave one entry each: the limits are limits of their number too."""
    memory = FileMemory()
    block, rows = KeyBlock(pa.array(["a"]), np.arange(1, dtype=np.uint64)), pa.table({"id": ["a"]})
    for at in range(KEYS_BYTES // ENTRY_BYTES + 100):
        memory.keys.put((f"{at}.lance",), block)
        memory.deleted.put(f"{at}.arrow", np.arange(1, dtype=np.uint32))
        memory.keep_rows(SimpleNamespace(physical_rows=1, files=[SimpleNamespace(_path=f"{at}.lance")]), rows, fields=[0])
    assert len(memory.keys) < KEYS_BYTES // ENTRY_BYTES
    assert len(memory.deleted) < DELETED_BYTES // ENTRY_BYTES
    assert len(memory._rows) < ROWS_BYTES // TABLE_BYTES
