"""The objects contract (A-01..A-10), word for word the same on a disk, in memory and on S3."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.errors import InvalidInput, Kind, NotFound, ResourceLimitExceeded, StorageError
from omnigraph.store.objects import Objects
from tests.contract.stores import Place, finish, release, run_together, start_child

_fresh = itertools.count()

on_every_store = pytest.mark.parametrize("place", ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)], indirect=True)
between_processes = pytest.mark.parametrize("place", ["local", pytest.param("s3", marks=pytest.mark.s3)], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "local":
            return Place(str(tmp_path / "root"), {})
        case "memory":
            return Place(f"memory://contract-{next(_fresh)}", {})
        case _:
            return Place(request.getfixturevalue("s3_uri"), request.getfixturevalue("s3_server").storage_options)


@pytest.fixture
def objects(place: Place) -> Objects:
    return place.open()


@on_every_store
class TestContract:
    def test_what_was_put_is_seen_by_every_reader(self, place: Place, objects: Objects) -> None:
        """A-01: An object that was put is visible to every reader with all its bytes; a reader never sees part of a value."""
        token = objects.put("a/b.json", b"one")
        other = place.open()
        assert other.get("a/b.json") == b"one"
        assert other.get_if_exists("a/b.json") == b"one"
        assert other.get_versioned("a/b.json") == (b"one", token)
        objects.put("a/b.json", b"two", sync=True)
        assert other.get("a/b.json") == b"two"

    def test_empty_and_large_values_come_back_whole(self, objects: Objects) -> None:
        """A-01: above obstore's 5 MB threshold for uploads in parts, too."""
        large = bytes(range(256)) * 30_000
        objects.put("empty", b"")
        objects.put("large", large)
        assert (objects.get("empty"), objects.get("large")) == (b"", large)

    @pytest.mark.parametrize(
        "name", ["with space.json", "únïcode-漢.json", "ha#sh", "per%20cent%", "plus+and&", "dots..in.name", "-dash", "x" * 200]
    )
    def test_names_are_taken_verbatim(self, objects: Objects, name: str) -> None:
        """A-05"""
        path = f"folder {name[:9]}/{name}"
        objects.put(path, name.encode())
        assert objects.get(path) == name.encode()
        assert objects.list(f"folder {name[:9]}") == [path]
        objects.rename(path, f"moved/{name}")
        objects.delete(f"moved/{name}")
        assert not objects.exists(f"moved/{name}")

    @pytest.mark.parametrize(
        "path", ["", "/abs", "a//b", "a/", "../up", "a/../b", ".", "./a", "a/.", "nul\0", "half\ud800", "x.omnigraph-tmp"]
    )
    def test_paths_that_name_no_object_are_refused(self, objects: Objects, path: str) -> None:
        for act in (objects.get, objects.exists, objects.delete, lambda p: objects.put(p, b""), lambda p: objects.rename("a", p)):
            with pytest.raises(InvalidInput) as caught:
                act(path)
            assert caught.value.kind is Kind.INVALID_ARGUMENT

    @pytest.mark.parametrize("prefix", ["", "/", "..", "a/../..", "//"])
    def test_delete_prefix_never_takes_the_root_or_what_is_outside(self, objects: Objects, prefix: str) -> None:
        """A-06"""
        objects.put("a/keep", b"")
        with pytest.raises(InvalidInput):
            objects.delete_prefix(prefix)
        assert objects.exists("a/keep")

    @pytest.mark.parametrize("sync", [False, True])
    def test_what_comes_first_runs_before_the_object_is_seen(self, objects: Objects, sync: bool) -> None:
        seen: list[bytes | None] = []

        def first(flush: Callable[[], None]) -> None:
            flush()
            seen.append(objects.get_if_exists("a/x"))

        objects.put("a/x", b"old", sync=sync, first=first)
        objects.put("a/x", b"new", sync=sync, first=first)
        assert seen == [None, b"old"]
        assert objects.get("a/x") == b"new"

    def test_an_object_whose_first_step_fails_is_not_written(self, objects: Objects) -> None:
        def first(flush: Callable[[], None]) -> None:
            raise StorageError(Kind.TORN_FILE, "a file is incomplete")

        for _ in range(2):
            with pytest.raises(StorageError, match="incomplete"):
                objects.put("a/x", b"new", sync=True, first=first)
        assert objects.list("") == []

    def test_put_if_absent_lets_the_first_win_and_leaves_its_bytes(self, objects: Objects) -> None:
        """A-02: Of several claims of an absent name exactly one succeeds, and the others leave its bytes alone."""
        token = objects.put_if_absent("claims/one", b"first", sync=True)
        assert objects.put_if_absent("claims/one", b"second") is None
        assert objects.get_versioned("claims/one") == (b"first", token)

    def test_put_if_match_takes_a_fresh_token_once(self, objects: Objects) -> None:
        """A-03: A conditional write succeeds with the newest token only. Tokens come from every write and from a versioned read."""
        first = objects.put_if_absent("x", b"1")
        assert first is not None
        second = objects.put_if_match("x", b"2", first, sync=True)
        assert second is not None
        assert objects.put_if_match("x", b"stale", first) is None
        third = objects.put("x", b"3")
        assert objects.put_if_match("x", b"stale", second) is None
        assert objects.get_versioned("x") == (b"3", third)
        assert objects.put_if_match("x", b"4", third) is not None
        assert objects.get("x") == b"4"

    def test_put_if_match_on_an_absent_object_is_lost_not_an_error(self, objects: Objects) -> None:
        """A-03"""
        token = objects.put("gone", b"1")
        objects.delete("gone")
        assert objects.put_if_match("gone", b"2", token) is None
        assert objects.put_if_match("never/was", b"2", token) is None
        assert objects.put_if_match("gone", b"2", "no token of anybody's") is None
        assert not objects.exists("gone")
        assert not objects.exists("never")

    def test_exists_means_an_object_or_something_below(self, objects: Objects) -> None:
        """A-04: A name exists if there is an object or something below it. A missing permission is an error, not an absence."""
        assert not objects.exists("a")
        objects.put("a/b/c", b"")
        assert [objects.exists(path) for path in ("a", "a/b", "a/b/c", "a/b/c/d", "a/bb", "b")] == [True, True, True, False, False, False]
        objects.delete("a/b/c")
        assert not any(objects.exists(path) for path in ("a", "a/b", "a/b/c"))

    def test_list_shows_direct_children_only(self, objects: Objects) -> None:
        """A-05: A listing is sorted and holds direct children only, none of a sibling that shares the prefix; names are verbatim."""
        for path in ("a/2", "a/1", "a/sub/deep/x", "ab/1", "a.json", "a-/x"):
            objects.put(path, b"")
        assert objects.list("a") == objects.list("a/") == ["a/1", "a/2", "a/sub/"]
        assert objects.list("a/sub/") == ["a/sub/deep/"]
        assert objects.list("") == ["a-/", "a.json", "a/", "ab/"]
        assert objects.list("missing") == objects.list("a/1") == []

    def test_written_shows_the_time_of_all_below(self, objects: Objects) -> None:
        """Of the store's clock: cleanup compares it with days."""
        objects.put("a/one", b"1")
        objects.put("a/b/two", b"22")
        objects.put("c", b"3")
        found = objects.written("a")
        assert found.keys() == {"a/one", "a/b/two"}
        assert all(abs(at - datetime.now(UTC)) < timedelta(minutes=5) for at in found.values())
        assert objects.written("nothing") == {}

    def test_sizes_shows_all_below_with_their_bytes(self, objects: Objects) -> None:
        """A-05: at any depth; what lies beside is not in it, and nothing is no error."""
        for name, data in {"a/one": b"1", "a/b/two": b"22", "a/b/c/none": b"", "ab/beside": b"x"}.items():
            objects.put(name, data)
        assert objects.sizes("a") == {"a/one": 1, "a/b/two": 2, "a/b/c/none": 0}
        assert objects.sizes("a/b") == {"a/b/two": 2, "a/b/c/none": 0}
        assert objects.sizes("nothing") == {}

    def test_list_refuses_more_than_its_limit(self, objects: Objects) -> None:
        """A-10: A listing beyond its limit is an error, never a truncated success."""
        for number in range(4):
            objects.put(f"many/{number}", b"")
        objects.put("many/folder/x", b"")
        assert len(objects.list("many", limit=5)) == 5
        with pytest.raises(ResourceLimitExceeded) as caught:
            objects.list("many", limit=4)
        assert caught.value.facts == {"resource": "objects_listed", "limit": 4, "actual": 5}

    def test_a_missing_object_is_a_typed_absence(self, objects: Objects) -> None:
        """A-09: A missing object is a typed absence, and a bounded read refuses a larger object before it reads it."""
        assert objects.get_if_exists("no/thing") is None
        assert objects.get_versioned("no/thing") is None
        with pytest.raises(NotFound) as caught:
            objects.get("no/thing")
        assert caught.value.kind is Kind.OBJECT_NOT_FOUND
        assert "no/thing" in caught.value.message

    def test_a_bounded_read_refuses_what_is_larger(self, objects: Objects) -> None:
        """A-09"""
        objects.put("x", b"12345")
        assert objects.get("x", limit_bytes=5) == objects.get_if_exists("x", limit_bytes=5) == b"12345"
        for read in (objects.get, objects.get_if_exists):
            with pytest.raises(ResourceLimitExceeded) as caught:
                read("x", limit_bytes=4)
            assert caught.value.facts == {"resource": "object_bytes", "limit": 4, "actual": 5}
        assert objects.get_if_exists("absent", limit_bytes=0) is None

    def test_deleting_twice_is_deleting_once(self, objects: Objects) -> None:
        """A-06: Deletes are idempotent. Deleting a prefix removes all below it and nothing beside it, and leaves no directories."""
        objects.put("d/x", b"")
        for _ in range(2):
            objects.delete("d/x")
            objects.delete("d/never/was")
        assert objects.get_if_exists("d/x") is None

    def test_delete_prefix_takes_all_below_and_nothing_beside(self, objects: Objects) -> None:
        """A-06"""
        for path in ("p/1", "p/s/2", "p/s/t/3", "pp/4", "p.json"):
            objects.put(path, b"")
        objects.delete_prefix("p/s")
        assert objects.list("p") in (["p/1"], ["p/1", "p/s/"])  # SeaweedFS shows an emptied folder for a while
        for _ in range(2):
            objects.delete_prefix("p/")
            assert objects.list("p") in ([], ["p/s/"])
            assert not objects.exists("p")
        assert objects.exists("pp/4")
        assert objects.exists("p.json")
        objects.delete_prefix("p.json")  # an object is not a prefix
        assert objects.exists("p.json")

    def test_rename_replaces_its_target_and_makes_its_folders(self, objects: Objects) -> None:
        """A-07: A rename replaces its target and creates the directories above it."""
        objects.put("from/x", b"new")
        objects.put("to/y", b"old")
        objects.rename("from/x", "to/y")
        assert objects.get("to/y") == b"new"
        assert not objects.exists("from/x")
        objects.rename("to/y", "deep/er/z")
        assert objects.get("deep/er/z") == b"new"
        objects.rename("deep/er/z", "deep/er/z")
        assert objects.get("deep/er/z") == b"new"
        for source, target in (("to/y", "other/z"), ("to/y", "to/y")):
            with pytest.raises(NotFound) as caught:
                objects.rename(source, target)
            assert caught.value.kind is Kind.OBJECT_NOT_FOUND
        assert not objects.exists("other")

    def test_threads_lose_no_swap(self, place: Place, objects: Objects) -> None:
        """A-03"""
        objects.put("counter", b"0")

        def add(_: int) -> int:
            applied = 0
            while applied < 20:
                found = objects.get_versioned("counter")
                assert found is not None
                applied += objects.put_if_match("counter", str(int(found[0]) + 1).encode(), found[1]) is not None
            return applied

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(add, range(4))) == [20] * 4
        assert objects.get("counter") == b"80"


