"""A dict beside a real graph: publishes, branches, deaths, reopening, two handles. Equal after every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.registry import list_branches
from tests.graphs import make, note, reopen
from tests.samples import sample

BRANCH = st.integers(0, 5)
NAMES = ["a", "b", "a/x", "team/one", "team/two"]
BEFORE = (Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT)
CREATING = (Fault.BRANCH_BEFORE_CREATE, Fault.BRANCH_AFTER_CREATE)
AFTER = (Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC)


class ManifestMachine(RuleBasedStateMachine):
    """The model: branch -> the messages of its commits, oldest first; and who was made from whom."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.handles: list[Manifest] = [make(self.folder / "g"), reopen(self.folder / "g")]
        self.said: dict[BranchName, list[str | None]] = {MAIN: [None]}
        self.parent: dict[BranchName, BranchName] = {}
        self.tokens: dict[BranchName, set[str]] = {}
        self.count = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def handle(self, which: int) -> Manifest:
        return self.handles[which]

    def branch(self, at: int) -> BranchName:
        live = sorted(self.said)
        return live[at % len(live)]

    def message(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule(at=BRANCH, which=st.integers(0, 1))
    def publish(self, at: int, which: int) -> None:
        branch = self.branch(at)
        message = self.message()
        note(self.handle(which), message, branch=branch)
        self.said[branch].append(message)

    @rule(at=BRANCH, which=st.integers(0, 1), point=st.sampled_from([*BEFORE, *AFTER]))
    def publish_and_die(self, at: int, which: int, point: Fault) -> None:
        branch = self.branch(at)
        message = self.message()
        with armed(point), pytest.raises(SimulatedCrash):
            note(self.handle(which), message, branch=branch)
        if point in AFTER:
            self.said[branch].append(message)

    @rule(at=BRANCH, which=st.integers(0, 1), token=st.sampled_from(["t1", "t2"]))
    def publish_with_token(self, at: int, which: int, token: str) -> None:
        branch = self.branch(at)
        published = note(self.handle(which), f"token {token}", branch=branch, token=token)
        assert published.repeated == (token in self.tokens.get(branch, set()))
        if not published.repeated:
            self.said[branch].append(f"token {token}")
            self.tokens.setdefault(branch, set()).add(token)

    @rule(name=st.sampled_from(NAMES), at=BRANCH, which=st.integers(0, 1))
    def create(self, name: str, at: int, which: int) -> None:
        new, from_ = BranchName(name), self.branch(at)
        try:
            create_branch(self.handle(which), name, from_=from_)
        except ConflictError as error:
            assert error.kind is Kind.BRANCH_EXISTS  # noqa: PT017  # the law is which error comes when
            assert new in self.said
            return
        except InvalidInput as error:
            assert error.kind is Kind.BRANCH_NAME_OVERLAPS  # noqa: PT017
            assert any(other.startswith(name + "/") or name.startswith(other + "/") for other in self.said)
            return
        assert new not in self.said
        self.said[new] = list(self.said[from_])
        self.parent[new] = from_

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, 1), point=st.sampled_from([Fault.BRANCH_BEFORE_CREATE, Fault.BRANCH_AFTER_CREATE])
    )
    def create_and_die(self, name: str, which: int, point: Fault) -> None:
        if any(name == other or other.startswith(name + "/") or name.startswith(other + "/") for other in self.said):
            return
        with armed(point), pytest.raises(SimulatedCrash):
            create_branch(self.handle(which), name)

    @precondition(lambda self: len(self.said) > 1)
    @rule(at=BRANCH, which=st.integers(0, 1), dies=st.booleans())
    def delete(self, at: int, which: int, dies: bool) -> None:
        branch = self.branch(at)
        if branch == MAIN:
            return
        if branch in self.parent.values():
            with pytest.raises(ConflictError) as caught:
                delete_branch(self.handle(which), branch)
            assert caught.value.kind is Kind.BRANCH_HAS_CHILDREN
            return
        if dies:
            with armed(Fault.BRANCH_AFTER_DELETE), pytest.raises(SimulatedCrash):
                delete_branch(self.handle(which), branch)
        else:
            delete_branch(self.handle(which), branch)
        del self.said[branch]
        self.parent.pop(branch, None)
        self.tokens.pop(branch, None)
        with pytest.raises(NotFound):
            self.handle(1 - which).snapshot(branch)

    @rule(which=st.integers(0, 1))
    def open_again(self, which: int) -> None:
        self.handles[which] = reopen(self.folder / "g")

    @invariant()
    def the_graph_says_what_the_model_says(self) -> None:
        for manifest in self.handles:
            assert list_branches(manifest.root.objects) == sorted(set(self.said) - {MAIN})
            for branch, said in self.said.items():
                commits = manifest.commits(branch)
                assert [commit.message for commit in reversed(commits)] == said
                assert manifest.snapshot(branch).commit == commits[0].id


ManifestMachine.TestCase.settings = settings(
    max_examples=sample(15, whole=300),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestManifest = ManifestMachine.TestCase
