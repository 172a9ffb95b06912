"""Z-04, W-50: who may touch Lance, which calls may move a HEAD, and that no call both writes rows and makes them visible.

Read from the source. Every call of a Lance primitive that moves HEAD, opens, lists, restores or deletes stands in the registry
below with the reason why it may; anything else fails, and so does an entry that matches nothing (Z-06).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "omnigraph"
STORE: Final = "store."

# Names that belong to Lance alone: a call of any of them is one of its primitives, whoever the receiver.
LANCE_ONLY: Final = frozenset(
    {
        *("write_dataset", "restore", "create_branch", "merge_insert", "execute_uncommitted"),
        *("create_index", "create_scalar_index", "create_index_uncommitted", "merge_existing_index_segments"),
        *("commit_existing_index_segments", "drop_index", "prewarm_index", "optimize_indices", "compact_files", "commit_batch"),
        *("cleanup_old_versions", "checkout_version", "checkout_latest", "checkout_branch", "shallow_clone", "deep_clone"),
        *("add_columns", "drop_columns", "alter_columns", "replace_schema_metadata", "update_config", "delete_config_keys"),
        *("migrate_manifest_paths_v2", "enable_auto_cleanup", "read_transaction", "list_transactions", "get_transactions"),
        "serialized_manifest",
    }
)
# Names that others have, too: primitives only when the receiver is a dataset of Lance's.
OF_A_DATASET: Final = frozenset({"commit", "insert", "delete", "update", "merge", "execute", "truncate", "versions", "latest_version"})
# Parts of a dataset all of whose calls are primitives.
PARTS: Final = frozenset({"branches", "tags", "optimize"})
# Where datasets come from, and what we call them.
MAKERS: Final = frozenset(
    {"open_dataset", "open_newest", "_lance", "at_home", "LanceDataset", "dataset", "checkout_version", "create_branch", "write_dataset"}
)
NAMES: Final = frozenset({"dataset", "_dataset", "ds", "_ds", "LanceDataset", "Compaction"})
# Our own ways to a raw handle: outside the storage layer they are raw opens.
RAW_OPENS: Final = frozenset({"open_dataset", "open_newest"})

MOVES_HEAD: Final = frozenset({"LanceDataset.commit", "Compaction.commit", ".create_branch", ".restore", ".write_dataset"})
"""Primitives after which others may see something new."""


class Found(NamedTuple):
    """One call of a primitive."""

    module: str
    function: str
    call: str
    line: int


class Reviewed(NamedTuple):
    calls: frozenset[str]
    reason: str


def reviewed(*calls: str, reason: str) -> Reviewed:
    return Reviewed(frozenset(calls), reason)


REGISTRY: Final[Mapping[tuple[str, str], Reviewed]] = {
    ("store.tables", "create_table"): reviewed(
        "LanceDataset.commit", reason="the birth of an empty table, at a path that nobody knows yet: the one commit without a base"
    ),
    ("store.tables", "_lance"): reviewed("lance.dataset", reason="the one raw open; always at a named place"),
    ("store.tables", "at_home"): reviewed(
        "LanceDataset", ".serialized_manifest", reason="the same version, with inherited files at the present place; writes nothing"
    ),
    ("store.tables", "Table.head"): reviewed(".latest_version", reason="a probe: whether somebody committed around us"),
    ("store.tables", "committed_uuid"): reviewed(
        ".read_transaction", ".list_transactions", reason="whose version is it: the proof that recovery rests on"
    ),
    ("store.tables", "operation_of"): reviewed(".list_transactions", reason="what another program did to a table, for `repair`"),
    ("store.ledger", "Ledger.noted_versions"): reviewed(".read_transaction", reason="checksums in the properties of a swap, for `verify`"),
    ("store.tables", "_in_memory"): reviewed(".write_dataset", reason="pending rows in memory, to be filtered and read by the same engine"),
    ("store.stage", "_merge"): reviewed(".merge_insert", ".execute_uncommitted", reason="an upsert, staged: files and no commit"),
    ("store.stage", "advance"): reviewed("LanceDataset.commit", reason="the one commit of staged changes: fenced, no retries"),
    ("store.index", "write_index"): reviewed(
        ".create_index_uncommitted", ".merge_existing_index_segments", reason="index files, staged; committed by stage.commit"
    ),
    ("store.compact", "preview"): reviewed(
        "LanceDataset.commit", reason="a detached version, which no reader finds and HEAD does not count: indexes are built on it"
    ),
    ("store.reclaim", "_remove"): reviewed(
        ".cleanup_old_versions", reason="versions that a commit gave up, named one by one; unverified files are never deleted"
    ),
    ("store.refs", "_plainly_named"): reviewed(
        "lance.dataset", reason="the same table through a link, because Lance escapes other paths twice; only to make a native branch"
    ),
    ("store.refs", "create_ref"): reviewed(".create_branch", reason="the one way to make a native branch, from an exact version"),
    ("store.ledger", "Ledger._commit"): reviewed("LanceDataset.commit", reason="the publish: an exact swap of the state fragment"),
    ("store.ledger", "create_ledger"): reviewed("LanceDataset.commit", reason="the birth of a ledger, exclusive by max_retries=0"),
}

COUPLED: Final[Mapping[tuple[str, str], str]] = {
    ("store.ledger", "Ledger.swap"): "the publish itself: a few rows of `__manifest` and the commit that shows them are one act by design",
    ("store.ledger", "create_ledger"): "the same for the first version",
}
"""W-50: the only public functions that take rows and move a HEAD."""


# -- reading the source


@cache
def modules() -> dict[str, ast.Module]:
    trees = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        trees[name] = ast.parse(path.read_text(), str(path))
    return trees


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(qualified name, function): nested functions belong to the one around them; whatever runs at import is "<module>"."""
    at_import: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{member.name}", member
                else:
                    at_import.append(member)
        else:
            at_import.append(node)
    yield "<module>", ast.Module(body=at_import, type_ignores=[])


