"""Nodes and edges -> an SVG, or an HTML page that holds it. Pure: the same drawing gives the same text.

Nodes begin on a grid, in the order in which they are given. Nodes repel each other and edges pull their ends together, for a fixed
number of rounds; then boxes that overlap are pushed apart. Only additions, products and square roots are used, which are exact to
the last bit everywhere, and positions are rounded to whole pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import sqrt
from typing import Final, NamedTuple

from omnigraph.grid import display_width, escaped, fitted

MOST_NODES: Final = 500
"""More nodes than that make no readable picture, and their layout takes long."""
_CELL: Final = 7
"""The width of a character of the monospaced font, in pixels, and a little more."""
_LINE: Final = 16
_MARGIN: Final = 8
_LONGEST: Final = 32
_PAIRS_AT_MOST: Final = 1_500_000
_FILLS: Final = ("#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#ede9fe", "#ffedd5", "#cffafe", "#e5e7eb")


class DrawnNode(NamedTuple):
    """A box: its lines, of which the first is its title, and the group that gives it its colour."""

    id: str
    lines: tuple[str, ...]
    group: str
    dashed: bool = False


class DrawnEdge(NamedTuple):
    """A line between two boxes, with an arrow at its end if it has a direction."""

    source: str
    target: str
    label: str
    directed: bool = True
    dashed: bool = False


class Drawing(NamedTuple):
    title: str
    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]
    legend: bool = True
    """Whether the groups are listed below."""


class _Box:
    """A node with its size and the position of its centre."""

    def __init__(self, node: DrawnNode, x: float, y: float) -> None:
        self.node: Final = node
        self.lines: Final = tuple(fitted(escaped(line), _LONGEST) for line in node.lines)
        self.wide: Final = max(display_width(line) for line in self.lines) * _CELL + 2 * _MARGIN
        self.high: Final = len(self.lines) * _LINE + _MARGIN
        self.x, self.y = x, y

    def border(self, x: float, y: float) -> tuple[float, float]:
        """Return where the line from the centre to another point leaves the box."""
        dx, dy = x - self.x, y - self.y
        if not dx and not dy:
            return self.x, self.y
        by = min(self.wide / 2 / abs(dx) if dx else 1e9, self.high / 2 / abs(dy) if dy else 1e9)
        return self.x + dx * by, self.y + dy * by


def html(drawing: Drawing) -> str:
    """Return a page without outside parts."""
    title = escape(escaped(drawing.title))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        "<style>body { margin: 1em; font-family: monospace } svg { max-width: 100%; height: auto }</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{svg(drawing)}</body>\n</html>\n"
    )


def svg(drawing: Drawing) -> str:
    """Return the drawing as SVG."""
    boxes = _placed(drawing)
    groups = sorted({node.group for node in drawing.nodes})
    fills = {group: _FILLS[at % len(_FILLS)] for at, group in enumerate(groups)}
    width = max([round(box.x + box.wide / 2) for box in boxes.values()] + [20 * _CELL]) + 60
    height = max([round(box.y + box.high / 2) for box in boxes.values()] + [0]) + 60
    parts = [
        *(part for box in boxes.values() for part in _box(box, fills[box.node.group])),
        *(_legend(groups, fills, height) if drawing.legend else ()),
    ]
    total = height + (_LINE * len(groups) + _MARGIN if drawing.legend else 0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" viewBox="0 0 {width} {total}" '
            'font-family="monospace" font-size="12">',
            f"<title>{escape(escaped(drawing.title))}</title>",
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 L10 5 L0 10 z" fill="#475569"/></marker></defs>',
            f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
            *_edges(drawing.edges, boxes),
            *parts,
            "</svg>",
            "",
        ]
    )


def _legend(groups: Sequence[str], fills: Mapping[str, str], top: int) -> Iterator[str]:
    for at, group in enumerate(groups):
        y = top + at * _LINE
        yield f'<rect x="20" y="{y}" width="12" height="12" fill="{fills[group]}" stroke="#475569"/>'
        yield f'<text x="38" y="{y + 10}">{escape(escaped(group))}</text>'


def _box(box: _Box, fill: str) -> Iterator[str]:
    left, top = round(box.x - box.wide / 2), round(box.y - box.high / 2)
    dashes = ' stroke-dasharray="4 3"' if box.node.dashed else ""
    yield f'<rect x="{left}" y="{top}" width="{box.wide}" height="{box.high}" rx="4" fill="{fill}" stroke="#475569"{dashes}/>'
    for at, line in enumerate(box.lines):
        y = top + (at + 1) * _LINE
        if at == 0:
            bold = ' font-weight="bold"' if len(box.lines) > 1 else ""
            yield f'<text x="{round(box.x)}" y="{y}" text-anchor="middle"{bold}>{escape(line)}</text>'
        else:
            yield f'<text x="{left + _MARGIN}" y="{y}">{escape(line)}</text>'


def _edges(edges: Sequence[DrawnEdge], boxes: Mapping[str, _Box]) -> Iterator[str]:
    """Yield the lines, then the labels, so that no line crosses a label. Several edges of one pair are bent away from each other."""
    seen: dict[tuple[str, str], int] = {}
    labels: list[str] = []
    for edge in edges:
        pair = (min(edge.source, edge.target), max(edge.source, edge.target))
        number = seen[pair] = seen.get(pair, -1) + 1
        path, (x, y) = _line(boxes[edge.source], boxes[edge.target], number, is_turned=edge.source > edge.target)
        arrow = ' marker-end="url(#arrow)"' if edge.directed else ""
        dashes = ' stroke-dasharray="5 4"' if edge.dashed else ""
        yield f'<path d="{path}" fill="none" stroke="#475569"{dashes}{arrow}/>'
        if edge.label:
            text = escape(fitted(escaped(edge.label), _LONGEST))
            labels.append(
                f'<text x="{round(x)}" y="{round(y)}" text-anchor="middle" font-size="11" fill="#334155" stroke="#ffffff" '
                f'stroke-width="3" paint-order="stroke">{text}</text>'
            )
    yield from labels


def _line(one: _Box, other: _Box, number: int, *, is_turned: bool) -> tuple[str, tuple[float, float]]:
    """Return the path of the edge with that number among those of its pair, and where its label stands."""
    if one is other:
        x, y, size = one.x + one.wide / 2, one.y - one.high / 2, 26 + 14 * number
        curve = (
            f"M{round(x - 10)} {round(y)} C{round(x - 10)} {round(y - size)} {round(x + size)} {round(y + 10)} {round(x)} {round(y + 10)}"
        )
        return curve, (x + size / 2, y - size / 2)
    bend = (number + 1) // 2 * 34 * (-1 if number % 2 else 1) * (-1 if is_turned else 1)
    dx, dy = other.x - one.x, other.y - one.y
    far = sqrt(dx * dx + dy * dy) or 1.0
    middle = ((one.x + other.x) / 2 - dy / far * bend, (one.y + other.y) / 2 + dx / far * bend)
    (x1, y1), (x2, y2) = one.border(*middle), other.border(*middle)
    label = ((x1 + x2) / 4 + middle[0] / 2, (y1 + y2) / 4 + middle[1] / 2 - 3)
    if not bend:
        return f"M{round(x1)} {round(y1)} L{round(x2)} {round(y2)}", label
    return f"M{round(x1)} {round(y1)} Q{round(middle[0])} {round(middle[1])} {round(x2)} {round(y2)}", label


# -- layout


def _placed(drawing: Drawing) -> dict[str, _Box]:
    """Return the nodes as boxes that do not overlap, with all positions inside the picture."""
    columns = max(1, round(sqrt(len(drawing.nodes))))
    boxes = [_Box(node, float(at % columns), float(at // columns)) for at, node in enumerate(drawing.nodes)]
    if not boxes:
        return {}
    by_id = {box.node.id: box for box in boxes}
    wide, high = max(box.wide for box in boxes) + 50.0, max(box.high for box in boxes) + 60.0
    for box in boxes:
        box.x, box.y = box.x * wide, box.y * high
    pulls = sorted({(edge.source, edge.target) for edge in drawing.edges if edge.source != edge.target})
    _settle(boxes, [(by_id[source], by_id[target]) for source, target in pulls], wide, high)
    _push_apart(boxes)
    left = min(box.x - box.wide / 2 for box in boxes) - 40
    top = min(box.y - box.high / 2 for box in boxes) - 50
    for box in boxes:
        box.x, box.y = round(box.x - left), round(box.y - top)
    return by_id


def _settle(boxes: list[_Box], pulls: list[tuple[_Box, _Box]], wide: float, high: float) -> None:
    """Move the boxes by repulsion, by the pull of edges and by a weak pull to the middle. Distances are measured in sizes of a box."""
    pairs = len(boxes) * (len(boxes) - 1) // 2
    rounds = min(300, max(40, _PAIRS_AT_MOST // max(1, pairs)))
    at = {id(box): number for number, box in enumerate(boxes)}
    xs, ys = [box.x / wide for box in boxes], [box.y / high for box in boxes]
    # Two nodes of a grid that are pulled alike would stay in one line: the grid is a little uneven.
    for number in range(len(boxes)):
        xs[number] += (number * 7 % 11) / 50
        ys[number] += (number * 5 % 13) / 50
    links = [(at[id(one)], at[id(other)]) for one, other in pulls]
    for turn in range(rounds):
        step = 1.0 * (1 - turn / rounds) + 0.02
        fx, fy = [0.0] * len(boxes), [0.0] * len(boxes)
        for one in range(len(boxes)):
            x, y = xs[one], ys[one]
            for other in range(one + 1, len(boxes)):
                dx, dy = x - xs[other], y - ys[other]
                force = 0.4 / (dx * dx + dy * dy + 0.01)
                fx[one] += dx * force
                fy[one] += dy * force
                fx[other] -= dx * force
                fy[other] -= dy * force
        for one, other in links:
            dx, dy = xs[one] - xs[other], ys[one] - ys[other]
            force = sqrt(dx * dx + dy * dy) * 0.7
            fx[one] -= dx * force
            fy[one] -= dy * force
            fx[other] += dx * force
            fy[other] += dy * force
        middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
        for one in range(len(boxes)):
            dx = fx[one] - (xs[one] - middle_x) * 0.2
            dy = fy[one] - (ys[one] - middle_y) * 0.2
            far = sqrt(dx * dx + dy * dy)
            if far:
                by = min(far, step) / far
                xs[one] += dx * by
                ys[one] += dy * by
    for number, box in enumerate(boxes):
        box.x, box.y = xs[number] * wide, ys[number] * high


def _push_apart(boxes: list[_Box]) -> None:
    """Move boxes that overlap, or nearly do, along the shorter way, until none does."""
    for _ in range(200):
        moved = False
        for number, one in enumerate(boxes):
            for other in boxes[number + 1 :]:
                over_x = (one.wide + other.wide) / 2 + 24 - abs(one.x - other.x)
                over_y = (one.high + other.high) / 2 + 24 - abs(one.y - other.y)
                if over_x <= 0.01 or over_y <= 0.01:
                    continue
                moved = True
                if over_x < over_y:
                    shift = over_x / 2 if one.x < other.x else -over_x / 2
                    one.x, other.x = one.x - shift, other.x + shift
                else:
                    shift = over_y / 2 if one.y < other.y else -over_y / 2
                    one.y, other.y = one.y - shift, other.y + shift
        if not moved:
            return
