"""A physical plan -> what its operators yield: rows of the match or of the result, with which bindings and columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from omnigraph.exec.read.aggregate import uses_number
from omnigraph.exec.read.rows import ColumnKey
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import ID, Field


def gives_cells(op: ops.Op) -> bool:
    """Return whether an operator yields rows of the result, not of the match."""
    match op:
        case ops.Aggregate() | ops.Project() | ops.Distinct():
            return True
        case ops.Sort() | ops.Limit():
            return gives_cells(op.input)
        case _:
            return False


def bindings_with_ids(op: ops.Op) -> frozenset[int]:
    """Return the bindings whose ids every row needs later. A scan reads them together with its other columns."""
    found: set[int] = set()

    def see(fields: Iterable[Field]) -> None:
        found.update(field.binding for field in fields if field.whole)

    def visit(op: ops.Op) -> None:
        match op:
            case ops.Project(input_, outputs):
                see(field for output in outputs for field in ir.expr_fields(output))
                visit(input_)
            case ops.Aggregate(input_, outputs):
                # An entity that is a key, or is counted or collected, is its number until the end.
                see(field for output in outputs if not uses_number(output) for field in ir.output_fields(output))
                visit(input_)
            case ops.Filter(input_, where):
                see(field for predicate in where for field in ir.fields_of(predicate))
                visit(input_)
            case ops.Join(left, right, on):
                see(field for pair in on for field in pair)
                visit(left)
                visit(right)
            case ops.CrossProduct(left, right):
                visit(left)
                visit(right)
            case ops.SemiJoin(input_, inners):
                visit(input_)
                for inner in inners:
                    visit(inner.root)
            case ops.Optional(input_, inner):
                visit(input_)
                visit(inner.root)
            case ops.Expand() | ops.Connect() | ops.Paths() | ops.Rank() | ops.Fetch() | ops.Distinct():
                visit(op.input)
            case ops.Sort() | ops.Limit():
                # Columns that only the few remaining rows need are read after the limit.
                if not isinstance(op, ops.Sort) or op.limit is None:
                    visit(op.input)
            case ops.Scan() | ops.Argument() | ops.Empty():
                return
            case _:
                assert_never(op)

    visit(op)
    return frozenset(found)


def bindings_of(op: ops.Op) -> frozenset[int]:
    """Return the bindings of a row of this operator."""
    match op:
        case ops.Scan(binding):
            return frozenset((binding,))
        case ops.Argument(bindings):
            return frozenset(bindings)
        case ops.Expand():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bindings_of(op.input) | edge | {op.target.binding}
        case ops.Connect():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bindings_of(op.input) | edge
        case ops.Paths(input_, link):
            return bindings_of(input_) | (frozenset() if link.path is None else frozenset((link.path,)))
        case ops.CrossProduct(left, right) | ops.Join(left, right):
            return bindings_of(left) | bindings_of(right)
        case ops.Optional(input_, _, binds):
            return bindings_of(input_).union(binds)
        case ops.Filter() | ops.SemiJoin() | ops.Rank() | ops.Fetch() | ops.Sort() | ops.Limit():
            return bindings_of(op.input)
        case ops.Aggregate() | ops.Project() | ops.Distinct():
            return bindings_of(op.input)
        case ops.Empty():
            return frozenset()
        case _:
            assert_never(op)


def columns_of(op: ops.Op, with_ids: frozenset[int]) -> frozenset[ColumnKey]:
    """Return the columns that rows of this operator have, besides those of the outer rows. Scans read the ids of `with_ids`."""
    match op:
        case ops.Scan(binding, columns=columns):
            names = (*columns, ID) if binding in with_ids else columns
            return frozenset((binding, name) for name in names)
        case ops.Expand(input_, link, target=target):
            ends = frozenset((target.binding, name) for name in target.columns)
            return columns_of(input_, with_ids) | ends | _edge_columns(link)
        case ops.Connect(input_, link):
            return columns_of(input_, with_ids) | _edge_columns(link)
        case ops.Paths(input_, link, columns):
            return columns_of(input_, with_ids).union((link.path, name) for name in columns if link.path is not None)
        case ops.Fetch(input_, reads):
            return columns_of(input_, with_ids).union((read.binding, name) for read in reads for name in read.columns)
        case ops.CrossProduct(left, right) | ops.Join(left, right):
            return columns_of(left, with_ids) | columns_of(right, with_ids)
        case ops.Optional(input_, inner, binds):
            return columns_of(input_, with_ids).union(key for key in columns_of(inner.root, with_ids) if key[0] in binds)
        case ops.Filter() | ops.SemiJoin() | ops.Rank() | ops.Sort() | ops.Limit():
            return columns_of(op.input, with_ids)
        case ops.Argument() | ops.Empty():
            return frozenset()
        case ops.Aggregate() | ops.Project() | ops.Distinct():
            raise AssertionError("this operator returns result columns, not rows")
        case _:
            assert_never(op)


def _edge_columns(link: ir.Link) -> frozenset[ColumnKey]:
    return frozenset() if link.edge_binding is None else frozenset((link.edge_binding, name) for name in link.columns)
