"""A cache file that is changed in place while a process has it mapped: the process lives on, and answers from what it builds anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.exec.adjacency.cache import ENVIRONMENT, CacheDirectory
from tests.unit.exec.adjacency.test_cache import write

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


def test_a_stored_file_knows_whether_it_is_as_it_was_read(tmp_path: Path) -> None:
    write(tmp_path)
    stored = CacheDirectory(tmp_path).read("thing")
    assert stored is not None
    assert stored.is_unchanged()
    write(tmp_path)  # another file takes the name; the mapped one stays what it is
    assert stored.is_unchanged()
