"""A cache file that is changed in place while a process has it mapped: the process lives on, and answers from what it builds anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.adjacency.cache import ENVIRONMENT, CacheDirectory
from omnigraph.plan.ops import Route
from tests.reads import SOCIETY, knows, load, person, routed
from tests.samples import sample
from tests.unit.exec.adjacency.test_cache import flipped, write

CHILD = """
import os, sys
from pathlib import Path
import numpy as np
import omnigraph as og
from omnigraph.plan.ops import Route
from tests.reads import SOCIETY, load, person, knows, routed

place, harm = Path(sys.argv[1]), sys.argv[2]
graph = og.init(place / "g", schema=SOCIETY)
load(graph, *(person(f"p{n}") for n in range(3000)), *(knows(f"p{n}", f"p{(n * 7) % 3000}") for n in range(3000)))
body = "match { $p: Person  $p knows $q } return { $p.name as a, $q.name as b }"
expected = sorted(routed(graph, body, Route.ADJACENCY))
reader = og.open(place / "g", mode="r")
assert sorted(routed(reader, body, Route.ADJACENCY)) == expected  # from the files, mapped
for file in Path(os.environ["OMNIGRAPH_CACHE"]).rglob("*.arrays"):
    if harm == "emptied":
        os.truncate(file, 0)
    elif harm == "cut_short":
        os.truncate(file, file.stat().st_size // 2)
    else:
        with file.open("r+b") as opened:
            opened.seek(file.stat().st_size // 2)
            opened.write(bytes(8) if harm == "zeroed" else os.urandom(64))
assert sorted(routed(reader, body, Route.ADJACENCY)) == expected
"""


@pytest.mark.parametrize("harm", ["emptied", "cut_short", "zeroed", "overwritten"])
def test_a_mapped_file_that_is_changed_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    """In a process of its own: to touch a page behind the end of a mapped file kills it."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), harm], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_bits_that_flip_in_cached_files_change_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-13, INV-4: In each file, all over it, without a new time: a new handle answers as before, and the file is whole again."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    graph = og.init(tmp_path / "g", schema=SOCIETY)
    load(graph, *(person(f"p{n}") for n in range(300)), *(knows(f"p{n}", f"p{(n * 7) % 300}") for n in range(300)))
    bodies = [
        "match { $p: Person  $p knows $q } return { $p.name as a, $q.name as b }",
        "match { $p: Person  $q knows $p } return { $p.name as a }",
    ]
    expected = [sorted(routed(graph, body, Route.ADJACENCY)) for body in bodies]
    files = sorted((tmp_path / "cache").rglob("*.arrays"))
    assert len(files) >= 3, "ids, and edges in both directions"
    for file in files:
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // sample(8, whole=200))):
            with flipped(file, at, at % 8):
                reader = og.open(tmp_path / "g", mode="r")
                assert [sorted(routed(reader, body, Route.ADJACENCY)) for body in bodies] == expected
            assert CacheDirectory(file.parent).read(file.stem) is not None, "written again, or never used"


def test_a_stored_file_knows_whether_it_is_as_it_was_read(tmp_path: Path) -> None:
    write(tmp_path)
    stored = CacheDirectory(tmp_path).read("thing")
    assert stored is not None
    assert stored.is_unchanged()
    write(tmp_path)  # another file takes the name; the mapped one stays what it is
    assert stored.is_unchanged()
