"""A ledger is swapped from one exact version to the next; of two swaps one lands, and history costs its logarithm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.fragment import write_fragments

from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import new_ulid
from omnigraph.store.fold import fold
from omnigraph.store.ledger import ROWS, Ledger, SwapLost, create_ledger, open_ledger
from omnigraph.store.refs import create_ref, delete_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import PRIMARY_KEY, committed_uuid
from tests.counting import reads_of
from tests.samples import sample
from tests.unit.store.tables import place

PATH = "__manifest"


def entries(names: Sequence[str], *, born: int, body: str = "{}") -> pa.Table:
    count = len(names)
    return pa.table({"object_id": list(names), "born": [born] * count, "body": [body] * count}, schema=ROWS)


def head(of: str) -> pa.Table:
    """A state of two rows that says which swap it came with."""
    return entries(["head", "table:1"], born=0, body=of)


def begun(root: Root, *, facts: Sequence[str] = ("commit:0",)) -> Ledger:
    stamps = {b"omnigraph:format": b"1", b"omnigraph:graph": b"g"}
    return create_ledger(root, PATH, state=head("0"), facts=entries(facts, born=1), stamps=stamps, uuid="birth")


def swapped(ledger: Ledger, name: str, *, facts: Sequence[str] | None = None) -> Ledger:
    names = [f"commit:{name}"] if facts is None else facts
    return ledger.swap(head(name), entries(names, born=ledger.version + 1), uuid=new_ulid())


def newest_of(ledger: Ledger) -> str:
    state = ledger.state()
    assert state["object_id"].to_pylist() == ["head", "table:1"]
    found: str = state["body"][0].as_py()
    return found


def names(found: pa.Table) -> list[str]:
    return sorted(found["object_id"].to_pylist())


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.lance")}


# -- being made


def test_a_ledger_is_born_whole_at_version_one(tmp_path: Path) -> None:
    """C-01: The manifest is created whole at version 1, with its key annotated and its stamps in the schema's metadata."""
    root = place(tmp_path)
    ledger = begun(root)
    for seen in (ledger, open_ledger(root, PATH, branch=None)):
        assert (seen.version, newest_of(seen), names(seen.facts("commit:"))) == (1, "0", ["commit:0"])
        assert seen.metadata == {b"omnigraph:format": b"1", b"omnigraph:graph": b"g"}
    dataset = ledger.as_table().dataset
    assert dataset.schema.field("object_id").metadata == PRIMARY_KEY
    assert (dataset.has_stable_row_ids, dataset.data_storage_version) == (False, "2.2")
    assert committed_uuid(root, ledger.ref) == "birth"


def test_a_second_birth_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    """RT-66: the first one's rows stay; a loser tidies up after itself."""
    root = place(tmp_path)
    begun(root)
    before = files_below(tmp_path)
    with pytest.raises(SwapLost) as lost:
        create_ledger(root, PATH, state=head("thief"), facts=entries(["commit:thief"], born=1), stamps={}, uuid="other")
    assert lost.value.kind is Kind.ALREADY_INITIALIZED
    assert files_below(tmp_path) == before
    ledger = open_ledger(root, PATH, branch=None)
    assert (ledger.version, newest_of(ledger), names(ledger.facts(""))) == (1, "0", ["commit:0"])


def test_a_birth_whose_answer_was_lost_is_known_by_its_uuid(tmp_path: Path) -> None:
    """RT-66: asked to be born again under the same uuid, it is already there, and that is success."""
    root = place(tmp_path)
    begun(root)
    again = begun(root)
    assert (again.version, newest_of(again)) == (1, "0")
    assert names(again.facts("")) == ["commit:0"]


def test_a_ledger_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    root = place(tmp_path)
    with pytest.raises(NotFound) as missing:
        open_ledger(root, PATH, branch=None)
    assert missing.value.kind is Kind.TABLE_NOT_FOUND
    begun(root)
    with pytest.raises(NotFound):
        open_ledger(root, PATH, branch="nobranch")


def test_a_ledger_without_a_state_is_refused(tmp_path: Path) -> None:
    """The newest fragment is the state: without one, the newest facts would be taken for it."""
    root = place(tmp_path)
    with pytest.raises(InvalidInput):
        create_ledger(root, PATH, state=ROWS.empty_table(), facts=entries(["commit:0"], born=1), stamps={}, uuid="u")
    assert not files_below(tmp_path)
    ledger = begun(root)
    with pytest.raises(InvalidInput):
        ledger.swap(ROWS.empty_table(), entries(["commit:1"], born=2), uuid="u")
    assert ledger.newest_version() == 1


