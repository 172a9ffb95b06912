"""A catalog, or the rows of a read -> a drawing, and a drawing -> the file that `schema draw` and `query --draw` write."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.cli import output
from omnigraph.cli.drawing import MOST_NODES, Drawing, DrawnEdge, DrawnNode, html, svg
from omnigraph.cli.files import atomic_file
from omnigraph.errors import InvalidInput, Kind
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.catalog.model import EdgeType, InterfaceType, NodeType
    from omnigraph.exec.read.result import Result
    from omnigraph.plan.typed import Block, Link, TypedRead

_FORMATS: Final = {".svg": svg, ".html": html}
_PROPERTIES_SHOWN: Final = 12


def check_path(path: Path) -> None:
    """Refuse a file whose format is not known, before anything is read."""
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"a drawing is written to a file that ends with .svg or .html, not to '{path}'", path=str(path)
        )


def write_drawing(drawing: Drawing, path: Path) -> None:
    """Write the file, and say on stderr what is drawn."""
    if len(drawing.nodes) > MOST_NODES:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"a drawing shows at most {MOST_NODES} nodes, and this one has {len(drawing.nodes)}; add a limit or a condition",
            nodes=len(drawing.nodes),
        )
    text = _FORMATS[path.suffix.lower()](drawing)
    with atomic_file(path) as file:
        file.write(text.encode())
    output.note(f"drew {counted(len(drawing.nodes), 'node')} and {counted(len(drawing.edges), 'edge')} to {path}")


# -- a schema


def schema_drawing(catalog: Catalog, title: str) -> Drawing:
    """Draw node types as boxes with their properties, edge types as arrows, and interfaces as dashed boxes."""
    nodes = [
        *(DrawnNode(one.alias, _type_lines(one), "node type") for one in catalog.nodes),
        *(DrawnNode(one.alias, _type_lines(one), "interface", dashed=True) for one in catalog.interfaces),
    ]
    edges = [
        *(DrawnEdge(f"node:{one.source}", f"node:{one.target}", _edge_label(one)) for one in catalog.edges),
        *(DrawnEdge(one.alias, f"interface:{name}", "", dashed=True) for one in catalog.nodes for name in one.implements),
    ]
    return Drawing(title, nodes, edges, legend=bool(catalog.interfaces))


def _type_lines(declared: NodeType | InterfaceType) -> tuple[str, ...]:
    from omnigraph.catalog.types import display

    keys = declared.key.columns if declared.key is not None else ()
    lines = [
        f"{one.name}: {display(one.type, nullable=one.nullable)}{' @key' if one.name in keys else ''}"
        for one in sorted(declared.properties, key=lambda one: (one.name not in keys, one.name))
    ]
    if len(lines) > _PROPERTIES_SHOWN:
        lines = [*lines[: _PROPERTIES_SHOWN - 1], f"… {len(lines) - _PROPERTIES_SHOWN + 1} more"]
    return (declared.name, *lines)


def _edge_label(edge: EdgeType) -> str:
    return f"{edge.name} ({', '.join(one.name for one in edge.properties)})" if edge.properties else edge.name


# -- the result of a read


def result_drawing(read: TypedRead, result: Result, title: str) -> Drawing:
    """Draw the nodes that the rows hold whole (`return { $p, $f }`), and between those of one row the edges that the query matches."""
    from omnigraph.catalog.model import EdgeType
    from omnigraph.plan.expr import Field
    from omnigraph.plan.typed import Direction, PathType

    columns: dict[int, int] = {}
    for column, returned in enumerate(read.outputs):
        if isinstance(returned.expr, Field) and returned.expr.whole:
            columns.setdefault(returned.expr.binding, column)
    groups = {slot: read.variables[slot].type for slot in columns}
    names = {slot: held.name for slot, held in groups.items() if not isinstance(held, EdgeType | PathType)}
    if not names:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "there is nothing to draw: return whole nodes, as in `return { $p, $f }`")
    links = [link for link in _links(read.block, columns.keys()) if link.left in names and link.right in names]
    nodes: dict[str, DrawnNode] = {}
    edges: set[tuple[DrawnEdge, str]] = set()
    for row in result.tuples():
        for slot, group in names.items():
            if (value := row[columns[slot]]) is not None:
                nodes.setdefault(f"{group} {value}", DrawnNode(f"{group} {value}", (str(value),), group))
        for link in links:
            left, right = row[columns[link.left]], row[columns[link.right]]
            edge = row[columns[link.edge_slot]] if link.edge_slot in columns else ""
            if left is None or right is None or edge is None:
                continue
            ends = (f"{names[link.left]} {left}", f"{names[link.right]} {right}")
            source, target = ends if link.direction is not Direction.IN else ends[::-1]
            directed = link.direction is not Direction.BOTH
            edges.add((DrawnEdge(source, target, _link_label(link), directed=directed, dashed=link.high != 1), str(edge)))
    return Drawing(title, sorted(nodes.values()), [edge for edge, _ in sorted(edges)])


def _links(block: Block, returned: Set[int]) -> Iterator[Link]:
    """Yield the traversals that every row has matched if its ends and its edge are not null.

    A row does not tell whether an optional block matched, unless it holds something that the block binds.
    """
    from omnigraph.plan.typed import Pattern

    for part in block.parts:
        if isinstance(part, Pattern):
            yield from part.links
            continue
        known = returned & set(part.binds)
        yield from (link for link in _links(part.block, returned) if known & {link.left, link.right, link.edge_slot})


def _link_label(link: Link) -> str:
    steps = "" if link.low == link.high == 1 else f"{{{link.low},{link.high}}}"
    return "|".join(edge.name for edge in link.edges) + steps
