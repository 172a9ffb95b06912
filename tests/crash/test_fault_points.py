"""A real process killed at every fault point: before or after, never between, and the next one goes on."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import msgspec
import pytest

import omnigraph as og
from omnigraph.errors import NotFound
from omnigraph.faults import Fault
from omnigraph.ids import BranchName
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.registry import list_branches
from omnigraph.manifest.tagging import create_tag, delete_tag
from omnigraph.manifest.tags import list_tags, living_tags
from omnigraph.store.tables import TableRef, open_newest
from tests.crash.matrix import WRITERS, points, prepare, run
from tests.crasher import crash
from tests.graphs import COMPANY, PERSON, add, ids_in, make, note, reopen, row_of

pytestmark = pytest.mark.crash

WORK = BranchName("work")
INIT = (Fault.INIT_BEFORE_TABLES, Fault.INIT_BETWEEN_TABLES, Fault.INIT_BEFORE_MANIFEST, Fault.INIT_AFTER_MANIFEST)
STAGE = (Fault.STAGE_BEFORE_COMMIT, Fault.STAGE_AFTER_COMMIT)
PUBLISH = (Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT, Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC)
CREATE = (Fault.BRANCH_BEFORE_CREATE, Fault.BRANCH_AFTER_CREATE)
REF = (Fault.REF_LINKED, Fault.REF_CREATED)
DELETE = (Fault.BRANCH_BEFORE_DELETE, Fault.BRANCH_AFTER_DELETE, Fault.BRANCH_BEFORE_DROP)
TAG = (Fault.TAG_BEFORE_CREATE, Fault.TAG_AFTER_CREATE)
UNTAG = (Fault.TAG_BEFORE_DELETE, Fault.TAG_AFTER_DELETE)
RECOVER = (
    Fault.RECOVER_FOUND,
    Fault.RECOVER_BEFORE_RESTORE,
    Fault.RECOVER_AFTER_RESTORE,
    Fault.RECOVER_BEFORE_PUBLISH,
    Fault.RECOVER_AFTER_PUBLISH,
)
RECLAIM = (Fault.RECLAIM_BEFORE, Fault.RECLAIM_AFTER)
CLEANUP = tuple(fault for fault in Fault if fault.value.startswith("cleanup."))
"""tests/crash/test_cleanup.py"""
OBJECT = (Fault.OBJECT_BEFORE_LINK, Fault.OBJECT_AFTER_LINK)
ELSEWHERE = (Fault.CACHE_BEFORE_RENAME, Fault.SPARK_TASK_WRITTEN)
"""Not in the graph: tests/unit/exec/adjacency/test_builders.py. Not in this process: tests/spark_cluster/test_exactly_once.py."""


def killed(doing: str, uri: str, point: Fault, *, nth: int = 1) -> None:
    done = crash(doing, uri, point, nth=nth)
    assert done.returncode == -signal.SIGKILL, f"{point} was not reached: {done.said}"
    assert "done" not in done.said


def test_every_fault_point_is_killed_at_somewhere_here() -> None:
    """F-13: Every fault point has a test that kills a process there; a mistyped name is an error."""
    in_the_matrix = {point.fault for writer in WRITERS for point in points(writer)}
    here = {*INIT, *STAGE, *PUBLISH, *CREATE, *REF, *DELETE, *TAG, *UNTAG, *OBJECT, *RECLAIM, *RECOVER}
    assert {*here, *CLEANUP, *ELSEWHERE, *in_the_matrix} == set(Fault)


@pytest.mark.parametrize("point", INIT)
def test_init(tmp_path: Path, point: Fault) -> None:
    uri = str(tmp_path / "g")
    killed("init", uri, point)
    if point is Fault.INIT_AFTER_MANIFEST:
        assert len(reopen(uri).snapshot().state.tables) == 2
        return
    with pytest.raises(NotFound):
        reopen(uri)
    assert len(make(uri, PERSON, COMPANY).commits()) == 1


@pytest.mark.parametrize("point", PUBLISH)
def test_publish(tmp_path: Path, point: Fault) -> None:
    """The table has moved; whether the graph shows it is decided by the swap alone."""
    manifest = make(tmp_path / "g")
    add(manifest, "old")
    before = manifest.snapshot()
    killed("write", manifest.root.uri, point)
    after = reopen(manifest.root.uri).snapshot()
    if point in (Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT):
        assert after == before
        assert ids_in(manifest) == {"old"}
        assert note(manifest, "the next one").commit.parents == (before.commit,)
    else:
        assert after.version == before.version + 1
        assert ids_in(manifest) == {"old", "new"}
        assert note(manifest, "again", token="the-write").repeated, "a retry with the token finds the first receipt"


@pytest.mark.parametrize("point", STAGE)
def test_stage(tmp_path: Path, point: Fault) -> None:
    """Nothing is visible; the table's HEAD has moved only after its commit, and carries a uuid that names its maker."""
    manifest = make(tmp_path / "g")
    before = manifest.snapshot()
    row = row_of(manifest)
    killed("write", manifest.root.uri, point)
    assert reopen(manifest.root.uri).snapshot() == before
    moved = open_newest(manifest.root, row.path, branch=None).version - row.version
    assert moved == (1 if point is Fault.STAGE_AFTER_COMMIT else 0)
    assert ids_in(manifest) == set()


