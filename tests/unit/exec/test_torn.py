"""INV-11: version files that a power cut left without their bytes: what was not acknowledged did not happen, what was is damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import Kind
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.store.bases import home
from omnigraph.store.durable import version_file
from omnigraph.store.refs import ref_file
from omnigraph.store.tables import TornHead
from tests.crash.matrix import WRITERS
from tests.crash.matrix import whole as check_whole
from tests.graphs import COMPANY, PERSON, ids_in, make, reopen, row_of
from tests.writes import both, put, upsert

WORK = BranchName("work")
CUTS: dict[str, Callable[[int], int]] = {
    "emptied": lambda size: 0,
    "halved": lambda size: size // 2,
    "without its last byte": lambda size: size - 1,
}


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    put(manifest, both("old"))
    return manifest


def tear(manifest: Manifest, path: str, *, cut: str = "emptied") -> None:
    """What is left of a file whose name reached the disk before its bytes."""
    full = os.path.join(manifest.root.uri, path)
    os.truncate(full, CUTS[cut](os.path.getsize(full)))


def newest(manifest: Manifest, path: str, native: str | None) -> str:
    """The newest version file of a table."""
    folder = f"{home(path, native)}/_versions"
    return min(name for name in manifest.root.objects.list(folder) if name.endswith(".manifest"))


def die(manifest: Manifest, point: Fault, *, nth: int = 1, branch: BranchName = MAIN) -> None:
    with armed(point, after=nth), pytest.raises(SimulatedCrash):
        put(manifest, both("new"), branch=branch)


@pytest.mark.parametrize("cut", CUTS)
def test_a_torn_publish_did_not_happen(graph: Manifest, cut: str) -> None:
    """Readers go on with what was there before; the next writer removes the file and finishes the write, whose tables are whole."""
    die(graph, Fault.PUBLISH_AFTER_COMMIT)
    tear(graph, newest(graph, PATH, None), cut=cut)
    for reader in (graph, reopen(graph.root.uri)):
        assert ids_in(reader) == {"old"}
    upsert(graph, "next")
    for reader in (graph, reopen(graph.root.uri)):
        assert ids_in(reader) == {"old", "new", "next"}
        assert ids_in(reader, alias=COMPANY) == {"old", "new"}
    check_whole(graph, WRITERS[0])


def test_a_torn_publish_on_a_branch_did_not_happen(graph: Manifest) -> None:
    branch = create_branch(graph, WORK)
    die(graph, Fault.PUBLISH_AFTER_COMMIT, branch=WORK)
    tear(graph, newest(graph, PATH, branch.native))
    assert ids_in(graph, branch=WORK) == ids_in(reopen(graph.root.uri), branch=WORK) == {"old"}
    upsert(reopen(graph.root.uri), "next", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"old", "new", "next"}


def test_a_torn_publish_without_tables_did_not_happen(graph: Manifest) -> None:
    """A schema in other words, say: it has nothing to undo, and is armed for this."""
    from tests.crash.matrix import words_only
    from tests.writes import work

    with armed(Fault.PUBLISH_AFTER_COMMIT), pytest.raises(SimulatedCrash):
        work(graph, words_only)
    tear(graph, newest(graph, PATH, None))
    assert ids_in(reopen(graph.root.uri)) == {"old"}
    upsert(graph, "next")
    assert row_of(graph, COMPANY).alias == COMPANY
    assert ids_in(graph) == {"old", "next"}


def test_a_torn_version_that_was_acknowledged_is_damage(graph: Manifest) -> None:
    """Nothing says that it did not happen, so nobody acts as if it had not: readers and writers refuse, and name the file."""
    upsert(graph, "acknowledged")
    file = newest(graph, PATH, None)
    tear(graph, file)
    for attempt in (lambda: reopen(graph.root.uri), lambda: upsert(reopen(graph.root.uri), "next")):
        with pytest.raises(TornHead) as refused:
            attempt()
        assert refused.value.kind is Kind.CORRUPT
        assert file in refused.value.message
    assert os.path.exists(os.path.join(graph.root.uri, file))


def test_a_torn_version_is_damage_when_the_intent_at_hand_is_of_a_later_write(graph: Manifest) -> None:
    """The intent of a write that began on top of the torn version proves that it had happened."""
    upsert(graph, "acknowledged")
    die(graph, Fault.WRITE_ARMED)
    tear(graph, newest(graph, PATH, None))
    with pytest.raises(TornHead):
        reopen(graph.root.uri)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("torn", [PERSON, COMPANY])
def test_a_torn_table_version_is_undone(graph: Manifest, torn: str, cut: str) -> None:
    """Both tables were committed; one of the version files did not reach the disk."""
    before = {alias: row_of(graph, alias) for alias in (PERSON, COMPANY)}
    die(graph, Fault.WRITE_COMMITTED)
    row = before[torn]
    tear(graph, f"{row.ref.home}/{version_file(row.version + 1)}", cut=cut)
    assert ids_in(reopen(graph.root.uri)) == {"old"}
    upsert(graph, "next")
    assert ids_in(graph) == {"old", "next"}
    assert ids_in(graph, alias=COMPANY) == {"old"}
    check_whole(graph, WRITERS[0])


@pytest.mark.parametrize("what", ["reference", "first version", "next version"])
def test_a_torn_first_touch_is_undone(graph: Manifest, what: str) -> None:
    create_branch(graph, WORK)
    die(graph, Fault.WRITE_COMMITTED, branch=WORK)
    (intent,) = intents.pending(graph.root.objects)
    table = intent.tables[0]
    fork = home(table.base.path, table.native)
    files = {
        "reference": f"{table.base.path}/{ref_file(str(table.native))}",
        "first version": f"{fork}/{version_file(table.base.version)}",
        "next version": f"{fork}/{version_file(table.base.version + 1)}",
    }
    tear(graph, files[what])
    upsert(graph, "next", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"old", "next"}
    assert ids_in(graph, branch=WORK, alias=COMPANY) == {"old"}
    put(graph, both("again"), branch=WORK)
    assert ids_in(graph, branch=WORK, alias=COMPANY) == {"old", "again"}


def test_a_torn_data_file_of_a_dead_writer_is_not_published(graph: Manifest) -> None:
    """Its writer did not flush (OMNIGRAPH_FSYNC=off), and the power went: recovery looks before it builds on anything."""
    row = row_of(graph)
    had = set(os.listdir(os.path.join(graph.root.uri, row.ref.home, "data")))
    die(graph, Fault.WRITE_COMMITTED)
    (new,) = set(os.listdir(os.path.join(graph.root.uri, row.ref.home, "data"))) - had
    tear(graph, f"{row.ref.home}/data/{new}", cut="halved")
    upsert(graph, "next")
    assert ids_in(graph) == {"old", "next"}
    assert ids_in(graph, alias=COMPANY) == {"old"}


def test_a_torn_version_in_a_moved_graph_did_not_happen(graph: Manifest, tmp_path: Path) -> None:
    """The version before it, which the reader takes, was written elsewhere."""
    create_branch(graph, WORK)
    upsert(graph, "mine", branch=WORK)
    there = reopen(Path(graph.root.uri).rename(tmp_path / "moved"))
    with armed(Fault.PUBLISH_AFTER_COMMIT), pytest.raises(SimulatedCrash):
        upsert(there, "lost", branch=WORK)
    tear(there, newest(there, PATH, there.look(WORK)[0].native))
    again = reopen(there.root.uri)
    assert ids_in(again, branch=WORK) == {"old", "mine"}
    upsert(again, "next", branch=WORK)
    assert {"old", "mine", "next"} <= ids_in(again, branch=WORK)
