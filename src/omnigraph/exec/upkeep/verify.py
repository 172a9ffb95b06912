"""A graph -> findings about its history, versions, files, columns, ids, endpoints, native branches and intents. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID, PROPERTY_MARK, SOURCE, TARGET, table_schema
from omnigraph.catalog.model import EdgeType, EntityType
from omnigraph.errors import Kind, NotFound, OmniGraphError
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.table_statistics import live_tables
from omnigraph.exec.upkeep.file_damage import DAMAGED_INDEX, RESTORE, Damage, GraphFiles, recorded_checksums
from omnigraph.exec.upkeep.kept_versions import KeptVersions, Shown, is_current, survey, survey_files
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.lineage import flaws
from omnigraph.manifest.model import COMMIT, TableRow, check_rows, read_commits
from omnigraph.manifest.read import PATH, BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch, all_branches, list_branches, object_of, read_branch
from omnigraph.manifest.tagging import tagged_states
from omnigraph.manifest.tags import list_tags, read_tag, tag_object
from omnigraph.store.arrays import joined
from omnigraph.store.bases import home
from omnigraph.store.durable import version_file
from omnigraph.store.fingerprints import fingerprints
from omnigraph.store.membership import KeySet, others, repeated
from omnigraph.store.refs import has_ref, is_referenced, native_refs, parent_ref, ref_file
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, Tables, require_version

_CONTENT: Final = "`omnigraph verify --deep` finds a changed file, if one is the cause; else correct the rows, or restore a backup"
_LEFT: Final = "none is needed: a writer is at work or left it, and `omnigraph cleanup` removes what is left"


class Severity(StrEnum):
    """An error is damage. A warning is harmless: an unused file, or an index that only earlier commits show."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True):
    """One problem of a graph.

    `path` is the damaged file, if it is one. `branches` show it now; `commits` show it, the newest among them or not; `tables` have it.
    """

    severity: Severity
    code: str
    message: str
    where: str
    remedy: str = ""
    path: str = ""
    tables: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


class VerifyProgress(msgspec.Struct, frozen=True):
    """One version of one table is about to be checked: number `at` of `of`."""

    where: str
    at: int
    of: int


OnVerifyProgress = Callable[[VerifyProgress], None]


class _Check(msgspec.Struct, frozen=True):
    """The context of one verification."""

    engine: Engine
    files: GraphFiles
    kept: KeptVersions
    unreadable: set[TableRef]


def verify(engine: Engine, *, deep: bool = False, on_progress: OnVerifyProgress | None = None) -> list[Finding]:
    """Check every branch, every commit that is kept and every table. The list is empty if the graph is sound. `deep` reads every byte."""
    while True:
        try:
            findings, kept = _verify(engine, deep=deep, on_progress=on_progress)
        except NotFound as error:
            if error.kind is Kind.BRANCH_NOT_FOUND:
                continue  # a branch was deleted meanwhile
            raise
        if not findings or is_current(engine.manifest, kept):
            return findings  # else a cleanup removed versions meanwhile, which are no damage


def _verify(engine: Engine, *, deep: bool, on_progress: OnVerifyProgress | None) -> tuple[list[Finding], KeptVersions]:
    manifest = engine.manifest
    findings = list(_intents(manifest))
    branches, wrongs = _live_branches(manifest)
    findings += wrongs
    readable = [branch for branch in branches if _is_readable(manifest, branch)]
    commits, _ = manifest.histories(branch.name for branch in readable)
    check = _Check(engine, GraphFiles(manifest.root, deep=deep, checksums=recorded_checksums(commits.values())), KeptVersions(), set())
    for branch in branches:
        if branch in readable:
            survey(manifest, branch, commits, check.files, check.kept)
        else:
            survey_files(manifest, branch, check.files, check.kept)
    findings += _manifest_damages(check.kept)
    findings += _version_damages(check, on_progress)
    findings += _file_damages(check)
    for branch in branches:
        findings += _branch(check, branch)
    findings += _references(manifest, check.kept, readable)
    findings = [finding for finding in findings if not _is_deleted(manifest, finding, branches)]
    findings += _tags(manifest)
    findings += _unused(manifest)
    return findings, check.kept


