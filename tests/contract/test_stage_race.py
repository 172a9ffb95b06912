"""Real processes without any lock: of all changes of one version one lands, no key comes twice, no version is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.errors import ConflictError, Kind
from omnigraph.ids import new_ulid
from omnigraph.store import stage
from omnigraph.store.ledger import SwapLost, create_ledger, open_ledger
from omnigraph.store.refs import create_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, committed_uuid, open_newest
from tests.guard.substrate import in_processes
from tests.unit.store.tables import PATH, content, empty, place, rows, two_fragments
from tests.unit.store.test_ledger import begun, entries, head

WRITERS = 2


def _newest(root: Root, branch: str | None) -> Table:
    dataset = open_newest(root, PATH, branch=branch)
    return Table(root, TableRef(PATH, branch, dataset.version), dataset)


def _write_in_turn(barrier: Any, folder: str, me: int, each: int, branch: str | None) -> dict[str, Any]:
    """Race for the keys k0, k1, ... in order: upsert or append the first one that is not there, as this process's own.

    Keys are looked up on the handle that the change is staged on: what was read and what is committed is one version.
    """
    root = place(Path(folder))
    barrier.wait()
    landed: dict[str, tuple[int, str]] = {}
    losses: list[str] = []
    while len(landed) < each:
        table = _newest(root, branch)
        there = {key for key in table.scan(["id"]).read_all()["id"].to_pylist() if key.startswith("k")}
        key = f"k{len(there)}"
        assert key not in there
        write = stage.upsert if len(there) % 2 else stage.append
        staged = write(table, rows({key: me}))
        assert staged is not None
        try:
            after = stage.commit(staged)
        except ConflictError as error:
            losses.append(error.kind)
            continue
        assert after.ref.version == table.ref.version + 1
        landed[key] = (after.ref.version, staged.uuid)
    return {"landed": landed, "losses": losses}


def _race(folder: Path, start: Table, *, each: int) -> None:
    arguments = [(str(folder), me, each, start.ref.branch) for me in range(WRITERS)]
    before = content(start)
    answers = in_processes(_write_in_turn, *arguments)
    landed = {key: place for answer in answers for key, place in answer["landed"].items()}
    assert len(landed) == WRITERS * each == sum(len(answer["landed"]) for answer in answers)
    assert set(landed) == {f"k{n}" for n in range(WRITERS * each)}
    newest = _newest(start.root, start.ref.branch)
    # every version is somebody's acknowledged commit, once: no gap, nothing that nobody made
    assert newest.ref.version == start.ref.version + WRITERS * each
    made = dict(landed.values())
    assert sorted(made) == list(range(start.ref.version + 1, newest.ref.version + 1))
    for version in list(made)[::10]:
        assert committed_uuid(newest.root, newest.ref.at(version)) == made[version]
    # `content` refuses a key that is there twice; each has the value of the process that was told so
    owners = {key: me for me, answer in enumerate(answers) for key in answer["landed"]}
    assert content(newest) == {**before, **owners}
    losses = [kind for answer in answers for kind in answer["losses"]]
    assert losses, "the processes never met: this run has proven nothing"
    assert set(losses) == {Kind.VERSION_MISMATCH}


def test_two_processes_racing_for_the_same_new_keys_never_write_one_twice(tmp_path: Path) -> None:
    """P-05..P-07: staged upserts have no key filter in Python; the fence is what stands between them."""
    _race(tmp_path, two_fragments(place(tmp_path)), each=50)


def test_the_same_from_an_empty_table_on_a_native_branch(tmp_path: Path) -> None:
    """The first commit into an empty table goes another way, and a branch commits elsewhere."""
    _race(tmp_path, create_ref(empty(place(tmp_path)), "side"), each=20)


def _create_in_turn(barrier: Any, folder: str, me: int, rounds: int) -> list[str]:
    """Race to create one ledger after the other."""
    root = place(Path(folder))
    answers = []
    for n in range(rounds):
        barrier.wait()
        try:
            create_ledger(root, f"m{n}", state=head(str(me)), facts=entries([f"commit:{me}"], born=1), stamps={}, uuid=new_ulid())
            answers.append("won")
        except SwapLost as lost:
            answers.append(lost.kind)
    return answers


def test_of_four_processes_creating_one_ledger_exactly_one_wins(tmp_path: Path) -> None:
    """RT-66: Of several processes that create one manifest exactly one wins; the others get an error and leave no files."""
    rounds = 5
    answers = in_processes(_create_in_turn, *[(str(tmp_path), me, rounds) for me in range(4)])
    root = place(tmp_path)
    for n in range(rounds):
        told = [answer[n] for answer in answers]
        assert sorted(told) == sorted(["won", *[Kind.ALREADY_INITIALIZED] * 3])
        ledger = open_ledger(root, f"m{n}", branch=None)
        winner = str(told.index("won"))
        assert (ledger.version, set(ledger.state()["body"].to_pylist())) == (1, {winner})
        assert ledger.facts("")["object_id"].to_pylist() == [f"commit:{winner}"]
        assert len(list(Path(root.uri, f"m{n}", "data").iterdir())) == 2


def _swap_in_turn(barrier: Any, folder: str, me: int, branch: str | None) -> tuple[list[int], int]:
    """Append one's own name to the state, again until each swap lands."""
    root = place(Path(folder))
    barrier.wait()
    landed: list[int] = []
    lost = 0
    ledger = open_ledger(root, "__manifest", branch=branch)
    while len(landed) < 15:
        ledger = ledger.at(ledger.newest_version())
        body = f"{ledger.state()['body'][0].as_py()} {me}"
        fact = entries([f"commit:{me}-{len(landed)}"], born=ledger.version + 1)
        try:
            ledger = ledger.swap(head(body), fact, uuid=new_ulid())
        except SwapLost:
            lost += 1
            continue
        landed.append(ledger.version)
    return landed, lost


def test_four_processes_swapping_one_ledger_make_one_chain(tmp_path: Path) -> None:
    """C-03, C-09: each state holds its predecessor's, so one lost or doubled swap would show."""
    root = place(tmp_path)
    begun(root)
    answers = in_processes(_swap_in_turn, *[(str(tmp_path), me, None) for me in range(4)])
    ledger = open_ledger(root, "__manifest", branch=None)
    assert sorted(version for landed, _ in answers for version in landed) == list(range(2, 62))
    assert ledger.version == 61
    chain = ledger.state()["body"][0].as_py().split()
    assert sorted(chain) == sorted(["0", *(str(me) for me in range(4) for _ in range(15))])
    expected = {"commit:0", *(f"commit:{me}-{n}" for me in range(4) for n in range(15))}
    assert sorted(ledger.facts("commit:")["object_id"].to_pylist()) == sorted(expected)
    named = {file.path for fragment in ledger.as_table().dataset.get_fragments() for file in fragment.metadata.files}
    assert named <= {path.name for path in Path(root.uri, "__manifest/data").iterdir()}
    assert sum(lost for _, lost in answers) > 0, "the processes never met: this run has proven nothing"
