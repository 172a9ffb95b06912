"""A graph -> findings about its history, versions, files, columns, ids, endpoints, native branches and intents. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import count

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID, PROPERTY_MARK, SOURCE, TARGET, table_schema
from omnigraph.catalog.model import EdgeType, EntityType
from omnigraph.errors import Kind, OmniGraphError
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.table_statistics import live_tables
from omnigraph.exec.upkeep.file_damage import Damage, GraphFiles
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.lineage import flaws
from omnigraph.manifest.model import COMMIT, TableRow, read_commits
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch, all_branches, list_branches, read_branch
from omnigraph.manifest.tagging import tagged_states
from omnigraph.manifest.tags import list_tags, read_tag
from omnigraph.store.arrays import joined
from omnigraph.store.bases import home
from omnigraph.store.fingerprints import fingerprints
from omnigraph.store.membership import KeySet, others, repeated
from omnigraph.store.refs import native_refs, parent_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, Tables


class Severity(StrEnum):
    """An error is damage. A warning is something harmless that is left over, such as an unused file."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True):
    """One problem of a graph."""

    severity: Severity
    code: str
    message: str
    where: str


class VerifyProgress(msgspec.Struct, frozen=True):
    """One table of one branch is about to be checked: number `at` of `of`."""

    where: str
    at: int
    of: int


OnVerifyProgress = Callable[[VerifyProgress], None]


class _Check(msgspec.Struct, frozen=True):
    """The context of one verification."""

    engine: Engine
    files: GraphFiles
    begin: Callable[[str], None]


def verify(engine: Engine, *, deep: bool = False, on_progress: OnVerifyProgress | None = None) -> list[Finding]:
    """Check every branch and every table. The list is empty if the graph is sound. `deep` reads every byte that a branch shows."""
    manifest = engine.manifest
    findings = list(_intents(manifest))
    branches = [Branch.main()]
    for name in list_branches(manifest.root.objects):
        try:
            if (branch := read_branch(manifest.root.objects, name)) is not None:
                branches.append(branch)
        except OmniGraphError as error:
            findings.append(Finding(Severity.ERROR, error.kind.value, error.message, name))
    check = _Check(engine, GraphFiles(manifest.root, deep=deep), _counting(manifest, branches, on_progress))
    for branch in branches:
        found = list(_branch(check, branch))
        if found and branch.name != MAIN and read_branch(manifest.root.objects, branch.name) != branch:
            continue  # the branch and its files were deleted meanwhile
        findings += found
    findings += _tags(manifest)
    findings += _unused(manifest)
    return findings


def _counting(manifest: Manifest, branches: list[Branch], on_progress: OnVerifyProgress | None) -> Callable[[str], None]:
    """A function that reports progress, to be called before each table."""
    if on_progress is None:
        return lambda _: None
    of = 0
    for branch in branches:
        with suppress(OmniGraphError):  # an unreadable branch is reported when it is checked
            of += len(live_tables(manifest.snapshot(branch.name).state))
    at = count(1)
    return lambda where: on_progress(VerifyProgress(where, next(at), of))


def _intents(manifest: Manifest) -> Iterator[Finding]:
    try:
        for intent in intents.pending(manifest.root.objects):
            where = intents.path_of(intent.operation)
            yield Finding(
                Severity.WARNING,
                "pending_intent",
                f"a write to {intent.branch.name!r} is not resolved; the next write to the branch resolves it",
                where,
            )
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, intents.DIRECTORY)


def _branch(check: _Check, branch: Branch) -> Iterator[Finding]:
    name = branch.name
    try:
        snapshot = check.engine.manifest.snapshot(name)
        catalog = check.engine.catalog(snapshot)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, name)
        return
    yield from _guarded(name, _history(check, name))
    ids: dict[str, KeySet] = {}
    for type_id, row in live_tables(snapshot.state).items():
        check.begin(f"{name}:{row.alias}")
        yield from _guarded(f"{name}:{row.alias}", _table(check, snapshot, row, catalog.by_id(type_id), ids))
    for edge in catalog.edges:
        yield from _guarded(f"{name}:{edge.alias}", _edges(check.engine.tables, snapshot, edge, ids))


def _history(check: _Check, name: BranchName) -> Iterator[Damage]:
    """Check that the commits of a branch lead from its head to the first commit of the graph, and that their ledger is readable."""
    _, ledger, state = check.engine.manifest.look(name)
    commits = read_commits(ledger.facts(COMMIT))
    for id_, times in Counter(commit.id for commit in commits).items():
        if times > 1:
            yield Damage("broken_history", f"there are {times} commits {id_}")
    for flaw in flaws({commit.id: commit for commit in commits}, state.head.commit):
        yield Damage("broken_history", flaw)
    yield from check.files.damages(ledger.as_table())


def _tags(manifest: Manifest) -> Iterator[Finding]:
    """Tags whose commit, or a table version that it shows, no longer exists."""
    for name in list_tags(manifest.root.objects):
        try:
            if (tag := read_tag(manifest.root.objects, name)) is not None:
                manifest.past(tag.branch, tag.commit_id)
        except OmniGraphError as error:
            if name in list_tags(manifest.root.objects):  # else it was deleted meanwhile
                yield Finding(Severity.ERROR, error.kind.value, error.message, f"tag {name}")