def _live_branches(manifest: Manifest) -> tuple[list[Branch], list[Finding]]:
    branches, findings = [Branch.main()], []
    for name in list_branches(manifest.root.objects):
        try:
            if (branch := read_branch(manifest.root.objects, name)) is not None:
                branches.append(branch)
        except OmniGraphError as error:
            findings.append(Finding(Severity.ERROR, error.kind.value, error.message, name, RESTORE, object_of(name), branches=(name,)))
    return branches, findings


def _is_readable(manifest: Manifest, branch: Branch) -> bool:
    try:
        manifest.histories([branch.name])
    except OmniGraphError:
        return False  # `_branch` reports it
    return True


def _is_deleted(manifest: Manifest, finding: Finding, branches: list[Branch]) -> bool:
    """Whether the finding is about one branch, which was deleted meanwhile with its files."""
    (branch,) = [branch for branch in branches if finding.where.partition(":")[0] == branch.name] or [Branch.main()]
    return branch.name != MAIN and read_branch(manifest.root.objects, branch.name) != branch


# -- files


def _manifest_damages(kept: KeptVersions) -> Iterator[Finding]:
    """Damage of `__manifest`, one finding a file."""
    hidden: dict[Damage, tuple[set[str], set[str]]] = {}
    for damage, branch, commits in kept.damages:
        names, ids = hidden.setdefault(damage, (set(), set()))
        names.add(branch)
        ids.update(commits)
    for damage, (names, ids) in hidden.items():
        where = sorted(names, key=lambda name: (name != MAIN, name))[0]
        yield _finding(damage, where, branches=names, commits=ids)


def _version_damages(check: _Check, on_progress: OnVerifyProgress | None) -> Iterator[Finding]:
    """Open every kept version of every table, and check its files. A version that cannot be opened is a finding."""
    refs = sorted(check.kept.tables, key=lambda ref: (not check.kept.tables[ref].tips, ref.path, ref.branch or "", -ref.version))
    for at, ref in enumerate(refs, start=1):
        shown = check.kept.tables[ref]
        if on_progress is not None:
            on_progress(VerifyProgress(_where(shown), at, len(refs)))
        path = f"{ref.home}/{version_file(ref.version)}"
        try:
            require_version(check.engine.root, ref)  # a handle in memory would still read
            check.files.check_version(path, check.kept.noted.get(path))
            check.files.check(check.engine.tables.open(ref))
            continue
        except NotFound as error:
            if not shown.tips and check.kept.is_given_up(ref):
                continue
            damage = Damage("missing_file", f"{path} is missing" if error.kind is Kind.VERSION_RECLAIMED else error.message, RESTORE, path)
        except OmniGraphError as error:
            damage = Damage("unreadable_version", f"{path} cannot be read: {error.message}", RESTORE, path)
        check.unreadable.add(ref)
        yield _finding(damage, _where(shown), tables=[shown.alias], branches=shown.tips, commits=shown.commits)


def _file_damages(check: _Check) -> Iterator[Finding]:
    """The damaged files of tables, each with everything that shows it."""
    if not any(damage for path, damage in check.files.damages.items() if not path.startswith(f"{PATH}/")):
        return
    showing: dict[str, list[Shown]] = {}
    whole: dict[str, str] = {}  # table -> the newest commit that shows it undamaged
    for ref, shown in check.kept.tables.items():
        if ref in check.unreadable or check.kept.is_given_up(ref):
            continue
        harmed = check.files.harmed(check.engine.tables.open(ref))
        for damage in harmed:
            showing.setdefault(damage.path, []).append(shown)
        if all(damage.code == DAMAGED_INDEX for damage in harmed):
            whole[shown.alias] = max(whole.get(shown.alias, ""), *shown.commits)
    for path, found in showing.items():
        damage, tips = check.files.damages[path], {name for shown in found for name in shown.tips}
        if damage.code == DAMAGED_INDEX and not tips:
            damage = damage._replace(remedy="none is needed: reads of these commits scan instead")
        elif damage.code != DAMAGED_INDEX and (newest := whole.get(found[0].alias)) is not None:
            damage = damage._replace(remedy=f"{damage.remedy}. Commit {newest} shows {found[0].alias} undamaged")
        first = min(found, key=lambda shown: (not shown.tips, MAIN not in shown.branches))
        yield _finding(
            damage,
            _where(first),
            tables={shown.alias for shown in found},
            branches=tips,
            commits={commit for shown in found for commit in shown.commits},
            severity=Severity.WARNING if damage.code == DAMAGED_INDEX and not tips else Severity.ERROR,
        )


