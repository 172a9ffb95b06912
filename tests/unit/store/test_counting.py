"""CountingObjects: every call is counted by kind, by any number of threads, and changes nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.errors import NotFound
from omnigraph.store.objects import Objects, open_objects
from tests.counting import CountingObjects


def test_each_call_is_counted_under_its_kind_and_passed_on(tmp_path: Path) -> None:
    inner = open_objects(str(tmp_path))
    objects = CountingObjects(inner)
    as_protocol: Objects = objects
    token = as_protocol.put("a", b"1")
    assert as_protocol.put_if_absent("a", b"2") is None
    assert as_protocol.put_if_match("a", b"3", token) is not None
    assert (as_protocol.get("a"), as_protocol.get_if_exists("b")) == (b"3", None)
    assert as_protocol.get_versioned("a") == inner.get_versioned("a")
    assert as_protocol.exists("a")
    assert as_protocol.list("") == ["a"]
    as_protocol.rename("a", "c/d")
    as_protocol.delete_prefix("c")
    as_protocol.delete("a")
    assert inner.list("") == []
    assert objects.calls == {"put": 3, "get": 3, "exists": 1, "list": 1, "rename": 1, "delete": 2}
    assert (objects.uri, objects.is_local) == (inner.uri, inner.is_local)


def test_a_call_that_fails_is_counted_too(tmp_path: Path) -> None:
    objects = CountingObjects(open_objects(str(tmp_path)))
    with pytest.raises(NotFound):
        objects.get("nothing")
    assert objects.calls["get"] == 1


def test_threads_lose_no_count() -> None:
    objects = CountingObjects(open_objects("memory://threads-lose-no-count"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [objects.exists("x") for _ in range(200)], range(8)))
    assert objects.calls["exists"] == 1600