def test_a_ledger_may_be_born_without_facts(tmp_path: Path) -> None:
    ledger = begun(place(tmp_path), facts=())
    assert (newest_of(ledger), len(ledger.facts(""))) == ("0", 0)
    ledger = swapped(ledger, "1")
    assert (newest_of(ledger), names(ledger.facts(""))) == ("1", ["commit:1"])


# -- being swapped


def test_a_swap_is_the_next_version_with_the_uuid_it_was_given(tmp_path: Path) -> None:
    root = place(tmp_path)
    ledger = begun(root)
    after = ledger.swap(head("1"), entries(["commit:1", "schema:x"], born=2), uuid="mine")
    assert (after.version, after.newest_version(), committed_uuid(root, after.ref)) == (2, 2, "mine")
    for seen in (after, open_ledger(root, PATH, branch=None), ledger.at(2)):
        assert (newest_of(seen), names(seen.facts(""))) == ("1", ["commit:0", "commit:1", "schema:x"])
        assert seen.metadata == ledger.metadata
    for seen in (ledger, after.at(1)):
        assert (seen.version, newest_of(seen), names(seen.facts(""))) == (1, "0", ["commit:0"])
    assert after.at(2) is after


def test_a_swap_may_bring_no_facts(tmp_path: Path) -> None:
    ledger = begun(place(tmp_path))
    for n in range(6):
        ledger = swapped(ledger, str(n), facts=[])
        assert (newest_of(ledger), names(ledger.facts(""))) == (str(n), ["commit:0"])
    assert ledger.version == 7


def test_of_two_swaps_from_one_base_exactly_one_lands_and_the_loser_leaves_no_file(tmp_path: Path) -> None:
    """C-03: Of two publications from one base exactly one lands, without rebase or retry; the other leaves no file.

    Also C-09.
    """
    root = place(tmp_path)
    ledger = begun(root)
    winner = swapped(ledger, "winner")
    for _ in range(2):
        before = files_below(tmp_path)
        with pytest.raises(SwapLost) as lost:
            swapped(ledger, "loser")
        assert lost.value.kind is Kind.CONTENTION
        assert files_below(tmp_path) == before
        newest = ledger.at(ledger.newest_version())
        assert newest.version == winner.version
        assert newest_of(newest) == newest_of(winner)
        assert "commit:loser" not in names(newest.facts(""))
        winner = swapped(winner, "next")


def test_a_losers_swap_that_folds_takes_nothing_away(tmp_path: Path) -> None:
    """A fold removes fact fragments: the loser's must neither vanish nor come twice."""
    ledger = begun(place(tmp_path))
    for n in range(1, 30):
        stale, ledger = ledger, swapped(ledger, str(n))
        with pytest.raises(SwapLost):
            swapped(stale, f"loser-{n}")
        assert names(ledger.facts("commit:")) == sorted(f"commit:{i}" for i in range(n + 1))


def test_a_swap_repeated_with_its_own_uuid_lands_once(tmp_path: Path) -> None:
    root = place(tmp_path)
    ledger = begun(root)
    ledger.swap(head("1"), entries(["commit:1"], born=2), uuid="mine")
    with pytest.raises(SwapLost):
        ledger.swap(head("1"), entries(["commit:1"], born=2), uuid="mine")
    newest = ledger.at(ledger.newest_version())
    assert (newest.version, newest_of(newest), names(newest.facts(""))) == (2, "1", ["commit:0", "commit:1"])


def test_a_ledgers_branches_go_their_own_ways(tmp_path: Path) -> None:
    """A graph branch is a native branch of the ledger; versions collide, contents do not."""
    root = place(tmp_path)
    main = swapped(begun(root), "1")
    create_ref(main.as_table(), "side")
    side = open_ledger(root, PATH, branch="side")
    assert (side.version, newest_of(side)) == (2, "1")
    for n in range(8):
        side, main = swapped(side, f"side-{n}"), swapped(main, f"main-{n}")
    assert side.version == main.version == 10
    for ledger, own, other in ((side, "side", "main"), (main, "main", "side")):
        fresh = open_ledger(root, PATH, branch=ledger.ref.branch)
        assert newest_of(fresh) == f"{own}-7"
        assert names(fresh.facts("commit:")) == sorted(["commit:0", "commit:1", *(f"commit:{own}-{n}" for n in range(8))])
        assert not len(fresh.facts(f"commit:{other}"))
        assert fresh.metadata == {b"omnigraph:format": b"1", b"omnigraph:graph": b"g"}
    delete_ref(main.as_table().root, main.as_table().ref.path, "side")
    assert newest_of(swapped(main, "after")) == "after"