def _where(shown: Shown) -> str:
    name = min(shown.tips or shown.branches, key=lambda name: (name != MAIN, name))
    return f"{name}:{shown.alias}"


def _finding(
    damage: Damage,
    where: str,
    *,
    tables: Iterable[str] = (),
    branches: Iterable[str] = (),
    commits: Iterable[str] = (),
    severity: Severity = Severity.ERROR,
) -> Finding:
    told = (tuple(sorted(names)) for names in (tables, branches, commits))
    return Finding(severity, damage.code, damage.message, where, damage.remedy, damage.path, *told)


def _references(manifest: Manifest, kept: KeptVersions, branches: list[Branch]) -> Iterator[Finding]:
    """Native branches in use whose reference is missing or unreadable. Reads do not need it; what removes old versions does."""
    used = {(ref.path, ref.branch): _where(shown) for ref, shown in kept.tables.items() if ref.branch is not None}
    used |= {(PATH, branch.native): branch.name for branch in branches if branch.native is not None}
    for (path, native), where in sorted(used.items()):
        if not is_referenced(manifest.root, path, str(native)):
            file = f"{path}/{ref_file(str(native))}"
            wrong = f"{file} is missing or cannot be decoded; a cleanup could remove files that the branch inherits"
            remedy = "restore it from a backup, or continue with `omnigraph copy`, which makes a sound graph"
            yield Finding(Severity.ERROR, "missing_reference", wrong, where, remedy, file, branches=(where.partition(":")[0],))


# -- intents, branches, history


def _intents(manifest: Manifest) -> Iterator[Finding]:
    try:
        for intent in intents.pending(manifest.root.objects):
            where = intents.path_of(intent.operation)
            yield Finding(
                Severity.WARNING,
                "pending_intent",
                f"a write to {intent.branch.name!r} is not resolved",
                where,
                "the next write to the branch resolves it",
                where,
                branches=(intent.branch.name,),
            )
    except OmniGraphError as error:
        path = str(error.facts.get("path", "")).removeprefix(f"{manifest.root.uri}/")
        remedy = "restore the file; without a copy remove it, and `omnigraph repair` shows what its write had done"
        yield Finding(Severity.ERROR, error.kind.value, error.message, intents.DIRECTORY, remedy, path)


def _branch(check: _Check, branch: Branch) -> Iterator[Finding]:
    """What the tables of a branch hold now."""
    name = branch.name
    try:
        snapshot = check.engine.manifest.snapshot(name)
        catalog = check.engine.catalog(snapshot)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, name, RESTORE, branches=(name,))
        return
    yield from _guarded(name, _history(check, name))
    ids: dict[str, KeySet] = {}
    for type_id, row in live_tables(snapshot.state).items():
        if row.ref not in check.unreadable:
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
    check_rows(ledger.facts(""))


def _tags(manifest: Manifest) -> Iterator[Finding]:
    """Tags whose commit, or a table version that it shows, no longer exists."""
    for name in list_tags(manifest.root.objects):
        try:
            if (tag := read_tag(manifest.root.objects, name)) is not None:
                manifest.past(tag.branch, tag.commit_id)
        except OmniGraphError as error:
            if name in list_tags(manifest.root.objects):  # else it was deleted meanwhile
                yield Finding(Severity.ERROR, error.kind.value, error.message, f"tag {name}", RESTORE, tag_object(name))


