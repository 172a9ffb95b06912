"""Derived files: whole or not there, and never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.exec.adjacency.cache import ENVIRONMENT, LEFTOVER_SECONDS, CacheDirectory, cache_directory
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import GraphId

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "a": np.arange(1000, dtype=np.int64),
    "none": np.empty(0, np.int32),
    "b": np.arange(7, dtype=np.uint8),
}


def write(folder: Path, name: str = "thing", arrays: dict[str, np.ndarray[Any, Any]] = ARRAYS) -> Path:
    CacheDirectory(folder).write(name, {"n": 1}, arrays)
    return folder / f"{name}.arrays"


def holds(folder: Path, name: str = "thing") -> bool:
    stored = CacheDirectory(folder).read(name)
    if stored is None:
        return False
    assert bytes(stored.facts) == b'{"n":1}'
    assert list(stored.arrays) == list(ARRAYS)
    assert all(np.array_equal(stored.arrays[key], value) and stored.arrays[key].dtype == value.dtype for key, value in ARRAYS.items())
    return True


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert not holds(tmp_path / "deep" / "folder")
    write(tmp_path / "deep" / "folder")
    assert holds(tmp_path / "deep" / "folder")
    assert CacheDirectory(tmp_path / "deep" / "folder").names("thi") == ["thing"]


@contextmanager
def flipped(path: Path, at: int, bit: int) -> Iterator[None]:
    """One bit, as a disk does it: the time of the file stays."""
    before = path.stat()
    with path.open("r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), at)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        yield
        os.pwrite(file.fileno(), bytes([byte]), at)


def test_no_changed_byte_is_read(tmp_path: Path) -> None:
    """INV-13: Any byte of the file, each with one bit flipped: the arrays that were written, or none."""
    path = write(tmp_path)
    whole, missed = path.read_bytes(), []
    for at in range(len(whole)):
        with flipped(path, at, at % 8):
            if holds(tmp_path):  # which compares the arrays
                missed.append(at)
    assert {whole[at] for at in missed} == {0}
    assert len(missed) < 4 * 64, "only the bytes that fill up to the next array are nobody's"


@pytest.mark.parametrize("bit", range(8))
def test_no_changed_byte_of_a_header_gives_facts(tmp_path: Path, bit: int) -> None:
    path = write(tmp_path)
    directory, whole = CacheDirectory(tmp_path), path.read_bytes()
    end = 30 + int.from_bytes(whole[18:26], "little")
    for at in range(end):
        with flipped(path, at, bit):
            assert directory.facts("thing") is None
    with flipped(path, end + 64, bit):
        assert directory.facts("thing") is not None, "the arrays are not read for it"
        assert directory.read("thing") is None


@pytest.mark.parametrize("length", [0, 1, 17, 18, 40, 300, 4096, -1])
def test_a_file_cut_short_is_noticed(tmp_path: Path, length: int) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert not holds(tmp_path)
    path.write_bytes(whole + b"\0")
    assert not holds(tmp_path)
    write(tmp_path)
    assert holds(tmp_path), "and written again"


def test_a_file_of_an_older_format_is_ignored_and_replaced(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"omnigraph cache 3\n", b"omnigraph cache 2\n", 1))
    assert not holds(tmp_path)
    write(tmp_path)
    assert holds(tmp_path)


def test_a_copy_with_another_time_is_read(tmp_path: Path) -> None:
    path = write(tmp_path)
    os.utime(path, (1, 1))
    assert holds(tmp_path)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    write(tmp_path / "file" / "folder")
    assert not holds(tmp_path / "file" / "folder")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "thing.arrays").mkdir()  # the rename fails
    write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.arrays"]


def test_a_writer_that_dies_leaves_the_older_file(tmp_path: Path) -> None:
    write(tmp_path)
    with armed(Fault.CACHE_BEFORE_RENAME), pytest.raises(SimulatedCrash):
        write(tmp_path, arrays={"other": np.zeros(5)})
    assert holds(tmp_path)
    (left,) = tmp_path.glob("*.tmp")
    old = time.time() - LEFTOVER_SECONDS - 60
    os.utime(left, (old, old))
    write(tmp_path, "another")
    assert not left.exists(), "what the dead left is removed by the next writer, later"


def test_the_oldest_files_of_all_graphs_go_when_there_is_too_much(tmp_path: Path) -> None:
    for number in range(6):
        CacheDirectory(tmp_path / f"graph{number % 2}", limit_bytes=40_000).write(f"n{number}", None, {"a": np.zeros(1250)})
        time.sleep(0.002)
    assert sorted(path.stem for path in tmp_path.glob("*/*")) == ["n3", "n4", "n5"]


def test_a_file_larger_than_the_limit_is_kept_alone(tmp_path: Path) -> None:
    CacheDirectory(tmp_path / "graph", limit_bytes=100).write("small", None, {"a": np.zeros(2)})
    CacheDirectory(tmp_path / "graph", limit_bytes=100).write("large", None, {"a": np.zeros(1000)})
    assert [path.stem for path in tmp_path.glob("*/*")] == ["large"]


def test_what_is_mapped_stays_readable_when_its_file_goes(tmp_path: Path) -> None:
    write(tmp_path)
    stored = CacheDirectory(tmp_path).read("thing")
    shutil.rmtree(tmp_path)
    assert stored is not None
    assert stored.arrays["a"].sum() == 999 * 500


def test_the_folder_is_the_named_one_or_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "/somewhere")
    assert cache_directory(GraphId("G")) == Path("/somewhere/G")
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    if sys.platform == "linux":
        assert cache_directory(GraphId("G")) == Path("/caches/omnigraph/G")


WRITER = """
import sys
from pathlib import Path
import numpy as np
from omnigraph.exec.adjacency.cache import CacheDirectory
for turn in range(15):
    CacheDirectory(Path(sys.argv[1])).write("thing", {"n": 1}, {"a": np.full(20_000, int(sys.argv[2]))})
"""


def test_two_processes_that_write_one_name_leave_a_whole_file(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)]) for number in (1, 2)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        stored = CacheDirectory(tmp_path).read("thing")
        if stored is not None:
            values = set(stored.arrays["a"].tolist())
            assert len(values) == 1
            seen |= values
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {1, 2}
    assert [path.name for path in tmp_path.iterdir()] == ["thing.arrays"]
