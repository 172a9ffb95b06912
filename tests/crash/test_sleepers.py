"""Real processes that die while they recover, or sleep while somebody goes around them: nothing of anybody else is lost."""

from __future__ import annotations

import signal
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import LimitError, RecoveryRequired
from omnigraph.faults import Fault
from omnigraph.ids import MAIN, BranchName, OperationId, new_commit_id
from omnigraph.manifest import intents
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.model import CommitKind, Resolution
from omnigraph.manifest.publish import Preconditions, Publication, publish
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import heal
from omnigraph.store import stage
from omnigraph.store.refs import has_ref
from omnigraph.store.tables import Table, Tables, create_table, open_newest
from tests.crash.matrix import ALIASES, WORK, WRITERS, Writer, audits, check, content, images, prepare, whole
from tests.crasher import asleep, crash
from tests.graphs import COMPANY, PERSON, ids_in, make, people, row_of
from tests.writes import upsert

pytestmark = pytest.mark.crash

BY_NAME = {writer.name: writer for writer in WRITERS}
TWO_TABLES = BY_NAME["two tables, main"]
FIRST_TOUCH = BY_NAME["two tables, first touch"]
SCHEMA = BY_NAME["schema, main"]
DEATHS = {
    Fault.RECOVER_FOUND: Fault.WRITE_BETWEEN_TABLES,
    Fault.RECOVER_BEFORE_RESTORE: Fault.WRITE_BETWEEN_TABLES,
    Fault.RECOVER_AFTER_RESTORE: Fault.WRITE_BETWEEN_TABLES,
    Fault.RECOVER_BEFORE_PUBLISH: Fault.WRITE_COMMITTED,
    Fault.RECOVER_AFTER_PUBLISH: Fault.WRITE_COMMITTED,
}


def ready(folder: Path, writer: Writer) -> Manifest:
    manifest = make(folder / "g", *ALIASES)
    prepare(manifest, writer)
    return manifest


def doing(writer: Writer) -> str:
    return f"matrix {WRITERS.index(writer)}"


def intrude(manifest: Manifest, alias: str, *ids: str) -> None:
    """Somebody who ignores the locks: commits on top of HEAD and publishes that."""
    row = row_of(manifest, alias)
    newest = open_newest(manifest.root, row.path, branch=row.native)
    staged = stage.append(Table(manifest.root, row.ref.at(newest.version), newest), people(*ids))
    assert staged is not None
    shown = msgspec.structs.replace(row, version=stage.commit(staged).ref.version, rows=row.rows + len(ids))
    publish(manifest, Publication(CommitKind.LOAD, tables=(shown,), expect=Preconditions(tables={row.id: row.version}), message="intruder"))


@pytest.mark.parametrize("writer", [TWO_TABLES, FIRST_TOUCH], ids=lambda writer: writer.name)
@pytest.mark.parametrize(("point", "death"), DEATHS.items())
def test_a_recovery_that_is_killed_is_finished_by_the_next(tmp_path: Path, writer: Writer, point: Fault, death: Fault) -> None:
    """REC-29, REC-30, RT-68: with real deaths; one record."""
    manifest = ready(tmp_path, writer)
    assert crash(doing(writer), manifest.root.uri, death).returncode == -signal.SIGKILL
    assert crash(f"heal {writer.branch}", manifest.root.uri, point).returncode == -signal.SIGKILL
    check(manifest, writer, lands=death is Fault.WRITE_COMMITTED, resolved=True)


def test_an_intent_that_appears_after_the_first_look_is_resolved_under_the_lock(tmp_path: Path) -> None:
    """REC-20: An intent that appears after a writer's first look is resolved under the lock, and the writer prepares again."""
    manifest = ready(tmp_path, TWO_TABLES)
    with asleep(doing(BY_NAME["append, main"]), manifest.root.uri, Fault.WRITE_PREPARED) as sleeper:
        crash(doing(TWO_TABLES), manifest.root.uri, Fault.WRITE_BETWEEN_TABLES)
        assert len(intents.pending(manifest.root.objects)) == 1
        assert sleeper.wake() == "done"
    shown = content(manifest, MAIN)
    assert (shown[PERSON], shown[COMPANY]) == ({"old", "new"}, {"old"})
    assert audits(manifest, TWO_TABLES) == 1
    whole(manifest, TWO_TABLES)


