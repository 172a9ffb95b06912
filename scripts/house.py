"""`python -m scripts.house`: the source tree -> its modules, their sizes and importers, import cycles, repeated names, lines by package.

Imports inside functions and under TYPE_CHECKING count too, so lazy imports do not hide a cycle. Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import ast
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent / "src"
PACKAGE = "omnigraph"
SMALL_LINES = 60
SMALL_LIMIT = 20
"""The maximum number of modules under SMALL_LINES with a single importer. Some are justified: contracts and shared enums."""


DECLARED_AND_RESOLVED = "a tree of `lang.schema` and what it means in `catalog.model`"
WRITTEN_AND_TYPED = "a tree of `lang.query` and what the checker or the planner makes of it"
TYPED_AND_PLANNED = "a part of a query in `plan.typed` and what runs it, in `plan.ir` or `plan.writes`"
SHARED = {
    **dict.fromkeys(
        ("Annotation", "Cardinality", "Check", "EdgeType", "Index", "InterfaceType", "Key", "NodeType", "Property", "Range", "Unique"),
        DECLARED_AND_RESOLVED,
    ),
    **dict.fromkeys(
        (
            "Aggregate",
            "Argument",
            "Arithmetic",
            "Binding",
            "Bm25",
            "Filter",
            "FunctionCall",
            "Link",
            "Nearest",
            "Optional",
            "Parameter",
            "Read",
        ),
        WRITTEN_AND_TYPED,
    ),
    **dict.fromkeys(
        (
            "AllOf",
            "AnyOf",
            "DeleteBound",
            "DeleteEdges",
            "DeleteNodes",
            "InsertEdge",
            "InsertNode",
            "IsNull",
            "MatchedChanges",
            "Not",
            "UpdateBound",
            "UpdateRows",
        ),
        TYPED_AND_PLANNED,
    ),
}
"""Names that several classes may have, and why: each stage of the compiler has its own form of the same construct."""


class Module(NamedTuple):
    """One source file. `imports` are its imports of our modules, lazy imports included; `classes` are the names of its classes."""

    name: str
    lines: int
    documented: bool
    is_package: bool
    imports: frozenset[str]
    classes: tuple[str, ...]


class House(NamedTuple):
    """The measurements of the source tree."""

    modules: int
    median_lines: int
    largest: tuple[str, int]
    single_importer: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    repeated: dict[str, tuple[str, ...]]
    """The names that several classes have, with their modules."""
    lines_by_package: dict[str, int]
    undocumented: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the exceeded limits."""
        found = []
        if len(self.single_importer) > SMALL_LIMIT:
            found.append(f"{len(self.single_importer)} modules under {SMALL_LINES} lines have one importer; at most {SMALL_LIMIT} may")
        if self.cycles:
            found.append(f"{len(self.cycles)} import cycles")
        found += [f"class {name} stands in {', '.join(modules)}" for name, modules in self.repeated.items() if name not in SHARED]
        if self.undocumented:
            found.append(f"{len(self.undocumented)} modules without a docstring")
        return tuple(found)


def read(root: Path = ROOT) -> dict[str, Module]:
    """Return every module below the root by its dotted name."""
    files = {_dotted(path, root): path for path in sorted(root.rglob("*.py"))}
    modules = {}
    for name, path in files.items():
        text = path.read_text()
        tree = ast.parse(text)
        imports = frozenset(target for target in _targets(tree, frozenset(files)) if target != name)
        classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        modules[name] = Module(name, text.count("\n"), ast.get_docstring(tree) is not None, path.name == "__init__.py", imports, classes)
    return modules


def measure(modules: dict[str, Module]) -> House:
    """Measure the source tree."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for target in module.imports:
            importers[target].add(module.name)
    largest = max(modules.values(), key=lambda module: module.lines)
    by_package: dict[str, int] = {}
    for module in modules.values():
        package = module.name if module.is_package else module.name.rpartition(".")[0]
        by_package[package] = by_package.get(package, 0) + module.lines
    defined: dict[str, list[str]] = {}
    for module in modules.values():
        for name in module.classes:
            defined.setdefault(name, []).append(module.name)
    return House(
        modules=len(modules),
        median_lines=int(statistics.median(module.lines for module in modules.values())),
        largest=(largest.name, largest.lines),
        single_importer=tuple(
            f"{module.name} ({module.lines}), used by {next(iter(importers[module.name]))}"
            for module in modules.values()
            if module.lines < SMALL_LINES and not module.is_package and len(importers[module.name]) == 1
        ),
        cycles=tuple(_cycles({name: module.imports for name, module in modules.items()})),
        repeated={name: tuple(places) for name, places in sorted(defined.items()) if len(places) > 1},
        lines_by_package=dict(sorted(by_package.items())),
        undocumented=tuple(module.name for module in modules.values() if not module.documented),
    )


def _dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(tree: ast.Module, known: frozenset[str]) -> Iterator[str]:
    """Yield the modules that a file imports. `from a import b` imports `a.b` if that is a module, otherwise `a`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def _cycles(graph: dict[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            component: list[str] = []
            while not component or component[-1] != name:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(tuple(sorted(component)))

    for name in graph:
        if name not in index:
            visit(name)
    return iter(sorted(found))


def main() -> int:
    house = measure(read())
    if "--json" in sys.argv[1:]:
        print(json.dumps(house._asdict()))
        return 1 if house.broken else 0
    print(f"modules                {house.modules}")
    print(f"median lines           {house.median_lines}")
    print(f"largest                {house.largest[0]} ({house.largest[1]})")
    print(f"without a docstring    {len(house.undocumented)}")
    print(f"single importer, small {len(house.single_importer)}")
    for line in house.single_importer:
        print(f"  {line}")
    print(f"import cycles          {len(house.cycles)}")
    for cycle in house.cycles:
        print(f"  {' '.join(cycle)}")
    print(f"repeated class names   {len(house.repeated)}")
    for name, places in house.repeated.items():
        print(f"  {name}: {', '.join(places)}")
    print(f"lines                  {sum(house.lines_by_package.values())}")
    for package, lines in house.lines_by_package.items():
        print(f"  {lines:6d} {package}")
    for line in house.broken:
        print(f"BROKEN: {line}")
    return 1 if house.broken else 0


if __name__ == "__main__":
    sys.exit(main())
