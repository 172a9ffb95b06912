"""`omnigraph cleanup`: a preview unless it is confirmed, its documents, and its refusals."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import Kind, StorageError
from omnigraph.faults import Fault, armed
from tests.unit.cli.calls import Call


@pytest.fixture
def old(graph: str) -> str:
    """A graph with five commits more than it had."""
    for name in "abcde":
        og.open(graph).load([{"type": "Person", "data": {"name": name}}])
    return graph


def test_it_previews_unless_it_is_confirmed(old: str, call: Call) -> None:
    commits = len(og.open(old).commits())
    said = call("cleanup", old, "--keep", "2")
    assert (said.code, said.out) == (0, "")
    head, *tables, last = said.err.splitlines()
    assert head.startswith(f"cleanup {old} — ")
    assert any(line.startswith("node:Person: ") and line.endswith(" bytes") for line in tables)
    assert last == "this is a preview: nothing was removed; pass --confirm to remove it"
    told = call("cleanup", old, "--keep", "2", "--json").json()
    done = call("cleanup", old, "--keep", "2", "--confirm", "--json").json()
    assert (told.pop("confirm"), done.pop("confirm")) == (False, True)
    assert told == done
    assert done.keys() == {
        *("uri", "keep_versions", "older_than_secs", "datasets", "bytes_removed", "old_versions_removed"),
        *("forks_removed", "transactions_removed"),
    }
    assert (done["uri"], done["keep_versions"], done["older_than_secs"]) == (old, 2, None)
    person = next(each for each in done["datasets"] if each["type_key"] == "node:Person")
    assert person.keys() == {"type_key", "bytes_removed", "old_versions_removed", "error"}
    assert person["old_versions_removed"] > 0
    assert person["bytes_removed"] > 0
    assert len(og.open(old).commits()) == commits


def test_it_says_what_it_removed(old: str, call: Call) -> None:
    said = call("cleanup", old, "--older-than", "0s", "--confirm")
    assert said.code == 0
    assert said.out.startswith(f"cleanup {old} — ")
    assert said.err == f"omnigraph cleanup → {old} (direct, local)\n"
    assert call("verify", old).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--keep N, --older-than DURATION"),
        (("--older-than", "7y"), "unknown duration unit 'y'. Supported: s, m, h, d, w"),
        (("--older-than", "soon"), "'soon' is not a duration"),
        (("--older-than", "99999999999999w"), "is too long a time"),
    ],
)
def test_what_is_no_policy_is_refused(old: str, call: Call, arguments: tuple[str, ...], said: str) -> None:
    told = call("cleanup", old, *arguments)
    assert told.code == 1
    assert said in told.err


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("5m", 300), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)])
def test_durations(old: str, call: Call, text: str, seconds: int) -> None:
    assert call("cleanup", old, "--older-than", text, "--json").json()["older_than_secs"] == seconds


def test_keep_of_zero_is_a_usage_error(old: str, call: Call) -> None:
    assert call("cleanup", old, "--keep", "0").code == 2


def test_a_table_that_could_not_be_cleaned_exits_with_1(old: str, call: Call) -> None:
    """The others are cleaned, and the row of the table has the error (F-11)."""
    with armed(Fault.CLEANUP_BEFORE_TABLE, failure=StorageError(Kind.STORAGE, "no disk today")):
        said = call("cleanup", old, "--keep", "1", "--confirm", "--json")
    assert said.code == 1
    assert [each["error"] for each in said.json()["datasets"] if each["error"] is not None] == ["no disk today"]