def _unused(manifest: Manifest) -> Iterator[Finding]:
    """Table directories and native branches that no live branch shows and no intent references. Dead writers left them."""
    objects = manifest.root.objects
    names = (MAIN, *all_branches(objects))
    try:
        # Read the intents first: a writer publishes before it removes its intent.
        pending = intents.pending(objects)
        intended = {table.base.home for intent in pending for table in intent.tables}
        states = [*(manifest.snapshot(name).state for name in names), *tagged_states(manifest)]
        shown = [row for state in states for row in state.tables.values()]
    except OmniGraphError:
        return  # the unreadable branch is a finding already, and it may use any of these
    used = {row.path for row in shown} | {birth.row.path for intent in pending for birth in intent.births}
    homes = {needed for row in shown for needed in row.homes} | intended
    for directory in ("nodes", "edges"):
        for path in (entry.rstrip("/") for entry in objects.list(directory)):
            if path not in used:
                yield Finding(Severity.WARNING, "unused_table", "no branch shows this table", path)
                continue
            refs = native_refs(manifest.root, path)
            unused = {ref for ref in refs if home(path, ref) not in homes}
            if unused:  # a merge can leave a branch with a fork of the fork of a branch that was deleted since
                unused -= _ancestors(manifest.root, path, [ref for ref in refs if ref not in unused])
            for ref in sorted(unused):
                yield Finding(Severity.WARNING, "unused_ref", f"no branch shows native branch {ref}", path)


def _ancestors(root: Root, path: str, refs: Iterable[str]) -> set[str]:
    """The native branches that others were made from, and so on."""
    found: set[str] = set()
    for ref in refs:
        parent = parent_ref(root, path, ref)
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parent_ref(root, path, parent)
    return found


def _guarded(where: str, wrongs: Iterator[Damage]) -> Iterator[Finding]:
    """The findings about one table. If it cannot be read, that is a finding too."""
    try:
        for wrong in wrongs:
            yield Finding(Severity.ERROR, wrong.code, wrong.message, where)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, where)


def _table(check: _Check, snapshot: BranchSnapshot, row: TableRow, entity: EntityType | None, ids: dict[str, KeySet]) -> Iterator[Damage]:
    table = check.engine.tables.open(row.ref)
    if (head := table.head()) != row.version and _uncovered(check.engine.manifest, snapshot, row, head):
        yield Damage(Kind.DRIFT.value, f"HEAD is version {head}, but the graph shows version {row.version}")
    if entity is not None:
        yield from _identities(table, entity)
    whole = True
    for wrong in check.files.damages(table):
        yield wrong
        whole = False
    if not whole:
        return  # rows of damaged files cannot be read
    yield from check.files.damaged_index_files(table)
    ids[row.alias] = KeySet()
    numbers = [np.empty(0, np.uint64)]
    for batch in table.scan([ID]):
        numbers.append(fingerprints(batch.column(ID)))
        if not isinstance(entity, EdgeType):
            ids[row.alias].add(batch.column(ID))
    found = np.sort(np.concatenate(numbers))
    if len(found) != row.rows:
        yield Damage("row_count", f"the table has {len(found)} rows, but the graph records {row.rows}")
    # Different ids may have the same fingerprint. If fingerprints repeat, compare the ids themselves.
    if (found[1:] == found[:-1]).any() and len(again := repeated(joined((batch.column(ID) for batch in table.scan([ID])), pa.string()))):
        yield Damage("duplicate_id", f"{len(again)} rows repeat an id")


def _identities(table: Table, entity: EntityType) -> Iterator[Damage]:
    """Check that each column holds the property of the schema, by property id: another property may have the same name."""
    wanted, here = ({field.name: field for field in schema} for schema in (table_schema(entity), table.schema))
    for name in sorted(wanted.keys() | here.keys()):
        if name not in here:
            wrong = "is missing"
        elif name not in wanted:
            wrong = "is not in the schema"
        elif (here[name].type, here[name].nullable) != (wanted[name].type, wanted[name].nullable):
            wrong = f"has type {_type_text(here[name])}, the schema says {_type_text(wanted[name])}"
        elif (marks := [(field.metadata or {}).get(PROPERTY_MARK, b"").decode() for field in (here[name], wanted[name])])[0] != marks[1]:
            wrong = f"holds property {marks[0] or 'without an identity'}, the schema says {marks[1] or 'none'}"
        else:
            continue
        remedy = "copy the graph before the next schema change: a copy rewrites every column"
        yield Damage("identity_mismatch", f"column {name!r} {wrong}; {remedy}")


def _type_text(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _uncovered(manifest: Manifest, snapshot: BranchSnapshot, row: TableRow, head: int) -> bool:
    """True if nothing explains a HEAD that the snapshot does not show: not the table's owner, nor a dead or an active writer."""
    if row.owner != snapshot.branch.native:
        return False  # inherited: the owner may commit to it
    if head < row.version:
        return True
    # Intents first, then the newest state: a writer removes its intent after its publish, so without an intent the state has it.
    if any(table.base.home == row.ref.home for intent in intents.pending(manifest.root.objects) for table in intent.tables):
        return False
    newest = manifest.snapshot(snapshot.branch.name).state.tables.get(row.id)
    return newest is None or newest.version < head


def _edges(tables: Tables, snapshot: BranchSnapshot, edge: EdgeType, ids: dict[str, KeySet]) -> Iterator[Damage]:
    row = snapshot.state.table(edge.alias)
    if row is None or edge.alias not in ids:
        return
    table = tables.open(row.ref)
    for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
        if (known := ids.get(f"node:{node}")) is None:
            continue
        lost = joined((batch.column(column) for batch in others(known, table.scan([column]), on=column)), pa.string())
        if len(lost):
            yield Damage("dangling_edge", f"{len(lost)} edges have a {column} that is not a {node}, for example {lost[0].as_py()!r}")