def last(node: ast.expr) -> str:
    """The name an expression ends in: `a.b.c` -> c, `f(x)` -> f."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=func):
            return last(func)
        case _:
            return ""


def is_dataset(node: ast.expr, tainted: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in NAMES or name in tainted
        case ast.Attribute(attr=name):
            return name in NAMES
        case ast.Call(func=func):
            return last(func) in MAKERS or _primitive_name(node, tainted) is not None
        case _:
            return False


def _primitive_name(call: ast.Call, tainted: set[str]) -> str | None:
    """How a call of a Lance primitive is written in the registry, or None for any other call."""
    func = call.func
    if isinstance(func, ast.Name):
        return func.id if func.id == "LanceDataset" else f".{func.id}" if func.id in LANCE_ONLY else None
    if not isinstance(func, ast.Attribute):
        return None
    receiver, name = func.value, func.attr
    if name == "dataset" and isinstance(receiver, ast.Name) and receiver.id == "lance":
        return "lance.dataset"
    if isinstance(receiver, ast.Attribute) and receiver.attr in PARTS and is_dataset(receiver.value, tainted):
        return f".{receiver.attr}.{name}"
    if name in LANCE_ONLY:
        return f".{name}"
    if name in OF_A_DATASET and is_dataset(receiver, tainted):
        return f"{receiver.id}.{name}" if isinstance(receiver, ast.Name) and receiver.id in ("LanceDataset", "Compaction") else f".{name}"
    return None


def tainted_names(function: ast.AST) -> set[str]:
    """Variables of a function that hold a dataset, however many times it was handed on."""
    held: set[str] = set()
    while True:
        before = len(held)
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_dataset(value, held):
                    held.add(name)
                case ast.NamedExpr(target=ast.Name(id=name), value=value) if is_dataset(value, held):
                    held.add(name)
                case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)) if is_dataset(value, held):
                    held.add(name)
        if len(held) == before:
            return held


def primitives(module: str, tree: ast.Module) -> Iterator[Found]:
    """Every call of a primitive in a module, and, outside the storage layer, every way to a raw handle."""
    ours = own_names(tree)
    for function, body in functions(tree):
        held = tainted_names(body)
        for node in ast.walk(body):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in ours and name not in RAW_OPENS:
                    continue  # a function of ours that shares its name with one of Lance's methods
                case ast.Call():
                    call = _primitive_name(node, held)
                    if call is None and not module.startswith(STORE) and last(node.func) in RAW_OPENS:
                        call = last(node.func)
                    if call is not None:
                        yield Found(module, function, call, node.lineno)
                case ast.Attribute(attr="latest_version", value=value) if is_dataset(value, held):
                    yield Found(module, function, ".latest_version", node.lineno)
                case ast.Attribute(attr="dataset" | "_dataset") if not module.startswith(STORE):
                    yield Found(module, function, ".dataset", node.lineno)


def own_names(tree: ast.Module) -> set[str]:
    """What a module imports from our own packages."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph.")
        for alias in node.names
    }


