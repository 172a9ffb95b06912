"""B-29, C-09, W-02: on a real S3 server writer, recoverer, deleter, creator and reclaimer each sleep past their lease at every boundary.

Others go on meanwhile: they write, make and delete branches, recover. Then the sleeper wakes. `./test --all` tries every boundary.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound
from omnigraph.exec.upkeep.verify import Severity
from omnigraph.faults import Fault
from omnigraph.graph import Graph
from omnigraph.ids import CommitId
from omnigraph.manifest.locks import Locks
from omnigraph.store.objects import open_objects
from tests.crasher import TTL_SECONDS, asleep, crash
from tests.s3 import S3Server
from tests.samples import ENVIRONMENT as ALL

pytestmark = pytest.mark.s3

SCHEMA = "node A { k: String @key  s: String? }  node B { k: String @key }"
NARROW = "node A { k: String @key }  node B { k: String @key }"
BOTH = 'query q() {{ insert A {{ k: "{0}" }} insert B {{ k: "{0}" }} }}'


class Case(NamedTuple):
    """Somebody who sleeps at a boundary; `after` is where a writer before it was killed."""

    name: str
    doing: str
    fault: Fault
    nth: int = 1
    after: Fault | None = None
    usual: bool = False


def asleep_at(name: str, doing: str, *points: Fault, usual: tuple[Fault, ...] = (), after: Fault | None = None) -> list[Case]:
    return [Case(f"{name} {point.value}", doing, point, after=after, usual=point in usual) for point in points]


PUBLISHING = (Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT, Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC)
WRITING = (
    Fault.WRITE_PREPARED,
    Fault.WRITE_BEFORE_ARM,
    Fault.WRITE_ARMED,
    Fault.STAGE_BEFORE_COMMIT,
    Fault.STAGE_AFTER_COMMIT,
    Fault.WRITE_BETWEEN_TABLES,
    Fault.WRITE_COMMITTED,
    *PUBLISHING,
    Fault.WRITE_PUBLISHED,
)
CASES = [
    *asleep_at("writer", f"mutate {BOTH.format('sleeper')}", *WRITING, usual=(Fault.PUBLISH_BEFORE_COMMIT,)),
    *asleep_at(
        "first touch",
        f"on fresh {BOTH.format('sleeper')}",
        Fault.WRITE_BEFORE_REF,
        Fault.WRITE_AFTER_REF,
        *WRITING[2:],
        usual=(Fault.WRITE_AFTER_REF,),
    ),
    *asleep_at(
        "recoverer back",
        "heal main",
        Fault.RECOVER_FOUND,
        Fault.RECOVER_BEFORE_RESTORE,
        Fault.RECOVER_AFTER_RESTORE,
        Fault.RECOVER_BEFORE_PUBLISH,
        Fault.RECOVER_AFTER_PUBLISH,
        after=Fault.WRITE_BETWEEN_TABLES,
        usual=(Fault.RECOVER_AFTER_RESTORE,),
    ),
    *asleep_at(
        "recoverer forward",
        "heal main",
        Fault.RECOVER_FOUND,
        Fault.RECOVER_BEFORE_PUBLISH,
        Fault.RECOVER_AFTER_PUBLISH,
        after=Fault.WRITE_COMMITTED,
    ),
    *asleep_at(
        "deleter",
        "delete doomed",
        Fault.BRANCH_BEFORE_DELETE,
        Fault.BRANCH_AFTER_DELETE,
        Fault.BRANCH_BEFORE_DROP,
    ),
    Case("deleter between drops", "delete doomed", Fault.BRANCH_BEFORE_DROP, nth=2, usual=True),
    *asleep_at("creator", "create newborn from doomed", Fault.BRANCH_BEFORE_CREATE, Fault.BRANCH_AFTER_CREATE),
    *asleep_at("reclaimer", f"purge {NARROW}", Fault.RECLAIM_BEFORE, Fault.RECLAIM_AFTER, usual=(Fault.RECLAIM_BEFORE,)),
]
CHOSEN = [case for case in CASES if case.usual or os.environ.get(ALL) == "1"]


class Acknowledged(NamedTuple):
    branch: str
    key: str
    commit: CommitId


def put(graph: Graph, branch: str, key: str) -> Acknowledged:
    receipt = graph.mutate(BOTH.format(key), branch=branch)
    assert receipt.commit is not None
    return Acknowledged(branch, key, receipt.commit.id)


def others_go_on(graph: Graph, inherited: Acknowledged) -> list[Acknowledged]:
    """Writers, makers and removers of branches, a recovery: each takes over whatever the sleeper held."""
    acknowledged = [put(graph, branch, "meanwhile") for branch in ("main", "work", "fresh")]
    graph.refresh()
    graph.branches.delete("spare")
    graph.branches.create("spare", from_="work")
    acknowledged.append(put(graph, "spare", "on a name used again"))
    try:
        graph.branches.create("heir", from_="doomed")
    except NotFound:  # its deleter sleeps after the visible step
        graph.branches.create("doomed", from_="work")
        acknowledged.append(put(graph, "doomed", "made again"))
    else:
        acknowledged += [put(graph, "heir", "on heir"), inherited._replace(branch="heir")]
    return acknowledged


def keys(graph: Graph, branch: str) -> list[tuple[str, str]]:
    lines = map(json.loads, graph.export(branch))
    return sorted((line["type"], line["data"]["k"]) for line in lines)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_a_sleeper_damages_nothing(s3_server: S3Server, s3_uri: str, case: Case) -> None:
    options = s3_server.storage_options
    locks = Locks.of(open_objects(s3_uri, storage_options=options), ttl_seconds=TTL_SECONDS)
    graph = og.init(s3_uri, schema=SCHEMA, storage_options=options)
    acknowledged = [put(graph, "main", "first")]
    for branch in ("work", "doomed", "spare", "fresh"):
        graph.branches.create(branch)
    acknowledged.append(put(graph, "work", "on work"))
    inherited = put(graph, "doomed", "on doomed")
    if case.after is not None:
        crash(f"mutate {BOTH.format('dead')}", s3_uri, case.after, options=options)
    with asleep(case.doing, s3_uri, case.fault, nth=case.nth, options=options) as sleeper:
        acknowledged += others_go_on(graph, inherited)
        told = sleeper.wake()
    assert told in {"done", *(kind.value for kind in Kind)}

    again = og.open(s3_uri, storage_options=options)
    live = again.branches.list()
    for branch, key, commit in acknowledged:
        assert {("A", key), ("B", key)} <= set(keys(again, branch)), (branch, key)
        assert commit in {found.id for found in again.commits(branch)}, (branch, key)
    if told == "done" and "sleeper" in case.doing:
        assert ("A", "sleeper") in keys(again, "fresh" if case.doing.startswith("on") else "main")
    for branch in live:
        put(again, branch, "next")
        found = keys(again, branch)
        assert len(found) == len(set(found))
        assert ("A", "next") in found
    assert [finding for finding in again.verify() if finding.severity is Severity.ERROR] == []
    for branch in live:
        chain = again.commits(branch)
        assert [commit.parents for commit in chain] == [*((parent.id,) for parent in chain[1:]), ()]
    del locks
