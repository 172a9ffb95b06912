"""What a call has acknowledged is on the disk: every new file and every folder that gained an entry was flushed before it returned."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.store.durable import version_file

OPERATIONS = """
import json, os, sys
import lance, pyarrow as pa
from omnigraph.store import stage
from omnigraph.store.index import LanceIndexKind, IndexSpec, build
from omnigraph.store.ledger import create_ledger
from omnigraph.store.refs import create_ref, write_before_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import create_table
from tests.unit.store.tables import rows, SCHEMA
from tests.unit.store.test_ledger import entries, head

BLOBS = pa.schema([pa.field("id", pa.string()), pa.field("data", pa.large_binary())])

def pictures(**data):
    return pa.table({"id": list(data), "data": list(data.values())}, schema=BLOBS)

root = open_root(sys.argv[1])
flushed = []
real = os.fsync

def recording(descriptor):
    real(descriptor)
    flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))

os.fsync = recording
top = os.path.dirname(os.path.dirname(root.uri))

def entries_now():
    return {os.path.join(base, name) for base, folders, files in os.walk(top) for name in (*folders, *files)}

def step(name, work):
    before = entries_now()
    flushed.clear()
    answer = work()
    gained = entries_now() - before
    files = [path for path in gained if os.path.isfile(path)]
    print(json.dumps({"step": name, "gained": sorted(gained), "files": files, "flushed": sorted(set(flushed))}), flush=True)
    return answer

table = step("create_table", lambda: create_table(root, "nodes/t", SCHEMA))
staged = step("stage append", lambda: stage.append(table, rows({"a": 1, "b": 2})))
table = step("append", lambda: stage.commit(staged))
table = step("append again", lambda: stage.commit(stage.append(table, rows({"c": 3, "d": 4}))))
table = step("upsert", lambda: stage.commit(stage.upsert(table, rows({"a": 5, "x": 6}))))
table = step("upsert again", lambda: stage.commit(stage.upsert(table, rows({"c": 7}))))
table = step("delete_keys", lambda: stage.commit(stage.delete_keys(table, pa.array(["b"]))))
table = step("delete_keys again", lambda: stage.commit(stage.delete_keys(table, pa.array(["x"]))))
specs = [IndexSpec("n", LanceIndexKind.BTREE, "n_idx"), IndexSpec("nickName", LanceIndexKind.INVERTED, "t_idx")]
table = step("index", lambda: stage.commit(build(table, specs)))
side = step("create_ref", lambda: create_ref(table, "side"))
early = step("write_before_ref", lambda: write_before_ref(table, "early", rows({"z": 1})))
fork = step("create_ref of early files", lambda: create_ref(table, "early"))
first = step("first touch", lambda: stage.commit(stage.put_files(fork, early)))
side = step("on a branch", lambda: stage.commit(stage.upsert(side, rows({"a": 9, "w": 1}))))
step("overwrite", lambda: stage.commit(stage.overwrite(table, rows({"q": 1}))))
album = step("create_table again", lambda: create_table(root, "nodes/album", BLOBS))
album = step("blobs", lambda: stage.commit(stage.append(album, pictures(a=b"s", b=b"m" * 100_000, c=b"l" * 5_000_000))))
album = step("more blobs", lambda: stage.commit(stage.upsert(album, pictures(b=b"n" * 100_000))))
birth = {"state": head("0"), "facts": entries(["c:0"], born=1), "stamps": {}, "uuid": "u"}
ledger = step("create_ledger", lambda: create_ledger(root, "__manifest", **birth))
for n in range(5):
    ledger = step(f"swap {n}", lambda: ledger.swap(head(str(n)), entries([f"c:{n + 1}"], born=n + 2), uuid=f"u{n}"))