def foreign_imports(module: str, tree: ast.Module) -> Iterator[Found]:
    """Imports of lance and obstore outside the storage layer, also those hidden in a function or in a string."""
    if module.startswith(STORE):
        return
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(name), level=0):
                names = [name]
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if last(func) in ("import_module", "__import__"):
                names = [name]
        for name in names:
            if name.split(".")[0] in ("lance", "obstore", "pylance", "lancedb"):
                yield Found(module, "import", name, getattr(node, "lineno", 0))


def offences(trees: Mapping[str, ast.Module], registry: Mapping[tuple[str, str], Reviewed] = REGISTRY) -> list[Found]:
    found = [one for module, tree in trees.items() for one in foreign_imports(module, tree)]
    for module, tree in trees.items():
        for one in primitives(module, tree):
            entry = registry.get((one.module, one.function))
            if entry is None or one.call not in entry.calls:
                found.append(one)
    return found


# -- the guard


def test_only_the_storage_layer_touches_lance_and_only_where_it_was_reviewed() -> None:
    """Z-04: Only the storage layer calls Lance, and only at reviewed places.

    Also Z-05.
    """
    assert offences(modules()) == []


def test_every_reviewed_call_is_still_made() -> None:
    """Z-06: An entry of a reviewed list that matches nothing fails the test."""
    made = {(one.module, one.function, one.call) for module, tree in modules().items() for one in primitives(module, tree)}
    listed = {(module, function, call) for (module, function), entry in REGISTRY.items() for call in entry.calls}
    assert listed - made == set()
    assert all(len(entry.reason) > 20 for entry in REGISTRY.values())


GOOD = """
import hashlib, os
from omnigraph.store.stage import commit
class Cache:
    def fill(self, objects, rows, connection, branches, table):
        objects.delete("x"); self.objects.delete_prefix("y"); rows.insert(0, 1); {}.update(a=1); self.seen.update([1])
        hashlib.sha256().update(b""); connection.execute("select 1"); connection.commit(); branches.list(); self.branches.delete("x")
        os.unlink("x"); commit(table); table.versions; dict(a=1).update(b=2); set().update(rows)
"""

