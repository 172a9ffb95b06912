"""A forked child of a process that used the engine is refused; a spawned one, and a fork before first use, work."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

from omnigraph.errors import Kind
from omnigraph.store.tables import TableRef, Tables
from tests.unit.store.tables import FOUR, PATH, added, content, place, reopened, two_fragments

FORKING = """
import json, os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from omnigraph.errors import OmniGraphError
from omnigraph.store import stage
from omnigraph.store.root import Root, open_root
from omnigraph.store.tables import Tables
from tests.unit.store.tables import place, rows, two_fragments
from tests.unit.store.test_ledger import begun, entries, head

def in_child(work):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            work()
            answer = "worked"
        except OmniGraphError as error:
            answer = error.kind
        os.write(writer, answer.encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 100).decode()

folder = Path(sys.argv[1])
if sys.argv[2] == "before":
    def whole():
        from tests.unit.store.tables import content
        assert content(two_fragments(place(folder))) == {"a": 1, "b": 2, "c": 3, "d": 4}
    print(json.dumps([in_child(whole)]))
    raise SystemExit
root = place(folder)
table, ledger = two_fragments(root), begun(root)
staged = stage.append(table, rows({"x": 1}))
attempts = [
    lambda: open_root(folder),
    lambda: Root(root.objects),
    lambda: Tables(root).open(table.ref),
    lambda: stage.commit(staged),
    lambda: ledger.swap(head("1"), entries(["commit:1"], born=2), uuid="u"),
]
answers = [in_child(attempt) for attempt in attempts]
assert stage.commit(staged).ref.version == table.ref.version + 1  # the parent goes on working
print(json.dumps(answers))
"""


def forked(folder: Path, when: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", FORKING, str(folder), when], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert isinstance(answers, list)
    return answers


def test_a_forked_child_is_refused_also_with_handles_it_inherited(tmp_path: Path) -> None:
    """It would share its parent's file locks, and Lance's threads are not in it; the parent is not disturbed."""
    assert forked(tmp_path, "after") == [Kind.FORKED_PROCESS] * 5


def test_a_child_forked_before_the_first_use_works(tmp_path: Path) -> None:
    assert forked(tmp_path, "before") == ["worked"]


def _add(folder: str, version: int) -> int:
    table = Tables(place(Path(folder))).open(TableRef(PATH, None, version))
    return added(table, {"spawned": 9}).ref.version


def test_a_spawned_child_works(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        version = pool.apply(_add, (str(tmp_path), table.ref.version))
    assert version == table.ref.version + 1
    assert content(reopened(table, version)) == {**FOUR, "spawned": 9}