def test_a_publish_refused_by_a_disjoint_winner_is_undone_and_the_winner_kept(tmp_path: Path) -> None:
    """RT-11: A publication refused because the head moved is undone at once by its writer, on top of the winner.

    Also REC-28.
    """
    manifest = ready(tmp_path, TWO_TABLES)
    with asleep(doing(TWO_TABLES), manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        winner = publish(manifest, Publication(CommitKind.LOAD, message="winner")).commit
        assert sleeper.wake() == "read_set_changed"
    assert content(manifest, MAIN) == images(TWO_TABLES).before
    assert manifest.commits(limit=1)[0].parents == (winner.id,)
    assert audits(manifest, TWO_TABLES) == 1
    whole(manifest, TWO_TABLES)


def test_a_winner_on_top_of_our_commit_is_not_touched_and_the_intent_is_kept(tmp_path: Path) -> None:
    """RT-12: If another commit follows ours on the same table, it is not touched and the intent is kept.

    Also REC-27.
    """
    manifest = ready(tmp_path, TWO_TABLES)
    with asleep(doing(TWO_TABLES), manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        intrude(manifest, PERSON, "winner")
        assert sleeper.wake() == "recovery_required"
    with pytest.raises(RecoveryRequired):
        upsert(manifest, "next")
    assert "winner" in ids_in(manifest)
    assert len(intents.pending(manifest.root.objects)) == 1


def test_a_table_that_moved_on_without_us_has_nothing_of_ours_to_undo(tmp_path: Path) -> None:
    """RT-12: our commit can land no more, so only the other table is put back, and the winner's rows are kept."""
    manifest = ready(tmp_path, TWO_TABLES)
    with asleep(doing(TWO_TABLES), manifest.root.uri, Fault.STAGE_BEFORE_COMMIT, nth=2) as sleeper:
        intrude(manifest, COMPANY, "winner")
        assert sleeper.wake() == "expected_version_mismatch"
    before = images(TWO_TABLES).before
    assert content(manifest, MAIN) == {**before, COMPANY: before[COMPANY] | {"winner"}}
    whole(manifest, TWO_TABLES)
    upsert(manifest, "next")


def test_a_schema_apply_refused_by_a_disjoint_winner_is_undone_and_the_winner_kept(tmp_path: Path) -> None:
    """RT-37: A schema change that is undone has its columns and names as before, and its new tables are gone.

    Also RT-45.
    """
    manifest = ready(tmp_path, SCHEMA)
    with asleep(doing(SCHEMA), manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        winner = publish(manifest, Publication(CommitKind.LOAD, message="winner")).commit
        assert sleeper.wake() == "read_set_changed"
    assert content(manifest, MAIN) == images(SCHEMA).before
    assert manifest.commits(limit=1)[0].parents == (winner.id,)
    assert audits(manifest, SCHEMA) == 1
    whole(manifest, SCHEMA)


def test_a_winner_on_a_table_whose_columns_were_changed_is_not_touched(tmp_path: Path) -> None:
    """RT-45: If another commit follows an interrupted change of columns, nothing is touched and the intent is kept."""
    manifest = ready(tmp_path, SCHEMA)
    with asleep(doing(SCHEMA), manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        row = row_of(manifest, PERSON)
        newest = open_newest(manifest.root, row.path, branch=row.native)
        staged = stage.delete_keys(Table(manifest.root, row.ref.at(newest.version), newest), pa.array(["old"]))
        assert staged is not None
        stage.commit(staged)
        publish(manifest, Publication(CommitKind.LOAD, message="winner"))
        assert sleeper.wake() == "recovery_required"
    with pytest.raises(RecoveryRequired):
        upsert(manifest, "next")
    assert open_newest(manifest.root, row.path, branch=row.native).count_rows() == 0
    assert len(intents.pending(manifest.root.objects)) == 1


def test_a_table_that_somebody_else_made_in_the_new_types_place_is_neither_taken_over_nor_removed(tmp_path: Path) -> None:
    """RT-44: A foreign table at the path of a new type is neither adopted nor removed; the schema change is undone."""
    manifest = ready(tmp_path, SCHEMA)
    with asleep(doing(SCHEMA), manifest.root.uri, Fault.WRITE_BEFORE_CREATE) as sleeper:
        (intent,) = intents.pending(manifest.root.objects)
        theirs = create_table(manifest.root, intent.births[0].row.path, people("theirs").schema)
        assert sleeper.wake() not in ("done", "recovery_required")
    assert content(manifest, MAIN) == images(SCHEMA).before
    assert intents.pending(manifest.root.objects) == []
    assert open_newest(manifest.root, theirs.ref.path, branch=None).version == 1
    upsert(manifest, "next")


def test_a_live_schema_apply_is_not_healed_away(tmp_path: Path) -> None:
    """RT-46: The schema change of a live process is not recovered: others wait for its lock."""
    manifest = ready(tmp_path, SCHEMA)
    with asleep(doing(SCHEMA), manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        with pytest.raises(LimitError):
            heal(manifest, Tables(manifest.root), MAIN, timeout_seconds=0.3)
        assert len(intents.pending(manifest.root.objects)) == 1
        assert sleeper.wake() == "done"
    assert content(manifest, MAIN) == images(SCHEMA).after
    assert audits(manifest, SCHEMA) == 0
    whole(manifest, SCHEMA)


@pytest.mark.parametrize("idle_first", [False, True])
def test_several_leftovers_of_first_touches_are_resolved_each_on_its_own(tmp_path: Path, idle_first: bool) -> None:
    """RT-16: An abandoned first write without an effect is undone and drops its own native branch only.
    RT-17: A complete first write beside an abandoned one lands, unless the other's rollback moved the head first.

    One without any effect and one complete, as a writer that slept through its lease can leave behind.

    Each is undone or finished whole and drops its own native branch only. The complete one lands unless the other's
    rollback came before it: then its parent is no longer the head.
    """
    manifest = ready(tmp_path, FIRST_TOUCH)
    crash(doing(FIRST_TOUCH), manifest.root.uri, Fault.WRITE_COMMITTED)
    (complete,) = intents.pending(manifest.root.objects)
    idle = msgspec.structs.replace(
        complete,
        operation=OperationId(("0" if idle_first else "7") * len(complete.operation)),
        commit=new_commit_id(),
        rollback=new_commit_id(),
        tables=tuple(msgspec.structs.replace(t, native=f"{t.native}0", uuid="idle", restore_uuid="idle too") for t in complete.tables),
    )
    intents.arm(manifest.root.objects, idle)
    upsert(manifest, "after", branch=WORK)
    shown = dict(images(FIRST_TOUCH).before if idle_first else images(FIRST_TOUCH).after)
    shown[PERSON] = shown[PERSON] | {"after"}
    assert content(manifest, WORK) == shown
    outcomes = [commit.audit.outcome for commit in manifest.commits(WORK) if commit.audit is not None]
    assert outcomes == [Resolution.ROLLED_BACK, Resolution.ROLLED_BACK if idle_first else Resolution.ROLLED_FORWARD]
    assert has_ref(manifest.root, complete.tables[0].before.path, str(complete.tables[0].native)) is not idle_first
    whole(manifest, FIRST_TOUCH)


def test_leftovers_that_stand_in_each_others_way_are_all_resolved(tmp_path: Path) -> None:
    """REC-27: what looks foreign to one intent is another's, so it is no reason to stop; here the older one met the newer's commit."""
    manifest = ready(tmp_path, TWO_TABLES)
    crash(doing(TWO_TABLES), manifest.root.uri, Fault.WRITE_BETWEEN_TABLES)
    (newer,) = intents.pending(manifest.root.objects)
    older = msgspec.structs.replace(
        newer,
        operation=OperationId("0" * len(newer.operation)),
        commit=new_commit_id(),
        rollback=new_commit_id(),
        tables=tuple(msgspec.structs.replace(t, uuid="older", restore_uuid=str(uuid4())) for t in newer.tables),
    )
    intents.arm(manifest.root.objects, older)
    upsert(manifest, "after")
    before = images(TWO_TABLES).before
    assert content(manifest, MAIN) == {**before, PERSON: before[PERSON] | {"after"}}
    assert audits(manifest, TWO_TABLES) == 2
    whole(manifest, TWO_TABLES)


def test_a_branch_made_meanwhile_sees_no_half(tmp_path: Path) -> None:
    """INV-2: a branch made while a write is half way shows what was published, and can be written."""
    manifest = ready(tmp_path, TWO_TABLES)
    crash(doing(TWO_TABLES), manifest.root.uri, Fault.WRITE_BETWEEN_TABLES)
    create_branch(manifest, "aside")
    upsert(manifest, "there", branch=BranchName("aside"))
    assert ids_in(manifest, branch=BranchName("aside")) == {"old", "there"}
    assert ids_in(manifest) == {"old"}
    check(manifest, TWO_TABLES, lands=False, resolved=True)


def test_a_delete_overtaken_by_an_update_deletes_what_is_there_then(tmp_path: Path) -> None:
    """RT-20: A delete that an update overtook is planned again on the new rows.

    Planned on the old rows and run on the new ones; neither the node nor its edges are gone.
    """
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  n: I64 }\nedge Knows: Person -> Person\n")
    people_and_edge = """
    query run() { insert Person { name: "a", n: 1 }  insert Person { name: "b", n: 2 }  insert Knows { from: "a", to: "b" } }
    """
    graph.mutate(people_and_edge)
    with asleep("mutate query run() { delete Person where n = 1 }", graph.uri, Fault.WRITE_PREPARED) as sleeper:
        graph.mutate('query run() { update Person set { n: 3 } where name = "a" }')
        assert sleeper.wake() == "done"
    assert graph.info().tables == {"node:Person": 2, "edge:Knows": 1}
    assert graph.verify() == []
    assert [commit.kind for commit in graph.commits()][:-1] == [CommitKind.MUTATE] * 2, "a delete of nothing makes no commit"