@pytest.mark.parametrize("point", CREATE)
def test_create_branch(tmp_path: Path, point: Fault) -> None:
    manifest = make(tmp_path / "g")
    killed("create work", manifest.root.uri, point)
    assert list_branches(manifest.root.objects) == []
    create_branch(manifest, "work")
    assert note(manifest, "hello", branch=WORK).commit.branch == WORK


THROUGH_A_LINK = [
    *(("jürgen", doing, point) for doing in ("create work", "create deeper from ours") for point in (*REF, *CREATE)),
    *(("jürgen", 'on ours insert A { k: "new" }', point) for point in (Fault.WRITE_BEFORE_REF, *REF, Fault.WRITE_AFTER_REF)),
    *(("50%", "create work", point) for point in REF),
]


@pytest.mark.parametrize(("name", "doing", "point"), THROUGH_A_LINK)
def test_create_a_branch_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, doing: str, point: Fault) -> None:
    """INV-2: A graph whose path Lance would escape. What dies leaves at most a link, which nothing reads, and nothing beside the graph.

    A link that is removed takes nothing with it, and one that is left and leads elsewhere changes no answer.
    """
    links, place = tmp_path / "links", tmp_path / name
    for directory in (links, place):
        directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(links))
    graph = og.init(place / "g", schema="node A { k: String @key }")
    graph.mutate('insert A { k: "a" }')
    graph.branches.create("ours")
    graph.branches.create("written")
    graph.mutate('insert A { k: "w" }', branch="written")
    killed(doing, graph.uri, point)
    assert len(list(links.iterdir())) == (point in REF)
    for left in links.iterdir():
        assert (left / "graph").resolve() == place / "g"
        (left / "graph").unlink()
        (left / "graph").symlink_to(tmp_path / "elsewhere")
    found = og.open(place / "g")
    assert found.branches.list() == ["main", "ours", "written"]
    rows = {
        branch: sorted(row["k"] for row in found.query("match { $a: A } return { $a.k as k }", branch=branch))
        for branch in found.branches.list()
    }
    assert rows == {"main": ["a"], "ours": ["a"], "written": ["a", "w"]}
    for branch in ("work", "deeper"):
        found.branches.create(branch, from_="ours")
        found.mutate(f'insert A {{ k: "{branch}" }}', branch=branch)
    found.mutate('insert A { k: "o" }', branch="ours")
    found.cleanup(keep=1)
    assert found.verify(deep=True) == []
    assert [row["k"] for row in found.query("match { $a: A } return { $a.k as k } order { k }", branch="deeper")] == ["a", "deeper"]
    shutil.rmtree(links)
    assert og.open(place / "g").verify(deep=True) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [name], "nothing is beside the directory of the graph"
    assert [path.name for path in place.iterdir()] == ["g"]


@pytest.mark.parametrize("point", DELETE)
def test_delete_branch(tmp_path: Path, point: Fault) -> None:
    manifest = make(tmp_path / "g")
    create_branch(manifest, "work")
    note(manifest, "on it", branch=WORK)
    killed("delete work", manifest.root.uri, point)
    if point is Fault.BRANCH_BEFORE_DELETE:
        assert reopen(manifest.root.uri).commits(WORK)[0].message == "on it"
        return
    assert list_branches(manifest.root.objects) == []
    create_branch(manifest, "work")
    assert len(manifest.commits(WORK)) == 1, "the old branch's commit does not come back"