# -- being asked


def test_a_transaction_is_read_on_a_handle_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lance locks a handle while it reads a transaction. Other threads use the handle of the ledger at the same time."""
    ledger = begun(place(tmp_path))
    monkeypatch.setattr(ledger, "_dataset", None)
    assert ledger.noted_versions() == {}


def test_facts_are_found_by_id_by_prefix_and_by_age(tmp_path: Path) -> None:
    ledger = begun(place(tmp_path))
    for n in range(1, 8):
        ledger = swapped(ledger, str(n))
    assert names(ledger.find("commit:3")) == ["commit:3"]
    assert names(ledger.find("commit:")) == names(ledger.find("commit:99")) == []
    assert ledger.find("commit:3")["born"].to_pylist() == [4]
    assert names(ledger.facts("commit:", since=6)) == ["commit:5", "commit:6", "commit:7"]
    assert names(ledger.facts("schema:")) == []
    assert len(ledger.facts("", since=ledger.version + 1)) == 0


@settings(max_examples=sample(12, whole=200), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(0, 30), max_size=12))
def test_recent_facts_are_the_same_from_fewer_fragments(before: list[int], after: list[int]) -> None:
    """Whatever swaps bring and fold, on a branch too, and after a version that only repeats the one before it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = begun(place(Path(folder)))
        for count in before:
            ledger = swapped(ledger, "", facts=[f"commit:{ledger.version}-{at}" for at in range(count)])
        ledger = ledger.fence_off(uuid=new_ulid(), versions={})
        create_ref(ledger.as_table(), "side")
        ledger = open_ledger(ledger.as_table().root, PATH, branch="side")
        for count in after:
            ledger = swapped(ledger, "", facts=[f"commit:{ledger.version}-{at}" for at in range(count)])
        for since in range(ledger.version + 2):
            assert names(ledger.recent("commit:", since=since)) == names(ledger.facts("commit:", since=since))
        for name in names(ledger.facts("commit:")):
            assert names(ledger.find(name)) == names(ledger.find_early(name)) == [name]
        assert not len(ledger.find_early("commit:none"))


def test_facts_that_were_read_or_written_here_are_held(tmp_path: Path) -> None:
    """Held facts are those that are stored, on every branch, and are read once."""
    ledger = begun(place(tmp_path))
    for n in range(1, 30):
        ledger = swapped(ledger, str(n))
    fresh = open_ledger(place(tmp_path), PATH, branch=None)
    for one in (ledger, fresh, fresh):
        for prefix in ("commit:", "commit:1", "schema:", ""):
            assert names(one.held_facts(prefix)) == names(one.facts(prefix))
    reads_of(fresh)
    assert len(fresh.held_facts("commit:")) == 30
    assert reads_of(fresh) == 0
    assert len(fresh.facts("commit:")) == 30
    assert reads_of(fresh) > 0


def test_the_state_is_no_fact(tmp_path: Path) -> None:
    ledger = swapped(begun(place(tmp_path)), "1")
    assert names(ledger.find("head")) == names(ledger.facts("table:")) == []


def test_ids_are_taken_literally(tmp_path: Path) -> None:
    """No pattern and no quote in an id means anything."""
    odd = ["a%b", "a_b", "axb", "a\\b", "it's", "''", "ü", "a%", 'say "x"']
    ledger = begun(place(tmp_path), facts=odd)
    for name in odd:
        assert names(ledger.find(name)) == [name]
        assert name in names(ledger.facts(name))
    assert names(ledger.facts("a_")) == ["a_b"]
    assert names(ledger.facts("a%")) == ["a%", "a%b"]
    assert names(ledger.facts("a")) == sorted(name for name in odd if name.startswith("a"))
    assert names(ledger.facts("a\\")) == ["a\\b"]


