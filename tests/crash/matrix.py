"""Every writer x every boundary x every way to fail: the cases of the crash matrix, in one place."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import pyarrow as pa

from omnigraph.exec.write.protocol import Alter, BuildIndexes, Change, GiveUp, Prepared, Tidy, Upsert
from omnigraph.faults import Fault
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.birth import NewTable, new_table_id
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.model import SchemaText, TableRow
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.store.compact import first_free_id, preview, rewrite
from omnigraph.store.fragments import fragments
from omnigraph.store.index import IndexSpec, LanceIndexKind, existing, write_index
from omnigraph.store.tables import Tables, open_newest
from tests.graphs import COLUMNS, COMPANY, PERSON, make, people, reopen
from tests.writes import append, both, delete, overwrite, put, work

WORK = BranchName("work")
ALIASES = (PERSON, COMPANY)

Content = dict[str, set[str]]


class Writer(NamedTuple):
    """One row of the matrix: what it writes, how many tables that commits, and on how many of them it is the first touch."""

    name: str
    branch: BranchName
    changes: Callable[[], Mapping[str, Change]] | Callable[[BranchSnapshot], Prepared] | Callable[[Tables, BranchSnapshot], Prepared]
    tables: int
    first_touches: int = 0
    births: int = 0
    is_migration: bool = False
    commits: int = 1
    """How many commits it makes on each table."""

    @property
    def has_effects(self) -> bool:
        """Does it do anything that somebody might have to undo?"""
        return self.tables + self.births > 0


NEW_COLUMNS = pa.schema([COLUMNS.field("id"), pa.field("added", pa.string())])
"""`n` is dropped, `added` is new."""
NEW_SCHEMA = SchemaText("node Person { added: String? }", '{"nodes": ["Person", "Firm", "Born"]}')


def row_named(snapshot: BranchSnapshot, alias: str) -> TableRow:
    row = snapshot.state.table(alias)
    assert row is not None
    return row


def everything(snapshot: BranchSnapshot) -> Prepared:
    """Two tables with other columns, one of them under another name, and a new one."""
    person, company = row_named(snapshot, PERSON), row_named(snapshot, COMPANY)
    return Prepared(
        {person.id: Alter(NEW_COLUMNS), company.id: Alter(NEW_COLUMNS)},
        schema=NEW_SCHEMA,
        creates=(NewTable(new_table_id("00000000000000ff"), "node:Born", "nodes", COLUMNS),),
        renames={company.id: "node:Firm"},
    )


def words_only(snapshot: BranchSnapshot) -> Prepared:
    """A type renamed, and another schema: no table is touched."""
    return Prepared({}, schema=NEW_SCHEMA, renames={row_named(snapshot, COMPANY).id: "node:Firm"})


def hard_drops(snapshot: BranchSnapshot) -> Prepared:
    """A column and a type, with their past."""
    person, company = row_named(snapshot, PERSON), row_named(snapshot, COMPANY)
    changes = {person.id: GiveUp(NEW_COLUMNS), company.id: GiveUp(None)}
    return Prepared(changes, schema=NEW_SCHEMA, drops=frozenset({company.id}))


def indexing() -> dict[str, Change]:
    """What `ensure_indices` asks of each of two tables."""
    return {
        alias: BuildIndexes((IndexSpec("id", LanceIndexKind.BTREE, "btree_id"), IndexSpec("n", LanceIndexKind.BTREE, "btree_n")))
        for alias in ALIASES
    }


def tidying(tables: Tables, snapshot: BranchSnapshot) -> Prepared:
    """What `optimize` asks of each of two tables: its rows in other files, and an index that covers them."""

    def tidy(row: TableRow) -> Tidy:
        table = tables.open(row.ref)
        rewrites = (rewrite(table, fragments(table), first_id=first_free_id(table)),)
        with preview(table, rewrites) as after:
            segment = write_index(after, IndexSpec("id", LanceIndexKind.BTREE, "btree_id"))
        assert segment is not None
        return Tidy(rewrites, (segment,))

    return Prepared({row.id: tidy(row) for row in live(snapshot)})


WRITERS = (
    Writer("upsert, main", MAIN, lambda: {PERSON: Upsert(people("new", "old"))}, 1),
    Writer("append, main", MAIN, lambda: {PERSON: append("new")}, 1),
    Writer("delete, main", MAIN, lambda: {PERSON: delete("old")}, 1),
    Writer("overwrite, main", MAIN, lambda: {PERSON: overwrite("new")}, 1),
    Writer("two tables, main", MAIN, lambda: both("new", "old"), 2),
    Writer("two tables, branch", WORK, lambda: both("new", "old"), 2),
    Writer("two tables, first touch", WORK, lambda: both("new", "old"), 2, 2),
    Writer("delete, first touch", WORK, lambda: {PERSON: delete("old")}, 1, 1),
    Writer("schema, main", MAIN, everything, 2, births=1, is_migration=True),
    Writer("schema, branch", WORK, everything, 2, births=1, is_migration=True),
    Writer("schema, first touch", WORK, everything, 2, 2, births=1, is_migration=True),
    Writer("schema, words only", MAIN, words_only, 0, is_migration=True),
    Writer("schema, hard drops", MAIN, hard_drops, 2, is_migration=True),
    Writer("indexes of two tables, main", MAIN, indexing, 2),
    Writer("indexes of two tables, first touch", WORK, indexing, 2, 2),
    Writer("optimize of two tables, main", MAIN, tidying, 2, commits=2),
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
    found.append(Point(Fault.OBJECT_AFTER_LINK, 1, lands=False, resolved=writer.has_effects))
    found.append(Point(Fault.WRITE_ARMED, 1, lands=False, resolved=writer.has_effects))
    for n in range(1, writer.births + 1):
        found += [Point(fault, n, lands=False, resolved=True) for fault in (Fault.WRITE_BEFORE_CREATE, Fault.WRITE_AFTER_CREATE)]
    for n in range(1, writer.tables + 1):
        if n > 1:
            found.append(Point(Fault.WRITE_BETWEEN_TABLES, n - 1, lands=False, resolved=True))
        if writer.first_touches:
            found += [Point(fault, n, lands=False, resolved=True) for fault in (Fault.WRITE_BEFORE_REF, Fault.WRITE_AFTER_REF)]
        if n == writer.tables:  # the rows of the publication are written beside the last commit
            found.append(Point(Fault.PUBLISH_BEFORE_WRITE, 1, lands=False, resolved=True))
        for commit in range(1, writer.commits + 1):
            nth = (n - 1) * writer.commits + commit
            if commit > 1:
                found.append(Point(Fault.WRITE_BETWEEN_COMMITS, n, lands=False, resolved=True))
            found.append(Point(Fault.STAGE_BEFORE_COMMIT, nth, lands=False, resolved=True))
            found.append(Point(Fault.STAGE_AFTER_COMMIT, nth, lands=nth == writer.tables * writer.commits, resolved=True))
    written_late = () if writer.tables else (Fault.PUBLISH_BEFORE_WRITE,)
    found += [
        Point(fault, 1, lands=writer.has_effects, resolved=writer.has_effects)
        for fault in (Fault.WRITE_COMMITTED, *written_late, Fault.PUBLISH_BEFORE_COMMIT)
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
    if writer.commits > 1:
        work(manifest, functools.partial(tidying, Tables(manifest.root)), branch=writer.branch)
    elif writer.is_migration:
        work(manifest, cast(Callable[[BranchSnapshot], Prepared], writer.changes), branch=writer.branch)
    else:
        put(manifest, dict(cast(Callable[[], Mapping[str, Change]], writer.changes)()), branch=writer.branch)


def content(manifest: Manifest, branch: BranchName) -> Content:
    """The ids in each table, its columns and indexes, and the schema."""
    snapshot = manifest.snapshot(branch)
    shown: Content = {"schema": {manifest.schema(snapshot.state.head.schema, branch=branch).source}}
    for row in live(snapshot):
        table = Tables(manifest.root).open(row.ref)
        rows = table.scan().read_all()
        shown[row.alias] = set(rows.column("id").to_pylist())
        shown[f"indexes of {row.alias}"] = {index.name for index in existing(table)}
        shown[f"columns of {row.alias}"] = set(rows.schema.names)
        assert len(rows) == row.rows
    return shown


def live(snapshot: BranchSnapshot) -> list[TableRow]:
    return [row for row in snapshot.state.tables.values() if not row.dropped]


def next_write(manifest: Manifest, writer: Writer) -> None:
    """One more person, in whatever columns people have by then."""

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        person = row_named(snapshot, PERSON)
        columns = Tables(manifest.root).open(person.ref).schema
        nobody = pa.table({field.name: pa.nulls(1, field.type) for field in columns})
        return Prepared({person.id: Upsert(nobody.set_column(0, "id", pa.array(["after"])))})

    work(manifest, prepare, branch=writer.branch)


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
    """HEAD equals the visible version of every table on every branch here, no intent is left, and no table that nobody shows."""
    shown: set[str] = set()
    for branch in {MAIN, writer.branch}:
        for row in manifest.snapshot(branch).state.tables.values():
            shown.add(row.path)
            assert open_newest(manifest.root, row.path, branch=row.native).version == row.version, (branch, row.alias)
    assert intents.pending(manifest.root.objects) == []
    objects = manifest.root.objects
    # An S3 server may go on listing a folder whose objects are gone.
    assert {path.rstrip("/") for path in objects.list("nodes") if objects.exists(f"{path.rstrip('/')}/_versions")} == shown
