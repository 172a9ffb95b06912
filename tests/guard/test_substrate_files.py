"""What lies where on disk: durability, cleanup and repair name these files themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from tests.guard.substrate import append, born, commit, delete, fragment_of, ids, transaction_of, upsert

TOP = 2**64 - 1


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_file_of_version_v_is_named_by_what_is_left_to_the_largest_u64(tmp_path: Path) -> None:
    """We fsync exactly this file: `_versions/<2^64 - 1 - v>.manifest`, twenty digits."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    assert files(tmp_path / "t/_versions") == [f"{TOP - 2}.manifest", f"{TOP - 1}.manifest", "latest_version_hint.json"]
    assert len(str(TOP - 1)) == 20


def test_a_branch_has_version_files_of_its_own_with_the_continued_number(tmp_path: Path) -> None:
    """The same name under `tree/<branch>/_versions`."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("team/x")
    commit(branch, append(branch, "b"))
    tree = tmp_path / "t/tree/team/x"
    assert files(tree / "_versions") == [f"{TOP - 2}.manifest", f"{TOP - 1}.manifest", "latest_version_hint.json"]
    assert len(files(tree / "data")) == 1


@pytest.mark.parametrize("hint", [None, '{"version":1}', '{"version":99}', "garbage"], ids=["missing", "stale", "ahead", "garbage"])
def test_the_version_hint_is_only_a_hint(tmp_path: Path, hint: str | None) -> None:
    """It is rewritten after each commit and not fsynced by us: whatever it says, the newest version is found and the next one lands."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    path = tmp_path / "t/_versions/latest_version_hint.json"
    assert json.loads(path.read_text()) == {"version": 2}
    path.unlink() if hint is None else path.write_text(hint)
    head = lance.dataset(table.uri)
    assert (head.version, table.latest_version) == (2, 2)
    assert commit(head, append(head, "c")).version == 3
    assert json.loads(path.read_text()) == {"version": 3}


def test_data_files_lie_in_data_and_are_named_in_the_fragment(tmp_path: Path) -> None:
    """Orphans are found by comparing the folder with what fragments name."""
    table = born(tmp_path / "t", "a", "b", fragments=2)
    named = [file for fragment in table.get_fragments() for file in fragment.metadata.files]
    assert sorted(file.path for file in named) == files(tmp_path / "t/data")
    assert [type(file._path) for file in named] == [str, str]  # `path` makes a class at every access, so this is what we read
    assert [file._path for file in named] == [file.path for file in named]
    append(table, "staged")
    assert len(files(tmp_path / "t/data")) == 3


def test_deletion_files_lie_in_deletions_and_are_named_by_fragment_version_and_id(tmp_path: Path) -> None:
    """A new deletion file is fsynced before the publish; its path follows from the metadata."""
    table = born(tmp_path / "t", "a", "b")
    after = commit(table, delete(table, "id = 'a'"))
    deletion = fragment_of(after, 0).metadata.deletion_file
    assert deletion is not None
    assert files(tmp_path / "t/_deletions") == [f"0-{deletion.read_version}-{deletion.id}.arrow"]
    assert deletion.path(0) == f"_deletions/0-{deletion.read_version}-{deletion.id}.arrow"
    assert deletion.read_version == 1


def test_transaction_files_are_named_by_read_version_and_uuid(tmp_path: Path) -> None:
    """Who wrote what can be seen from outside, and cleanup knows them by this name."""
    table = born(tmp_path / "t", "a")
    tx = append(table, "b")
    commit(table, tx)
    assert f"1-{tx.uuid}.txn" in files(tmp_path / "t/_transactions")
    assert f"0-{transaction_of(table, 1).uuid}.txn" in files(tmp_path / "t/_transactions")


def test_a_refused_commit_leaves_no_version_file(tmp_path: Path) -> None:
    """Nothing but an orphan data file, and perhaps a .txn, stays behind a loser."""
    table = born(tmp_path / "t", "a", "b")
    first, second = upsert(table, "a", n=1), upsert(table, "b", n=2)
    commit(table, first)
    with pytest.raises(CommitConflictError):
        commit(table, second)
    assert files(tmp_path / "t/_versions") == [f"{TOP - 2}.manifest", f"{TOP - 1}.manifest", "latest_version_hint.json"]


def test_a_branch_ref_is_a_json_file_under_a_quoted_name_that_holds_the_incarnation(tmp_path: Path) -> None:
    """Repair and fsync name this file; the identifier in it is the one `branches.list()` shows."""
    table = born(tmp_path / "t", "a")
    table.create_branch("p").create_branch("team/x")
    assert files(tmp_path / "t/_refs/branches") == ["p.json", "team%2Fx.json"]
    ref = json.loads((tmp_path / "t/_refs/branches/team%2Fx.json").read_text())
    assert sorted(ref) == ["createAt", "identifier", "manifestSize", "metadata", "parentBranch", "parentVersion"]
    assert (ref["parentBranch"], ref["parentVersion"], ref["metadata"]) == ("p", 1, {})
    listed = table.branches.list()["team/x"]
    assert [tuple(pair) for pair in ref["identifier"]["version_mapping"]] == listed["branch_identifier"]
    assert sorted(listed) == ["branch_identifier", "create_at", "manifest_size", "metadata", "parent_branch", "parent_version"]