def test_every_past_version_answers_as_it_did(tmp_path: Path) -> None:
    ledger = begun(place(tmp_path))
    for n in range(1, 20):
        ledger = swapped(ledger, str(n))
    for version in (1, 2, 7, 13, 20):
        past = ledger.at(version)
        assert newest_of(past) == str(version - 1)
        assert names(past.facts("commit:")) == sorted(f"commit:{n}" for n in range(version))


# -- what history costs


def test_rows_that_are_alike_are_stored_compressed(tmp_path: Path) -> None:
    """Commits differ in ids and numbers. Stored one by one they take twice as much."""
    root = place(tmp_path)
    ledger, folder = begun(root), Path(root.of(PATH)) / "data"
    same = f'"kind":"mutate","schema":"{"88f9f06a0e73f7fd" * 4}","tables":["node:Person","edge:Knows"]'
    bodies = [f'{{"id":"{new_ulid()}",{same}}}' for _ in range(900)]
    facts = pa.table({"object_id": [f"commit:{at}" for at in range(900)], "born": [2] * 900, "body": bodies}, schema=ROWS)
    before = files_below(folder)
    moved = ledger.swap(head("next"), facts, uuid=new_ulid())
    new = [(folder / name).stat().st_size for name in files_below(folder) - before]
    assert len(new) == 2
    assert sum(new) * 5 < sum(map(len, bodies))
    assert moved.facts("commit:").column("body").to_pylist()[1:] == bodies


def test_a_ledger_that_was_created_without_compression_goes_on_without(tmp_path: Path) -> None:
    root = place(tmp_path)
    plain = pa.schema([field.with_metadata(PRIMARY_KEY if field.name == "object_id" else None) for field in ROWS])
    written = [
        part for name in ("commit:0", "head") for part in write_fragments(entries([name], born=1).cast(plain), root.of(PATH), schema=plain)
    ]
    lance.LanceDataset.commit(root.of(PATH), lance.LanceOperation.Overwrite(plain, written), max_retries=0)
    ledger = open_ledger(root, PATH, branch=None)
    for at in range(1, 9):
        ledger = swapped(ledger, str(at))
    assert names(open_ledger(root, PATH, branch=None).facts("commit:")) == [f"commit:{at}" for at in range(9)]


def _simulate(incoming: Sequence[int]) -> tuple[int, list[int]]:
    """The most fragments ever, and how often each row was written, when swaps bring so many facts each."""
    fragments: list[Any] = []
    most, writes = 0, []
    for rows in incoming:
        folding = list(fold(fragments, incoming=rows))
        assert len({id(f) for f in folding}) == len(folding)
        assert all(any(f is known for known in fragments) for f in folding)
        members = [writes_of for f in folding for writes_of in f.members]
        new = [[0] for _ in range(rows)]
        writes.extend(new)
        members.extend(new)
        for counter in members:
            counter[0] += 1
        fragments = [f for f in fragments if all(f is not gone for gone in folding)]
        if members:
            fragments.append(SimpleNamespace(metadata=SimpleNamespace(physical_rows=len(members)), members=members))
        most = max(most, len(fragments))
    assert sum(len(f.members) for f in fragments) == sum(incoming)
    return most, [counter[0] for counter in writes]


def test_fragments_stay_few_through_thousands_of_swaps() -> None:
    """K-09: The manifest has at most 19 fragments through 4,200 commits, and a row is rewritten at most 12 times."""
    most, writes = _simulate([1] * 4_200)
    assert most <= 19
    assert max(writes) <= 12


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=400))
def test_fragments_stay_few_whatever_swaps_bring(incoming: list[int]) -> None:
    """No fact is lost by folding, and the count stays logarithmic."""
    most, _ = _simulate(incoming)
    assert most <= 19


def test_no_fold_happens_without_facts_to_bring() -> None:
    full = [SimpleNamespace(metadata=SimpleNamespace(physical_rows=1)) for _ in range(9)]
    assert not fold([], incoming=1)
    assert not fold(full, incoming=0)


def test_three_hundred_swaps_lose_no_fact_and_keep_few_fragments(tmp_path: Path) -> None:
    """The same on disk: the state is always the newest fragment, before and after every fold."""
    root = place(tmp_path)
    ledger = begun(root)
    most = 0
    for n in range(1, 301):
        ledger = swapped(ledger, str(n))
        assert ledger.version == n + 1
        most = max(most, len(ledger.as_table().dataset.get_fragments()) - 1)  # the last one is the state
        if n % 25 == 0:
            assert newest_of(ledger) == str(n)
            assert names(ledger.facts("commit:")) == sorted(f"commit:{i}" for i in range(n + 1))
            assert len(ledger.find(f"commit:{n // 2}")) == 1
    assert most <= 19
    fresh = open_ledger(root, PATH, branch=None)
    assert len(fresh.facts("")) == 301
    assert fresh.facts("commit:")["born"].to_pylist().count(150) == 1
    assert fresh.metadata == {b"omnigraph:format": b"1", b"omnigraph:graph": b"g"}