def _unused(manifest: Manifest) -> Iterator[Finding]:
    """Table directories and native branches that no live branch shows and no intent references. Dead writers left them.

    They are listed before the intents are read, and those before the branches: a writer arms its intent before it makes them, and
    publishes before it removes its intent. So what a writer makes meanwhile is not listed, or found in use.
    """
    root, objects = manifest.root, manifest.root.objects
    listed = [entry.rstrip("/") for directory in ("nodes", "edges") for entry in objects.list(directory)]
    natives = {path: native_refs(root, path) for path in listed}
    try:
        pending = intents.pending(objects)
        intended = {table.base.home for intent in pending for table in intent.tables}
        names = (MAIN, *all_branches(objects))
        states = [*(manifest.snapshot(name).state for name in names), *tagged_states(manifest)]
        shown = [row for state in states for row in state.tables.values()]
    except OmniGraphError:
        return  # the unreadable branch is a finding already, and it may use any of these
    used = {row.path for row in shown} | {birth.row.path for intent in pending for birth in intent.births}
    homes = {needed for row in shown for needed in row.homes} | intended
    for path, refs in natives.items():
        if path not in used:
            if objects.list(path):  # else it was removed meanwhile
                yield Finding(Severity.WARNING, "unused_table", "no branch shows this table", path, _LEFT, path)
            continue
        unused = {ref for ref in refs if home(path, ref) not in homes}
        if unused:  # a merge can leave a branch with a fork of the fork of a branch that was deleted since
            unused -= _ancestors(root, path, [ref for ref in refs if ref not in unused])
        for ref in sorted(ref for ref in unused if has_ref(root, path, ref)):  # else its branch was deleted meanwhile
            yield Finding(Severity.WARNING, "unused_ref", f"no branch shows native branch {ref}", path, _LEFT, home(path, ref))


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
    branch, _, table = where.partition(":")
    tables = (table,) if table else ()
    try:
        for wrong in wrongs:
            yield Finding(Severity.ERROR, wrong.code, wrong.message, where, wrong.remedy or _CONTENT, tables=tables, branches=(branch,))
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, where, RESTORE, tables=tables, branches=(branch,))


def _table(check: _Check, snapshot: BranchSnapshot, row: TableRow, entity: EntityType | None, ids: dict[str, KeySet]) -> Iterator[Damage]:
    table = check.engine.tables.open(row.ref)
    if (head := table.head()) != row.version and _uncovered(check.engine.manifest, snapshot, row, head):
        yield Damage(Kind.DRIFT.value, f"HEAD is version {head}, but the graph shows version {row.version}", "`omnigraph repair` shows why")
    yield from column_mismatches(table, entity)
    if any(damage.code != DAMAGED_INDEX for damage in check.files.harmed(table)):
        return  # rows of damaged files cannot be read
    ids[row.alias] = KeySet()
    numbers = [np.empty(0, np.uint64)]
    for batch in table.scan([ID]):
        numbers.append(fingerprints(batch.column(ID)))
        if not isinstance(entity, EdgeType):
            ids[row.alias].add(batch.column(ID))
    found = np.sort(np.concatenate(numbers))
    if len(found) != row.rows:
        yield Damage("row_count", f"the table has {counted(len(found), 'row')}, but the graph records {row.rows:,}")
    # Different ids may have the same fingerprint. If fingerprints repeat, compare the ids themselves.
    if (found[1:] == found[:-1]).any() and len(again := repeated(joined((batch.column(ID) for batch in table.scan([ID])), pa.string()))):
        yield Damage("duplicate_id", f"the id of {counted(len(again), 'row')} is that of another row")


def column_mismatches(table: Table, entity: EntityType | None) -> Iterator[Damage]:
    """Check that each column holds the property of the schema, by property id: another property may have the same name."""
    if entity is None:
        return
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
        yield Damage("identity_mismatch", f"column {name!r} {wrong}", remedy)


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
            yield Damage("dangling_edge", f"the {column} of {counted(len(lost), 'edge')} is not a {node}, for example {lost[0].as_py()!r}")
