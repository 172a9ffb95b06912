"""Laws of ancestry, on random histories, next to definitions written as plainly as possible."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import FormatError, NotFound
from omnigraph.ids import MAIN, CommitId, SchemaHash
from omnigraph.manifest.lineage import (
    Commits,
    all_merge_bases,
    distances,
    first_parents,
    flaws,
    merge_base,
    merge_bases,
    newest_first,
)
from omnigraph.manifest.model import Commit, CommitKind

START = datetime(2026, 1, 1, tzinfo=UTC)


def commit(name: str, *parents: str, version: int = 1, at: int = 0) -> Commit:
    return Commit(
        id=CommitId(name),
        parents=tuple(CommitId(parent) for parent in parents),
        branch=MAIN,
        manifest_version=version,
        created_at=START + timedelta(seconds=at),
        kind=CommitKind.MUTATE,
        schema=SchemaHash("s"),
    )


def of(*commits: Commit) -> Commits:
    return {c.id: c for c in commits}


@st.composite
def histories(draw: st.DrawFn) -> Commits:
    """Commits in the order they were made; each has up to two earlier parents and is not older than any of them."""
    made: list[Commit] = []
    for n in range(draw(st.integers(1, 14))):
        parents = draw(st.lists(st.sampled_from(made), unique_by=lambda c: c.id, max_size=2)) if made else []
        times = [int((parent.created_at - START).total_seconds()) for parent in parents]
        at = max(times, default=0) + draw(st.integers(0, 2))
        made.append(commit(f"c{n:02d}", *(parent.id for parent in parents), version=draw(st.integers(1, 5)), at=at))
    return of(*made)


def paths(commits: Commits, start: CommitId) -> set[tuple[CommitId, int]]:
    """Every walk from `start`, as (end, steps): the definition of distance, without cleverness."""
    found = {(start, 0)}
    for parent in commits[start].parents:
        found |= {(end, steps + 1) for end, steps in paths(commits, parent)}
    return found


@given(histories(), st.data())
def test_distance_is_the_shortest_walk(commits: Commits, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(sorted(commits)))
    shortest: dict[CommitId, int] = {}
    for end, steps in paths(commits, start):
        shortest[end] = min(steps, shortest.get(end, steps))
    assert distances(commits, start) == shortest


@given(histories(), st.data())
def test_the_merge_base_is_the_nearest_common_ancestor(commits: Commits, data: st.DataObject) -> None:
    ours, theirs = data.draw(st.sampled_from(sorted(commits))), data.draw(st.sampled_from(sorted(commits)))
    left, right = distances(commits, ours), distances(commits, theirs)
    base = merge_base(commits, ours, theirs)
    common = set(left) & set(right)
    if base is None:
        assert not common
        return
    last = {c for c in common if not any(c != other and c in distances(commits, other) for other in common)}
    assert base in last
    nearest = min(left[c] + right[c] for c in last)
    assert left[base] + right[base] == nearest
    rivals = [commits[c].manifest_version for c in last if left[c] + right[c] == nearest]
    assert commits[base].manifest_version == max(rivals), "of equals the newest"
    assert merge_base(commits, theirs, ours) == base


@given(histories(), st.data())
def test_of_two_in_line_the_older_is_the_base(commits: Commits, data: st.DataObject) -> None:
    younger = data.draw(st.sampled_from(sorted(commits)))
    older = data.draw(st.sampled_from(sorted(distances(commits, younger))))
    assert merge_base(commits, older, younger) == older
    assert merge_base(commits, younger, younger) == younger


@given(histories(), st.data())
def test_a_listing_has_every_ancestor_once_and_children_first(commits: Commits, data: st.DataObject) -> None:
    head = data.draw(st.sampled_from(sorted(commits)))
    listed = [c.id for c in newest_first(commits, head)]
    assert sorted(listed) == sorted(distances(commits, head))
    place = {c: at for at, c in enumerate(listed)}
    assert all(place[child] < place[parent] for child in listed for parent in commits[child].parents)


@given(histories(), st.data())
def test_the_bases_of_all_pairs_are_those_of_each_pair(commits: Commits, data: st.DataObject) -> None:
    heads = data.draw(st.lists(st.sampled_from(sorted(commits)), max_size=5))
    hidden = data.draw(st.sets(st.sampled_from(sorted(commits))))

    def readable(found: Commit) -> bool:
        return found.id not in hidden

    each = {base for one, other in combinations(sorted(set(heads)), 2) for base in merge_bases(commits, one, other, readable=readable)}
    assert all_merge_bases(commits, heads, readable=readable) == each


def test_a_merge_that_reached_far_back_does_not_make_an_old_commit_the_base() -> None:
    history = of(commit("a"), commit("b", "a"), commit("c", "b"), commit("d", "c"), commit("e", "d", "a"))
    assert merge_base(history, CommitId("b"), CommitId("e")) == "b"


def test_unrelated_side_lines_are_listed_by_time() -> None:
    history = of(commit("a"), commit("b", "a", at=1), commit("c", "a", at=2), commit("d", "b", "c", at=3))
    assert [c.id for c in newest_first(history, CommitId("d"))] == ["d", "c", "b", "a"]


def test_the_first_parent_line_stops_where_the_history_ends() -> None:
    history = of(commit("b", "a"), commit("c", "b", "x"))
    assert [c.id for c in first_parents(history, CommitId("c"))] == ["c", "b"]


def test_an_unknown_commit_is_named() -> None:
    with pytest.raises(NotFound) as caught:
        distances(of(commit("a")), CommitId("zzz"))
    assert caught.value.facts == {"commit": "zzz"}


# -- histories that nobody should have made


def born(name: str) -> Commit:
    return msgspec.structs.replace(commit(name), kind=CommitKind.GENESIS)


BROKEN = {
    "no head": (of(born("a")), "b", "is not in the history"),
    "no parent": (of(commit("b", "a")), "b", "names a parent a that is not in the history"),
    "no birth": (of(commit("a")), "a", "is not the genesis commit"),
    "two births": (of(born("a"), commit("x"), commit("b", "a", "x", version=2)), "b", "is not the genesis commit"),
    "its own parent": (of(born("a"), commit("b", "b", version=2)), "b", "ancestors of themselves"),
    "a circle": (of(born("a"), commit("b", "d", version=2), commit("c", "b", version=3), commit("d", "c", version=4)), "d", "3 commits"),
    "a circle behind a merge": (of(born("a"), commit("b", "b"), commit("c", "a", "b", version=3)), "c", "ancestors of themselves"),
    "versions that do not grow": (of(born("a"), commit("b", "a", version=1)), "b", "has version 1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_history_is_told(case: str) -> None:
    commits, head, says = BROKEN[case]
    assert says in " / ".join(flaws(commits, CommitId(head)))


@pytest.mark.parametrize("case", BROKEN)
def test_no_walk_through_a_broken_history_is_endless(case: str) -> None:
    commits, head, _ = BROKEN[case]
    for walk in (newest_first, first_parents, distances):
        with contextlib.suppress(FormatError, NotFound, KeyError):
            assert len(list(walk(commits, CommitId(head)))) <= 2 * len(commits)


def test_a_sound_history_has_no_flaw() -> None:
    commits = of(born("a"), commit("b", "a", version=2), commit("c", "a", version=2), commit("d", "b", "c", version=3))
    assert list(flaws(commits, CommitId("d"))) == []
