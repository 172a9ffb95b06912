"""The bounded map: eviction order, weights, and use from several threads."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lru import Lru


def test_a_missing_key_gives_none() -> None:
    assert Lru[str, int](2).get("a") is None


def test_put_returns_the_value_and_get_finds_it() -> None:
    cache = Lru[str, int](2)
    assert cache.put("a", 1) == 1
    assert cache.get("a") == 1
    assert "a" in cache
    assert len(cache) == 1


def test_the_least_recently_used_value_is_evicted() -> None:
    cache = Lru[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert "b" not in cache
    assert cache.values() == [1, 3]


def test_putting_again_replaces_the_value_and_marks_it_as_used() -> None:
    cache = Lru[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 10)
    cache.put("c", 3)
    assert cache.values() == [10, 3]


def test_contains_and_values_do_not_mark_a_value_as_used() -> None:
    cache = Lru[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "a" in cache
    assert cache.values() == [1, 2]
    cache.put("c", 3)
    assert "a" not in cache


def test_weights_bound_the_sum() -> None:
    cache = Lru[str, bytes](10, weigh=len)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    cache.put("c", b"123")
    assert cache.values() == [b"1234", b"123"]
    assert cache.weight == 7
    cache.put("b", b"1")
    assert cache.weight == 4


def test_a_value_heavier_than_the_limit_is_not_stored_and_evicts_no_other_key() -> None:
    cache = Lru[str, bytes](4, weigh=len)
    cache.put("a", b"12")
    cache.put("b", b"1")
    assert cache.put("b", b"12345") == b"12345"
    assert "b" not in cache
    assert cache.values() == [b"12"]
    assert cache.weight == 2


def test_discard_removes_a_key_and_ignores_a_missing_one() -> None:
    cache = Lru[str, int](2)
    cache.put("a", 1)
    cache.discard("a")
    cache.discard("a")
    assert cache.get("a") is None
    assert cache.weight == 0


KEYS = st.integers(0, 5)
STEPS = st.lists(st.one_of(st.tuples(st.just("get"), KEYS), st.tuples(st.just("discard"), KEYS), st.tuples(st.just("put"), KEYS)))


@given(STEPS, st.integers(1, 4))
def test_it_behaves_like_an_ordered_dict_cut_at_the_limit(steps: list[tuple[str, int]], limit: int) -> None:
    cache, model = Lru[int, int](limit), OrderedDict[int, int]()
    for value, (step, key) in enumerate(steps):
        if step == "put":
            cache.put(key, value)
            model[key] = value
            model.move_to_end(key)
            if len(model) > limit:
                model.popitem(last=False)
        elif step == "get":
            assert cache.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        else:
            cache.discard(key)
            model.pop(key, None)
        assert cache.values() == list(model.values())
        assert cache.weight == len(cache) == len(model)


def test_threads_keep_the_weight_exact() -> None:
    cache = Lru[int, bytes](500, weigh=len)

    def work(seed: int) -> None:
        for step in range(2_000):
            key = (seed * 31 + step * 7) % 60
            cache.put(key, b"x" * (key + 1))
            cache.get((key * 3) % 60)
            cache.discard((key * 5) % 60)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert cache.weight == sum(len(value) for value in cache.values()) <= 500