BAD: Final[Mapping[str, tuple[str, str, str]]] = {
    # what: (module, source, the call that must be reported)
    "import": ("exec.write", "import lance", "lance"),
    "import of a part": ("exec.write", "from lance.fragment import write_fragments", "lance.fragment"),
    "import inside a function": ("graph", "def f():\n    import obstore.store", "obstore.store"),
    "import by name": ("graph", "import importlib\nimportlib.import_module('lance')", "lance"),
    "lancedb": ("graph", "import lancedb", "lancedb"),
    "direct commit": ("store.extra", "def f(table, tx):\n    LanceDataset.commit(table.dataset, tx)", "LanceDataset.commit"),
    "commit of a handle": ("store.extra", "def f(table, tx):\n    table.dataset.commit(table.dataset, tx)", ".commit"),
    "commit batch": ("store.extra", "def f(d, txs):\n    LanceDataset.commit_batch(d, txs)", ".commit_batch"),
    "write": ("store.extra", "def f(rows):\n    lance.write_dataset(rows, 'x')", ".write_dataset"),
    "bare write": ("store.extra", "def f(rows):\n    write_dataset(rows, 'x')", ".write_dataset"),
    "raw open": ("store.extra", "def f():\n    lance.dataset('x')", "lance.dataset"),
    "open by class": ("store.extra", "def f():\n    LanceDataset('x')", "LanceDataset"),
    "raw open outside": ("exec.write", "def f(root, ref):\n    open_dataset(root, ref)", "open_dataset"),
    "newest outside": ("graph", "def f(root):\n    return tables.open_newest(root, 'x', branch=None)", "open_newest"),
    "handle outside": ("exec.read", "def f(table):\n    return table.dataset.to_table()", ".dataset"),
    "restore": ("store.extra", "def f(table):\n    table.dataset.restore()", ".restore"),
    "restore of an open": ("store.extra", "def f():\n    lance.dataset('x', version=1).restore()", ".restore"),
    "branch": ("store.extra", "def f(x):\n    x.create_branch('b')", ".create_branch"),
    "branch list": ("store.extra", "def f(table):\n    table.dataset.branches.list()", ".branches.list"),
    "branch list of a variable": (
        "store.extra",
        "def f(table):\n    d = table.dataset\n    d.branches.list_ordered()",
        ".branches.list_ordered",
    ),
    "tags": ("store.extra", "def f(table):\n    table.dataset.tags.create('t', 1)", ".tags.create"),
    "compaction": ("store.extra", "def f(d, r):\n    Compaction.commit(d, r)", "Compaction.commit"),
    "inline compaction": ("store.extra", "def f(table):\n    table.dataset.optimize.compact_files()", ".optimize.compact_files"),
    "inline index": ("store.extra", "def f(x):\n    x.create_scalar_index('n', 'BTREE')", ".create_scalar_index"),
    "inline vector index": ("store.extra", "def f(x):\n    x.create_index('v', 'IVF_PQ')", ".create_index"),
    "inline insert": ("store.extra", "def f(table, rows):\n    table.dataset.insert(rows)", ".insert"),
    "inline delete": ("store.extra", "def f(table):\n    handle = open_dataset(table)\n    handle.delete('n = 1')", ".delete"),
    "inline delete, handed on": ("store.extra", "def f(t):\n    a = t.dataset\n    b = a\n    b.delete('n = 1')", ".delete"),
    "inline delete, walrus": ("store.extra", "def f(t):\n    if (a := t.dataset):\n        a.delete('n = 1')", ".delete"),
    "inline update": ("store.extra", "def f(ds):\n    ds.update({'n': '1'})", ".update"),
    "inline merge": ("store.extra", "def f(x, r):\n    x.merge_insert('id').when_matched_update_all().execute(r)", ".merge_insert"),
    "cleanup": ("store.extra", "def f(x):\n    x.cleanup_old_versions()", ".cleanup_old_versions"),
    "schema change": ("store.extra", "def f(x):\n    x.drop_columns(['n'])", ".drop_columns"),
    "at import": ("store.extra", "lance.write_dataset([], 'x')", ".write_dataset"),
    "in a class body": ("store.extra", "class A:\n    here = lance.dataset('x')", "lance.dataset"),
    "in a method": ("store.extra", "class A:\n    def f(self):\n        self._dataset.delete('n = 1')", ".delete"),
    "in a nested function": ("store.extra", "def f(t):\n    def g():\n        t.dataset.restore()\n    return g", ".restore"),
    "a new call in a reviewed function": ("store.stage", "def commit(staged):\n    staged.table.dataset.restore()", ".restore"),
    "a probe": ("store.extra", "def f(t):\n    return t.dataset.latest_version", ".latest_version"),
}


@pytest.mark.parametrize("what", BAD)
def test_the_guard_reports_what_it_must(what: str) -> None:
    """Z-06: each of these sources, and nothing in the good one, is reported."""
    module, source, call = BAD[what]
    assert call in [one.call for one in offences({module: ast.parse(source)})]


@pytest.mark.parametrize("module", ["store.extra", "exec.write"])
def test_the_guard_is_silent_about_names_that_others_share(module: str) -> None:
    assert offences({module: ast.parse(GOOD)}) == []


# -- no call both writes rows and moves a HEAD


ROWS: Final = ("pa.Table", "pa.RecordBatch", "pa.RecordBatchReader", "pa.Array", "Sequence[Any]")