@pytest.mark.parametrize(("point", "nth"), [*((point, 1) for point in TAG), *((point, nth) for point in OBJECT for nth in (1, 2))])
def test_create_tag(tmp_path: Path, point: Fault, nth: int) -> None:
    """G-20: A process that dies while it creates a tag leaves the tag or none; the name can be used."""
    manifest = make(tmp_path / "g")
    head = note(manifest, "hello").commit.id
    killed("tag v1", manifest.root.uri, point, nth=nth)
    visible = point is Fault.TAG_AFTER_CREATE or (point is Fault.OBJECT_AFTER_LINK and nth == 2)
    assert list_tags(manifest.root.objects) == (["v1"] if visible else [])
    if not visible:
        create_tag(manifest, "v1")
    assert reopen(manifest.root.uri).commit("v1").id == head
    note(manifest, "on")
    assert manifest.snapshot(at="v1").commit == head


@pytest.mark.parametrize("point", [*UNTAG, *OBJECT])
def test_delete_tag(tmp_path: Path, point: Fault) -> None:
    """G-26: A process that dies while it deletes a tag leaves the tag or none."""
    manifest = make(tmp_path / "g")
    tag = create_tag(manifest, "v1")
    killed("untag v1", manifest.root.uri, point)
    left = [] if point in (Fault.TAG_AFTER_DELETE, Fault.OBJECT_AFTER_LINK) else [tag]
    assert living_tags(manifest.root.objects) == left
    if left:
        delete_tag(manifest, "v1")
    assert create_tag(manifest, "v1").commit_id == tag.commit_id


@pytest.mark.parametrize("nth", [1, 2], ids=["reserved", "settled"])
@pytest.mark.parametrize("point", OBJECT)
def test_the_object_that_makes_a_branch_visible(tmp_path: Path, point: Fault, nth: int) -> None:
    manifest = make(tmp_path / "g")
    killed("create work", manifest.root.uri, point, nth=nth)
    visible = point is Fault.OBJECT_AFTER_LINK and nth == 2
    assert list_branches(manifest.root.objects) == (["work"] if visible else [])
    if not visible:
        create_branch(manifest, "work")
    assert note(manifest, "hello", branch=WORK).commit.branch == WORK


@pytest.mark.parametrize("point", RECOVER)
def test_recovery(tmp_path: Path, point: Fault) -> None:
    """RT-68: If a writer is killed and then the one that recovers it, the third finishes, and there is one record."""
    writer = next(writer for writer in WRITERS if writer.tables == 2)
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    prepare(manifest, writer)
    doing = f"matrix {WRITERS.index(writer)}"
    killed(doing, manifest.root.uri, Fault.WRITE_BETWEEN_TABLES)
    killed(doing, manifest.root.uri, point)
    run(manifest, writer)
    assert ids_in(manifest) == ids_in(manifest, alias=COMPANY) == {"old", "new"}
    assert sum(commit.audit is not None for commit in manifest.commits()) == 1


@pytest.mark.parametrize("point", RECLAIM)
def test_reclaim(tmp_path: Path, point: Fault) -> None:
    """S-05: a hard drop that is killed while it removes old versions has happened; applied once more, it goes on removing."""
    place = tmp_path / "g"
    graph = og.init(place, schema="node A { k: String @key  s: String? }  node B { k: String @key }")
    graph.mutate('query q() { insert A { k: "a", s: "hush-1" } insert B { k: "hush-2" } }')
    wanted = "node A { k: String @key }"
    killed(f"purge {wanted}", str(place), point)
    assert graph.schema == wanted
    assert graph.apply_schema(wanted, allow_data_loss=True).applied is False
    assert not [path for path in place.rglob("*") if path.is_file() and b"hush-" in path.read_bytes()]
    assert graph.verify() == []


def test_a_table_that_moved_without_the_graph_is_refused_by_the_next_writer(tmp_path: Path) -> None:
    """W-52: a HEAD past what the graph shows is never folded in. (The write protocol adds the recovery that resolves it.)"""
    from omnigraph.errors import ConflictError
    from omnigraph.store import stage
    from omnigraph.store.tables import Tables
    from tests.graphs import people

    manifest = make(tmp_path / "g")
    add(manifest, "old")
    killed("write", manifest.root.uri, Fault.STAGE_AFTER_COMMIT)
    row = row_of(manifest)
    staged = stage.append(Tables(manifest.root).open(row.ref), people("mine"))
    assert staged is not None
    with pytest.raises(ConflictError):
        stage.commit(staged)
    assert msgspec.structs.asdict(TableRef(row.path, None, row.version)) == msgspec.structs.asdict(row.ref)