fork = step("create_ref of the ledger", lambda: create_ref(ledger.as_table(), "fork"))
"""


def steps(folder: Path, **environment: str) -> Iterator[dict[str, Any]]:
    """Run every operation in a child of its own that records which paths it flushed and which entries it made."""
    done = subprocess.run(
        [sys.executable, "-c", OPERATIONS, str(folder / "new" / "graph")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        yield json.loads(line)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return list(steps(tmp_path_factory.mktemp("flushing"), OMNIGRAPH_FSYNC="on"))


def owed(step: dict[str, Any]) -> set[str]:
    """What must be on the disk for the step's result to be there after the machine died: files, and folders that gained them.

    Transaction files are copies of what a version file holds, and the hint is one: Lance does without either.
    """
    needed = {path for path in step["files"] if "/_transactions/" not in path and not path.endswith("latest_version_hint.json")}
    for path in step["gained"]:
        if any(file.startswith(f"{path}/") for file in needed):
            needed |= {path}
    return needed | {os.path.dirname(path) for path in needed}


def test_every_acknowledged_entry_was_flushed_with_its_folder(recorded: list[dict[str, Any]]) -> None:
    """Data, deletion, blob, index, version and ref files; and every folder that gained an entry, the graph's parent too."""
    seen = 0
    for step in recorded:
        name = step["step"]
        if name in ("stage append", "write_before_ref"):
            continue  # nothing is acknowledged yet
        missing = owed(step) - set(step["flushed"])
        assert not missing, (name, sorted(missing))
        assert owed(step), name
        seen += 1
    assert seen == 23


def test_staged_files_are_flushed_by_the_commit_that_names_them(recorded: list[dict[str, Any]]) -> None:
    staged, committed = (step for step in recorded if step["step"] in ("stage append", "append"))
    (data,) = (path for path in staged["gained"] if path.endswith(".lance"))
    assert staged["flushed"] == []
    assert {data, os.path.dirname(data)} <= set(committed["flushed"])


def test_files_written_before_their_branch_are_flushed_by_its_first_commit(recorded: list[dict[str, Any]]) -> None:
    early, fork, first = (step for step in recorded if step["step"] in EARLY)
    (data,) = (path for path in early["gained"] if path.endswith(".lance"))
    assert early["flushed"] == []
    assert {data, os.path.dirname(data), os.path.dirname(os.path.dirname(data))} <= set(fork["flushed"]) | set(first["flushed"])
    assert data in first["flushed"]


EARLY = ("write_before_ref", "create_ref of early files", "first touch")


def test_nothing_is_flushed_when_that_is_turned_off(tmp_path: Path) -> None:
    silent = list(steps(tmp_path, OMNIGRAPH_FSYNC="off"))
    assert len(silent) == 25
    assert [step["step"] for step in silent if step["flushed"]] == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace on this machine; the recording child has covered it")
@pytest.mark.parametrize("setting", ["on", "off"])
def test_the_kernel_sees_the_same_flushes(tmp_path: Path, setting: str) -> None:
    """The recorder stands inside Python; strace stands outside, and would also see a flush of Lance's own."""
    work = """
import sys
from omnigraph.store import stage
from omnigraph.store.root import open_root
from omnigraph.store.tables import create_table
from tests.unit.store.tables import SCHEMA, rows
table = create_table(open_root(sys.argv[1]), "nodes/t", SCHEMA)
stage.commit(stage.append(table, rows({"a": 1})))
"""
    log = tmp_path / "strace"
    command = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o", str(log)]
    done = subprocess.run(
        [*command, sys.executable, "-c", work, str(tmp_path / "graph")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMNIGRAPH_FSYNC": setting},
    )
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed here; the recording child has covered it")
    assert done.returncode == 0, done.stderr
    flushed = set(re.findall(r"f(?:data)?sync\(\d+<([^>]+)>", log.read_text()))
    if setting == "off":
        assert flushed == set()
        return
    home = tmp_path / "graph/nodes/t"
    versions = {str(home / version_file(version)) for version in (1, 2)}
    data = {str(path) for path in home.glob("data/*.lance")}
    assert len(data) == 1
    assert versions | data | {str(home / "_versions"), str(home / "data"), str(home), str(home.parent), str(home.parent.parent)} <= flushed


def test_a_version_file_is_where_lance_puts_it(tmp_path: Path) -> None:
    """Everything here rests on that name."""
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    lance.write_dataset(pa.table({"a": [2]}), tmp_path / "t", mode="append")
    found = {path.name for path in (tmp_path / "t/_versions").glob("*.manifest")}
    assert found == {os.path.basename(version_file(version)) for version in (1, 2)}