class Function(NamedTuple):
    node: ast.FunctionDef
    calls: frozenset[str]
    moves: bool


def surface(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], Function]:
    """Every function of the storage layer, the ones it calls, and whether it moves a HEAD, itself or through those."""
    known: dict[tuple[str, str], Function] = {}
    for module, tree in trees.items():
        if not module.startswith(STORE):
            continue
        moving = {one.function for one in primitives(module, tree) if one.call in MOVES_HEAD and one.function != "_in_memory"}
        for name, node in functions(tree):
            if isinstance(node, ast.FunctionDef):
                calls = frozenset(last(call.func) for call in ast.walk(node) if isinstance(call, ast.Call))
                known[module, name] = Function(node, calls, name in moving)
    while True:
        names = {name.rpartition(".")[2] for (_, name), function in known.items() if function.moves}
        more = {key: f._replace(moves=True) for key, f in known.items() if not f.moves and f.calls & (names - {"append", "commit", "open"})}
        more |= {key: f._replace(moves=True) for key, f in known.items() if not f.moves and _calls_commit_of_stage(f)}
        if not more:
            return known
        known.update(more)


def _calls_commit_of_stage(function: Function) -> bool:
    """`commit` is too common a name to follow on every receiver: bare, or on the module, it is the one of stage.py."""
    called = [call.func for call in ast.walk(function.node) if isinstance(call, ast.Call) and last(call.func) == "commit"]
    return any(isinstance(one, ast.Name) or (isinstance(one, ast.Attribute) and last(one.value) == "stage") for one in called)


def takes_rows(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(part in ast.unparse(one.annotation) for one in arguments if one.annotation is not None for part in ROWS)


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def coupled(trees: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    return {key for key, f in surface(trees).items() if is_public(key[1]) and f.moves and takes_rows(f.node)}


def test_no_public_call_of_the_storage_layer_both_writes_rows_and_moves_a_head() -> None:
    """W-50: No public call of the storage layer both writes rows and moves a HEAD; the manifest's swap is the exception."""
    assert coupled(modules()) == set(COUPLED)


def test_the_calls_that_move_a_head_are_these() -> None:
    """Z-05: The calls that can move a HEAD are a closed list."""
    moving = {key: f.node for key, f in surface(modules()).items() if is_public(key[1]) and f.moves}
    signatures = {f"{module.removeprefix(STORE)}.{name}": [one.arg for one in node.args.args] for (module, name), node in moving.items()}
    assert signatures == {
        "compact.preview": ["table", "rewrites"],
        "stage.advance": ["staged"],
        "stage.commit": ["staged"],
        "refs.create_ref": ["table", "name"],
        "tables.create_table": ["root", "path", "schema"],
        "ledger.Ledger.swap": ["self", "state", "facts"],
        "ledger.Draft.swap": ["self"],
        "ledger.Ledger.fence_off": ["self"],
        "ledger.create_ledger": ["root", "path"],
    }


COUPLING: Final = {
    "at once": """
def save(table: Table, rows: pa.Table):
    LanceDataset.commit(table.dataset, tx)
""",
    "through a helper": """
def save(table: Table, *, rows: pa.Table | None = None):
    _go(table)
def _go(table):
    LanceDataset.commit(table.dataset, tx)
""",
    "as a method": """
class Store:
    def save(self, rows: pa.RecordBatchReader):
        self._go()
    def _go(self):
        self._dataset.restore()
""",
    "through stage.commit": """
def save(table: Table, rows: pa.Table):
    return stage.commit(stage.append(table, rows))
""",
    "through an imported commit": """
from omnigraph.store.stage import commit
def save(table: Table, rows: pa.Table):
    return commit(append(table, rows))
""",
    "through a commit": """
def save(table: Table, keys: pa.Array):
    commit_compaction(delete(table, keys))
def commit_compaction(staged):
    Compaction.commit(staged.handle, [])
""",
}


@pytest.mark.parametrize("how", COUPLING)
def test_a_call_that_couples_both_is_reported(how: str) -> None:
    assert any(name.endswith("save") for _, name in coupled({"store.extra": ast.parse(COUPLING[how])}))
