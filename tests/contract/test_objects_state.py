"""A dict beside a real store: after every step of any history the two are equal (A-01..A-07)."""

from __future__ import annotations

import itertools
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from omnigraph.errors import NotFound
from omnigraph.store.objects import Objects, open_objects
from tests.samples import sample

# No name is a folder of another: on a disk a name cannot be both, and that refusal has a test of its own.
NAMES = ("a/1", "a/2 two", "a/b/c", "a/b/d#%.json", "ab/1", "ä", "z.json")
FOLDERS = ("a", "a/b", "ab", "b", "missing/below")
_fresh = itertools.count()

names = st.sampled_from(NAMES)
values = st.binary(max_size=3)


class StoreBesideDict(RuleBasedStateMachine):
    """`objects` is set by the subclasses."""

    objects: Objects

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, bytes] = {}
        self.current: dict[str, str] = {}
        self.tokens: list[str] = ["never given"]

    def wrote(self, path: str, data: bytes, token: str) -> None:
        self.model[path], self.current[path] = data, token
        self.tokens.append(token)

    @rule(path=names, data=values)
    def put(self, path: str, data: bytes) -> None:
        self.wrote(path, data, self.objects.put(path, data))

    @rule(path=names, data=values)
    def put_if_absent(self, path: str, data: bytes) -> None:
        token = self.objects.put_if_absent(path, data)
        assert (token is None) == (path in self.model)
        if token is not None:
            self.wrote(path, data, token)

    @rule(path=names, data=values)
    def put_if_match_with_the_current_token(self, path: str, data: bytes) -> None:
        token = self.objects.put_if_match(path, data, self.current.get(path, "none"))
        assert (token is None) == (path not in self.model)
        if token is not None:
            self.wrote(path, data, token)

    @rule(path=names, data=values, which=st.integers(min_value=0))
    def put_if_match_with_any_token(self, path: str, data: bytes, which: int) -> None:
        old = self.tokens[which % len(self.tokens)]
        token = self.objects.put_if_match(path, data, old)
        assert (token is not None) == (self.current.get(path) == old)
        if token is not None:
            self.wrote(path, data, token)

    @rule(path=names)
    def delete(self, path: str) -> None:
        self.objects.delete(path)
        self.model.pop(path, None)
        self.current.pop(path, None)

    @rule(folder=st.sampled_from(FOLDERS))
    def delete_prefix(self, folder: str) -> None:
        self.objects.delete_prefix(folder)
        for path in [path for path in self.model if path.startswith(f"{folder}/")]:
            del self.model[path], self.current[path]

    @rule(source=names, to=names)
    def rename(self, source: str, to: str) -> None:
        if source not in self.model:
            with pytest.raises(NotFound):
                self.objects.rename(source, to)
            return
        self.objects.rename(source, to)
        data = self.model.pop(source)
        self.current.pop(source)
        found = self.objects.get_versioned(to)
        assert found is not None
        self.wrote(to, data, found[1])

    @invariant()
    def values_are_equal(self) -> None:
        for path in NAMES:
            expected = (self.model[path], self.current[path]) if path in self.model else None
            assert self.objects.get_versioned(path) == expected
            assert self.objects.get_if_exists(path) == self.model.get(path)
            assert self.objects.exists(path) == (path in self.model)

    @invariant()
    def folders_are_equal(self) -> None:
        for folder in ("", *FOLDERS):
            inside = f"{folder}/" if folder else ""
            below = [path.removeprefix(inside) for path in self.model if path.startswith(inside)]
            children = {inside + name.partition("/")[0] + name.partition("/")[1] for name in below}
            assert self.objects.list(folder) == sorted(children)
            if folder:
                assert self.objects.exists(folder) == bool(below)


class MemoryBesideDict(StoreBesideDict):
    def __init__(self) -> None:
        super().__init__()
        self.objects = open_objects(f"memory://state-{next(_fresh)}")


class LocalBesideDict(StoreBesideDict):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="omnigraph-state-")
        self.objects = open_objects(f"{self.folder}/root")

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


_SETTINGS = settings(
    max_examples=sample(40, whole=400), stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMemoryBesideDict = MemoryBesideDict.TestCase
TestMemoryBesideDict.settings = _SETTINGS
TestLocalBesideDict = LocalBesideDict.TestCase
TestLocalBesideDict.settings = _SETTINGS