@between_processes
class TestBetweenProcesses:
    def test_one_of_many_claimants_wins_and_its_bytes_are_whole(self, place: Place, objects: Objects) -> None:
        """A-02"""
        names = [f"claims/{number}" for number in range(40)]
        won = run_together([start_child("claim", place, me=me, names=names, repeat=30_000, wait=True) for me in "abc"])
        assert sorted(itertools.chain(*won)) == sorted(names)
        for me, mine in zip("abc", won, strict=True):
            assert all(objects.get(name) == me.encode() * 30_000 for name in mine)

    def test_no_swap_is_lost_between_processes(self, place: Place, objects: Objects) -> None:
        """A-03"""
        objects.put("counter", b"0")
        reports = run_together([start_child("increment", place, path="counter", times=100, wait=True) for _ in range(2)])
        assert [report["applied"] for report in reports] == [100, 100]
        assert objects.get("counter") == b"200"

    def test_readers_never_see_a_torn_value(self, place: Place, objects: Objects) -> None:
        """A-01"""
        size = 300_000
        objects.put("value", b"z" * size)
        writer = start_child("replace", place, path="value", size=size, seconds=1.5, wait=True)
        release([writer])
        seen: set[bytes] = set()
        while writer.poll() is None:
            value = objects.get("value")
            assert value == value[:1] * size
            seen.add(value[:1])
        assert finish(writer) > 8
        assert len(seen) > 2, "the reader must have met several values, or this proves nothing"