# -- being interrupted


@pytest.mark.parametrize(
    ("point", "lands"),
    [
        (Fault.PUBLISH_BEFORE_WRITE, False),
        (Fault.PUBLISH_BEFORE_COMMIT, False),
        (Fault.PUBLISH_AFTER_COMMIT, True),
        (Fault.PUBLISH_AFTER_SYNC, True),
    ],
)
def test_a_crash_inside_a_swap_leaves_all_of_it_or_nothing(tmp_path: Path, point: Fault, lands: bool) -> None:
    root = place(tmp_path)
    ledger = swapped(begun(root), "1")
    with armed(point), pytest.raises(SimulatedCrash):
        swapped(ledger, "2")
    seen = open_ledger(root, PATH, branch=None)
    assert newest_of(seen) == ("2" if lands else "1")
    assert ("commit:2" in names(seen.facts("commit:"))) is lands
    assert newest_of(swapped(seen, "3")) == "3"


DENIED = """
import json, os, sys
from omnigraph.errors import StorageError
from omnigraph.store import stage
from omnigraph.store.ledger import create_ledger, open_ledger
from omnigraph.store.tables import Table, TableRef, open_dataset
from tests.unit.store.tables import PATH, empty, place, rows
from tests.unit.store.test_ledger import begun, entries, head
from pathlib import Path

if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
os.umask(0)
root = place(Path(sys.argv[1]))
ledger, table = begun(root), empty(root)
told = []
staged = stage.append(table, rows({"a": 1}))
for versions in (f"__manifest/_versions", f"{PATH}/_versions"):
    os.chmod(f"{root.uri}/{versions}", 0o555)
before = sorted(os.listdir(f"{root.uri}/__manifest/data"))
for attempt in (lambda: ledger.swap(head("1"), entries(["commit:1"], born=2), uuid="u"), lambda: stage.commit(staged)):
    try:
        attempt()
    except StorageError as error:
        told.append([error.kind, error.outcome])
after = sorted(os.listdir(f"{root.uri}/__manifest/data"))
for versions in (f"__manifest/_versions", f"{PATH}/_versions"):
    os.chmod(f"{root.uri}/{versions}", 0o755)
swapped = ledger.swap(head("2"), entries(["commit:2"], born=2), uuid="v")
print(json.dumps({"told": told, "orphans": len(after) - len(before), "then": [swapped.version, stage.commit(staged).ref.version]}))
"""


def test_a_commit_that_the_disk_refuses_did_not_happen_and_may_be_made_again() -> None:
    """A real refusal: somebody who is not root may write data files, but no version file. The swap's files are taken back."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        os.chmod(folder, 0o777)
        done = subprocess.run([sys.executable, "-c", DENIED, folder], capture_output=True, text=True, check=False, cwd=os.getcwd())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["told"] == [[Kind.STORAGE_PERMISSION, Outcome.DID_NOT_HAPPEN]] * 2
    assert (answer["orphans"], answer["then"]) == (0, [2, 2])


def test_a_read_that_fails_is_an_error_of_ours(tmp_path: Path) -> None:
    root = place(tmp_path)
    begun(root)
    for file in Path(root.uri, PATH, "data").iterdir():
        file.unlink()
    ledger = open_ledger(place(tmp_path), PATH, branch=None)
    for attempt in (ledger.state, lambda: ledger.facts(""), lambda: ledger.find("x")):
        with pytest.raises(StorageError):
            attempt()


def test_rows_added_around_the_graph_are_found_out(tmp_path: Path) -> None:
    """A plain append is not fenced: the swap lands one version too late, and that is said instead of success."""
    root = place(tmp_path)
    ledger = begun(root)
    lance.write_dataset(entries(["foreign"], born=1), root.of(PATH), mode="append")
    with pytest.raises(OmniGraphError) as found:
        swapped(ledger, "1")
    assert found.value.kind is Kind.CORRUPT
    assert ledger.newest_version() == 3