def test_a_fresh_branch_holds_no_data_of_its_own(tmp_path: Path) -> None:
    """A fork costs a version file, a transaction file and a ref, whatever the size of the table."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    entries = sorted(path.name for path in (tmp_path / "t/tree/x").iterdir())
    assert entries == ["_transactions", "_versions"]


def test_a_table_without_branches_can_be_moved(tmp_path: Path) -> None:
    """Paths inside a table are relative: a graph with only main moves freely, history included."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    shutil.move(tmp_path / "t", tmp_path / "moved")
    moved = lance.dataset(str(tmp_path / "moved"))
    assert (ids(moved), ids(moved.checkout_version(1))) == (["a", "b"], ["a"])


def test_a_version_file_says_where_its_message_ends(tmp_path: Path) -> None:
    """Torn ones are told by it: position (8), two numbers (2 each) and `LANC` at the end; the message begins with its length (4)."""
    table = born(tmp_path / "t", "a")
    body = (tmp_path / f"t/_versions/{TOP - 1}.manifest").read_bytes()
    position = int.from_bytes(body[-16:-8], "little")
    assert body.endswith(b"LANC")
    assert position + 4 + int.from_bytes(body[position : position + 4], "little") + 16 == len(body)
    assert table.version == 1


LIMITED = """
import resource, signal, sys
import lance, numpy as np, pyarrow as pa
from lance.fragment import write_fragments
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = pa.table({"n": np.random.default_rng(1).integers(0, 2**63, 5000)})  # not compressed, so always of one size
table = lance.write_dataset(rows.slice(0, 1), sys.argv[1])
(first,) = write_fragments(rows, table)
size = first.files[0].file_size_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100, size - 100))
(second,) = write_fragments(rows, table)
print(second.files[0].path, second.files[0].file_size_bytes)
"""


def test_a_data_file_whose_last_write_failed_has_the_name_of_a_whole_one(tmp_path: Path) -> None:
    """Trap: no error, and the size that should have been. We compare it with the file before we name it in a commit."""
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path / "t")], capture_output=True, text=True, check=True)
    name, size = done.stdout.split()
    assert (tmp_path / "t/data" / name).stat().st_size < int(size)


def test_one_empty_reference_fails_every_listing_and_deletion_of_branches(tmp_path: Path) -> None:
    """Trap: a power cut can leave one. So we read and remove references ourselves. Making and opening branches goes on."""
    table = born(tmp_path / "t", "a")
    table.create_branch("b")
    (tmp_path / "t/_refs/branches/torn.json").touch()
    with pytest.raises(RuntimeError):
        table.branches.list()
    with pytest.raises(OSError):
        table.branches.delete("b")
    assert table.create_branch("c").version == 1


def test_an_unreadable_newest_version_hides_the_one_before_it_from_who_asks_for_the_newest_only(tmp_path: Path) -> None:
    """A power cut can leave one. Opened by its number, the version before it is all there; committing on it is refused."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    newest = tmp_path / f"t/_versions/{TOP - 2}.manifest"
    newest.write_bytes(b"")
    with pytest.raises(ValueError):
        lance.dataset(table.uri)
    before = lance.dataset(table.uri, version=1)
    assert (ids(before), before.latest_version) == (["a"], 2)
    with pytest.raises(OSError):
        commit(before, append(before, "c"))
    newest.unlink()
    assert commit(before, append(before, "c")).version == 2


def test_the_annotations_of_a_column_say_how_its_appended_files_are_compressed(tmp_path: Path) -> None:
    """Those of the table count, and not those of the appended rows. Texts that are alike take less than half, and are read as they were."""
    zstd = {b"lance-encoding:compression": b"zstd", b"lance-encoding:structural-encoding": b"miniblock"}
    texts = [f"{at:064d} the same words in each of the texts, which are long enough to be stored one by one " * 3 for at in range(500)]
    sizes = {}
    for of_table, of_rows in (({}, {}), ({}, zstd), (zstd, {})):
        path = tmp_path / f"{len(of_table)}{len(of_rows)}"
        schema, appended = (pa.schema([pa.field("text", pa.string(), metadata=each)]) for each in (of_table, of_rows))
        table = LanceDataset.commit(str(path), LanceOperation.Overwrite(schema, []), max_retries=0)
        written = write_fragments(pa.table({"text": texts}, schema=appended), table)
        grown = LanceDataset.commit(table, LanceOperation.Append(written), read_version=1)
        assert grown.to_table()["text"].to_pylist() == texts
        sizes[bool(of_table), bool(of_rows)] = (path / "data" / written[0].files[0].path).stat().st_size
    assert sizes[True, False] * 2 < sizes[False, False]
    assert sizes[False, True] * 1.5 > sizes[False, False]
