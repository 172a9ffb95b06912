"""Every writer x every boundary x every way to fail: the cases of the crash matrix, in one place."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from omnigraph.exec.write import BuildIndexes, Change, Upsert
from omnigraph.faults import Fault
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.read import Manifest
from omnigraph.store.index import IndexKind, IndexSpec, existing
from omnigraph.store.tables import Tables, open_newest
from tests.graphs import COMPANY, PERSON, ids_in, make, people, reopen, row_of
from tests.writes import append, both, delete, overwrite, put, upsert

WORK = BranchName("work")
ALIASES = (PERSON, COMPANY)

Content = dict[str, set[str]]


class Writer(NamedTuple):
    """One row of the matrix: what it writes, how many tables that commits, and on how many of them it is the first touch."""

    name: str
    branch: BranchName
    changes: Callable[[], dict[str, Change]]
    tables: int
    first_touches: int = 0


def indexing() -> dict[str, Change]:
    """What `ensure_indices` asks of each of two tables."""
    return {
        alias: BuildIndexes((IndexSpec("id", IndexKind.BTREE, "btree_id"), IndexSpec("n", IndexKind.BTREE, "btree_n"))) for alias in ALIASES
    }


WRITERS = (
    Writer("upsert, main", MAIN, lambda: {PERSON: Upsert(people("new", "old"))}, 1),
    Writer("append, main", MAIN, lambda: {PERSON: append("new")}, 1),
    Writer("delete, main", MAIN, lambda: {PERSON: delete("old")}, 1),
    Writer("overwrite, main", MAIN, lambda: {PERSON: overwrite("new")}, 1),
    Writer("two tables, main", MAIN, lambda: both("new", "old"), 2),
    Writer("two tables, branch", WORK, lambda: both("new", "old"), 2),
    Writer("two tables, first touch", WORK, lambda: both("new", "old"), 2, 2),
    Writer("delete, first touch", WORK, lambda: {PERSON: delete("old")}, 1, 1),
    Writer("indexes of two tables, main", MAIN, indexing, 2),
    Writer("indexes of two tables, first touch", WORK, indexing, 2, 2),
)


class Point(NamedTuple):
    """One column: the `nth` arrival at a fault point, and whether the write has happened once it was reached."""

    fault: Fault
    nth: int
    lands: bool
    resolved: bool
    """Is there something left for somebody to resolve, so that exactly one audit record must appear?"""


def points(writer: Writer) -> list[Point]:
    """The boundaries a writer passes, in order."""
    found = [Point(Fault.WRITE_PREPARED, 1, lands=False, resolved=False), Point(Fault.WRITE_BEFORE_ARM, 1, lands=False, resolved=False)]
    found.append(Point(Fault.OBJECT_BEFORE_LINK, 1, lands=False, resolved=False))
    found.append(Point(Fault.OBJECT_AFTER_LINK, 1, lands=False, resolved=True))
    found.append(Point(Fault.WRITE_ARMED, 1, lands=False, resolved=True))
    for n in range(1, writer.tables + 1):
        if n > 1:
            found.append(Point(Fault.WRITE_BETWEEN_TABLES, n - 1, lands=False, resolved=True))
        if writer.first_touches:
            found += [Point(fault, n, lands=False, resolved=True) for fault in (Fault.WRITE_BEFORE_REF, Fault.WRITE_AFTER_REF)]
        found.append(Point(Fault.STAGE_BEFORE_COMMIT, n, lands=False, resolved=True))
        found.append(Point(Fault.STAGE_AFTER_COMMIT, n, lands=n == writer.tables, resolved=True))
    found += [
        Point(fault, 1, lands=True, resolved=True)
        for fault in (Fault.WRITE_COMMITTED, Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT)
    ]
    found += [
        Point(fault, 1, lands=True, resolved=False)
        for fault in (Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC, Fault.WRITE_PUBLISHED)
    ]
    return found


def prepare(manifest: Manifest, writer: Writer) -> None:
    """Bring a fresh graph to where the writer starts."""
    put(manifest, both("old"))
    if writer.branch != MAIN:
        create_branch(manifest, writer.branch)
        if not writer.first_touches:
            put(manifest, both("older"), branch=writer.branch)


def run(manifest: Manifest, writer: Writer) -> None:
    put(manifest, writer.changes(), branch=writer.branch)


def content(manifest: Manifest, branch: BranchName) -> Content:
    """What a table shows: the ids of its rows, and its indexes."""
    return {alias: ids_in(manifest, branch=branch, alias=alias) | indexes_in(manifest, branch, alias) for alias in ALIASES}


def indexes_in(manifest: Manifest, branch: BranchName, alias: str) -> set[str]:
    table = Tables(manifest.root).open(row_of(manifest, alias, branch=branch).ref)
    return {f"index {index.name}" for index in existing(table)}


def next_write(manifest: Manifest, writer: Writer) -> None:
    upsert(manifest, "after", branch=writer.branch)


# -- what must be true afterwards


class Images(NamedTuple):
    """What the graph shows on the writer's branch before and after the write, and on main beside it."""

    before: Content
    after: Content
    main: Content


@functools.cache
def images(writer: Writer) -> Images:
    """Found out by doing the write undisturbed, once."""
    with tempfile.TemporaryDirectory() as folder:
        twin = make(f"{folder}/twin", *ALIASES)
        prepare(twin, writer)
        before = content(twin, writer.branch)
        run(twin, writer)
        return Images(before, content(twin, writer.branch), content(twin, MAIN))


def check(manifest: Manifest, writer: Writer, *, lands: bool, resolved: bool) -> None:
    """The next write works; then the graph is before or after, here and when opened anew; main has seen nothing of a branch (RT-08)."""
    expected = images(writer)
    next_write(manifest, writer)
    shown = dict(expected.after if lands else expected.before)
    shown[PERSON] = shown[PERSON] | {"after"}
    anew = reopen(manifest.root.uri, storage_options=manifest.root.storage_options)
    for handle in (manifest, anew):
        assert content(handle, writer.branch) == shown
        assert writer.branch == MAIN or content(handle, MAIN) == expected.main
    assert audits(manifest, writer) == (1 if resolved else 0)
    whole(manifest, writer)


def audits(manifest: Manifest, writer: Writer) -> int:
    return sum(commit.audit is not None for commit in manifest.commits(writer.branch))


def whole(manifest: Manifest, writer: Writer) -> None:
    """HEAD equals the visible version of every table on every branch here, and no intent is left."""
    for branch in {MAIN, writer.branch}:
        for alias in ALIASES:
            row = row_of(manifest, alias, branch=branch)
            assert open_newest(manifest.root, row.path, branch=row.native).version == row.version, (branch, alias)
    assert intents.pending(manifest.root.objects) == []
