"""INV-13: every call that reads rows or index pages of a table stands in a function that compares checksums, or in the list with a reason.

Read from the source. A new read of Lance fails here until it compares what it reads; an entry that matches nothing fails, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "omnigraph"

READS: Final = frozenset(
    {
        *(
            "scanner",
            "to_table",
            "to_batches",
            "count_rows",
            "sample",
            "head",
            "_take_rows",
            "take_blobs",
            "read_blobs",
            "read_blob_ranges",
        ),
        *("merge_insert", "create_index_uncommitted", "delete_rows", "LanceFileReader"),
    }
)
"""Calls that read rows or pages. `take` is checked by its receiver: pyarrow has one, too."""
COMPARES: Final = frozenset({"checks", "check_filter", "by_search_index", "checked"})

ELSEWHERE: Final = {
    "ledger.Ledger._read": "each row of __manifest has a checksum of its own",
    "ledger.Ledger._taken": "each row of __manifest has a checksum of its own",
    "data_files.Shelf.read": "files that this write has just made, which no commit records yet",
    "deep.unreadable_rows": "`verify --deep` has compared the files, and looks for what does not decode",
    "deep._index_file": "likewise",
    "deep._untrue_rows": "an index without recorded checksums, compared with the rows",
    "keys._open": "its callers compare the pages that they read",
    "checked.TableChecks.blobs": "where the bytes of blobs are, in pages that the caller has compared",
    "tables.matching": "rows in memory",
    "word_lists._reader": "files of an index that `by_search_index` has compared",
}


class Read(NamedTuple):
    function: str
    compares: bool


def functions(tree: ast.AST, module: str) -> Iterator[tuple[str, ast.AST]]:
    """Functions of a module, those inside of others with them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{module}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            yield f"{module}.{node.name}", node


def reads() -> list[Read]:
    found = []
    for file in sorted((SOURCE / "store").glob("*.py")):
        for name, function in functions(ast.parse(file.read_text()), file.stem):
            names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            names |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            if any(_is_read(node) for node in ast.walk(function)):
                found.append(Read(name, bool(names & COMPARES)))
    return found


def _is_read(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in READS
    if not isinstance(node.func, ast.Attribute):
        return False
    on = node.func.value
    if node.func.attr == "take":
        return isinstance(on, ast.Name) and on.id in {"fragment", "newest", "dataset"}
    return node.func.attr in READS and not (isinstance(on, ast.Name) and on.id == "self") and _of_lance(on, node.func.attr)


def _of_lance(on: ast.expr, call: str) -> bool:
    """Whether the receiver is a dataset, a fragment or a scanner. Tables of pyarrow have `to_batches`, and tables of ours `head`."""
    if call not in {"to_batches", "to_table", "head", "sample"}:
        return True
    text = ast.unparse(on)
    return any(word in text for word in ("dataset", "scanner", "fragment", "_in_memory", "LanceFileReader"))


def test_every_read_compares_checksums() -> None:
    assert {read.function for read in reads() if not read.compares} == set(ELSEWHERE)


def test_reads_are_found() -> None:
    """What must be among them, so that the search finds something."""
    known = {"tables.Table._reader", "tables.Table.take", "take._whole_blobs", "stage._merge", "stage.hide_rows", "compact.rewrite"}
    assert known | {"index.write_index", "fragments.scan_fragments", "keys._read"} <= {read.function for read in reads() if read.compares}


def test_only_the_storage_layer_has_a_dataset() -> None:
    others = [file for file in SOURCE.rglob("*.py") if file.parent != SOURCE / "store"]
    assert [file.name for file in others if ".dataset" in file.read_text()] == []
