"""Whatever Lance raises enters as an error of ours: its panics, its interrupts and its lack of memory too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.errors import Kind, OmniGraphError, StorageError
from omnigraph.store.durable import version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.tables import TableRef, Tables
from tests.unit.store.tables import content, place, two_fragments


def test_a_version_file_with_any_byte_flipped_is_read_or_refused_by_an_error_of_ours(tmp_path: Path) -> None:
    """Some of them make Lance panic, which is no Exception."""
    table = two_fragments(place(tmp_path))
    file = Path(table.root.uri, table.ref.home, version_file(table.ref.version))
    body = file.read_bytes()
    refused = 0
    for at in range(len(body)):
        file.write_bytes(bytes([*body[:at], body[at] ^ 0xFF, *body[at + 1 :]]))
        os.utime(file, ns=(at, at))
        anew = place(tmp_path)
        try:
            content(Tables(anew).open(TableRef(table.ref.path, None, table.ref.version)))
        except OmniGraphError:
            refused += 1
        except (KeyError, AssertionError):
            pass  # another column name, or other rows, make the test's own reading fail
    assert refused > len(body) // 4


def test_a_panic_is_caught_by_name() -> None:
    class PanicException(BaseException):
        """Made by Rust at the first panic, and nowhere to be imported from."""

    try:
        raise PanicException("index out of bounds: the len is 0")
    except raised_by_lance() as error:
        told = lance_error(error, doing="open", path="/g/t")
    assert isinstance(told, StorageError)
    assert told.kind is Kind.CORRUPT
    assert "index out of bounds" in told.message


@pytest.mark.parametrize("raised", [OSError, ValueError, RuntimeError], ids=["OSError", "ValueError", "RuntimeError"])
def test_an_interrupt_that_lance_has_wrapped_goes_on_as_an_interrupt(raised: type[Exception]) -> None:
    assert isinstance(lance_error(raised("External error: KeyboardInterrupt: "), doing="scan", path="/g/t"), KeyboardInterrupt)


def test_lack_of_memory_is_told_as_such() -> None:
    error = lance_error(MemoryError(), doing="scan", path="/g/t")
    assert isinstance(error, StorageError)
    assert "out of memory" in error.message
