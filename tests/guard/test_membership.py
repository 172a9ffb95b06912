"""Kernels that build a hash table in each call are called in one module, which knows when that is cheap."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2] / "src" / "omnigraph"
HOME: Final = "store/membership.py"
KERNELS: Final = frozenset({"is_in", "index_in", "is_in_meta_binary", "index_in_meta_binary", "SetLookupOptions", "HashJoinNodeOptions"})
METHODS: Final = frozenset({"join", "join_asof"})
OF_ARROW: Final = frozenset({"pc", "compute", "pa", "pyarrow", "acero"})
NOT_TABLES: Final = frozenset({"testing/random/queries.py"})
"""Where `join` of two arguments joins the variables of a query."""


def found(text: str) -> Iterator[int]:
    """The lines that call such a kernel, import it, name it in a text, or join tables of Arrow."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in OF_ARROW and name in KERNELS:
                yield node.lineno
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("pyarrow"):
                yield from (node.lineno for name in names if name.name in KERNELS)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if name in KERNELS:  # pc.call_function("is_in", ...)
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="isin", value=value)) if not _is_numpy(value):  # of an expression
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args, keywords=keywords) if name in METHODS:
                if len(args) + len(keywords) > 1 and not _is_path(value):  # a text joins one list
                    yield node.lineno


def _is_numpy(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "np"


def _is_path(value: ast.expr) -> bool:
    return (isinstance(value, ast.Attribute) and value.attr == "path") or (isinstance(value, ast.Name) and value.id == "posixpath")


def test_no_other_module_calls_the_kernels() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    calls = {name: [*found(path.read_text())] for name, path in files.items() if name != HOME and name not in NOT_TABLES}
    assert {name: lines for name, lines in calls.items() if lines} == {}
    assert [*found(files[HOME].read_text())], "the guard sees a call where there is one"


def test_the_guard_sees_every_spelling() -> None:
    spellings = (
        "pc.is_in(a, value_set=b)",
        "pyarrow.compute",  # not a call
        "pc.index_in(a, b)",
        "from pyarrow.compute import is_in",
        "pc.call_function('index_in', [a], o)",
        "pc.SetLookupOptions(a)",
        "pc.field('a').isin(b)",
        "left.join(right, 'id')",
        "left.join(right, keys='id')",
        "', '.join(texts)",  # of texts
        "np.isin(a, b)",  # of numbers
        "os.path.join(a, b)",  # of paths
    )
    assert [bool([*found(text)]) for text in spellings] == [True, False, True, True, True, True, True, True, True, False, False, False]
