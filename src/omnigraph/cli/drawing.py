"""Nodes and edges -> an SVG, or an HTML page that holds it. Pure: the same drawing gives the same text.

Nodes begin on a grid, in the order in which they are given. Nodes repel each other and edges pull their ends together, for a fixed
number of rounds; then boxes that overlap are pushed apart, and boxes with an edge so far that its label fits between them. Nodes without
edges stand in rows below. Each label stands where it covers least of the boxes and of other labels, and then of arrows and of other lines,
along its own line. Only additions, products and square roots are used, which are exact to the last
bit everywhere, and positions are rounded to whole pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import inf, sqrt
from typing import Final, NamedTuple

from omnigraph.grid import display_width, escaped, fitted

MOST_NODES: Final = 500
"""More nodes than that make no readable picture, and their layout takes long."""
_CELL: Final = 7.25
"""The width of a character of the monospaced font, in pixels, and a little more."""
_LABEL_CELL: Final = 6.7
_LABEL_HIGH: Final = 13
_GAP: Final = 24
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


class _Area(NamedTuple):
    """A rectangle of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def covered(self, other: _Area) -> float:
        """Return how much of it another one covers."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0


class _Box:
    """A node with its size and the position of its centre."""

    def __init__(self, node: DrawnNode, x: float, y: float) -> None:
        self.node: Final = node
        self.lines: Final = tuple(fitted(escaped(line), _LONGEST) for line in node.lines)
        self.wide: Final = round(max(display_width(line) for line in self.lines) * _CELL) + 2 * _MARGIN
        self.high: Final = len(self.lines) * _LINE + _MARGIN
        self.x, self.y = x, y

    @property
    def area(self) -> _Area:
        return _Area(self.x - self.wide / 2, self.y - self.high / 2, self.x + self.wide / 2, self.y + self.high / 2)

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
    areas = _areas(boxes, _edges(drawing.edges, boxes)[1])
    left, top = round(min(area.left for area in areas)) - 40, round(min(area.top for area in areas)) - 40
    for box in boxes.values():  # so that all positions are inside the picture
        box.x, box.y = box.x - left, box.y - top
    lines, labels = _edges(drawing.edges, boxes)
    areas = _areas(boxes, labels)
    width = max(round(max(area.right for area in areas)), round(20 * _CELL)) + 40
    height = round(max(area.bottom for area in areas)) + 40
    total = height + (_LINE * len(groups) + _MARGIN if drawing.legend else 0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" viewBox="0 0 {width} {total}" '
            'font-family="monospace" font-size="12">',
            f"<title>{escape(escaped(drawing.title))}</title>",
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 L10 5 L0 10 z" fill="#475569"/></marker></defs>',
            f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
            *lines,
            *(part for box in boxes.values() for part in _box(box, fills[box.node.group])),
            *(label.text for label in labels),
            *(_legend(groups, fills, 20, height) if drawing.legend else ()),
            "</svg>",
            "",
        ]
    )


def _areas(boxes: Mapping[str, _Box], labels: Sequence[_Label]) -> list[_Area]:
    return [*(box.area for box in boxes.values()), *(label.area for label in labels)] or [_Area(0, 0, 0, 0)]


def _legend(groups: Sequence[str], fills: Mapping[str, str], left: int, top: int) -> Iterator[str]:
    for at, group in enumerate(groups):
        y = top + at * _LINE
        yield f'<rect x="{left}" y="{y}" width="12" height="12" fill="{fills[group]}" stroke="#475569"/>'
        yield f'<text x="{left + 18}" y="{y + 10}">{escape(escaped(group))}</text>'


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


class _Label(NamedTuple):
    """The text of an edge, and the rectangle that it takes."""

    text: str
    area: _Area


_Points = Sequence[tuple[float, float]]
_ARROW: Final = 8
"""How far around the end of an edge its arrow reaches."""
_STEPS: Final = 12
"""The parts into which a line is cut to see what a label would cover of it."""
_ALONG: Final = (0.5, *(0.5 + side * step / 20 for step in range(1, 10) for side in (-1, 1)))
"""Where a label may stand on its line, the best first."""


def _edges(edges: Sequence[DrawnEdge], boxes: Mapping[str, _Box]) -> tuple[list[str], list[_Label]]:
    """Return the lines and the labels. Several edges of one pair are bent away from each other."""
    seen: dict[tuple[str, str], int] = {}
    lines: list[str] = []
    curves: list[_Curve] = []
    for edge in edges:
        pair = (min(edge.source, edge.target), max(edge.source, edge.target))
        number = seen[pair] = seen.get(pair, -1) + 1
        curve = _line(boxes[edge.source], boxes[edge.target], number, is_turned=edge.source > edge.target)
        curves.append(curve)
        arrow = ' marker-end="url(#arrow)"' if edge.directed else ""
        dashes = ' stroke-dasharray="5 4"' if edge.dashed else ""
        lines.append(f'<path d="{curve.path}" fill="none" stroke="#475569"{dashes}{arrow}/>')
    return lines, _labels(edges, curves, [box.area for box in boxes.values()])


def _labels(edges: Sequence[DrawnEdge], curves: Sequence[_Curve], boxes: Sequence[_Area]) -> list[_Label]:
    """Return the labels, each at a place that the boxes and the labels before it leave free, if there is one."""
    labels: list[_Label] = []
    strokes = [[*(_around(point, 2) for point in curve.drawn), _around(curve.drawn[-1], _ARROW)] for curve in curves]
    whole = [_spanned(stroke) for stroke in strokes]
    for at, (edge, curve) in enumerate(zip(edges, curves, strict=True)):
        if edge.label:
            text = fitted(escaped(edge.label), _LONGEST)
            reach = _spanned([_around(point, display_width(text) * _LABEL_CELL + 40) for point in curve.points])
            near = [stroke if other != at else stroke[-1:] for other, stroke in enumerate(strokes) if reach.covered(whole[other])]
            crossed = [area for stroke in near for area in stroke if reach.covered(area)]
            taken = [area for area in (*boxes, *(label.area for label in labels)) if reach.covered(area)]
            labels.append(_label(text, curve.points, taken, crossed))
    return labels


def _spanned(areas: Sequence[_Area]) -> _Area:
    """Return the rectangle around some areas."""
    return _Area(
        min(area.left for area in areas),
        min(area.top for area in areas),
        max(area.right for area in areas),
        max(area.bottom for area in areas),
    )


def _around(point: tuple[float, float], by: float) -> _Area:
    return _Area(point[0] - by, point[1] - by, point[0] + by, point[1] + by)


def _label(text: str, points: _Points, taken: Sequence[_Area], crossed: Sequence[_Area]) -> _Label:
    """Return a label where it covers least of what is taken, and then of what it may cross: on the line, above, below or beside it."""
    half = display_width(text) * _LABEL_CELL / 2
    beside = ((by * side, y) for by in (half + 6, half / 2) for y in (4.0, -3.0, 13.0) for side in (1, -1))
    moves = ((0.0, -3.0), (0.0, 13.0), *beside, (0.0, -18.0), (0.0, 28.0))
    best: tuple[tuple[float, float], int, int] | None = None
    for dx, dy in moves:
        for x, y in points:
            at_x, at_y = round(x + dx), round(y + dy)
            area = _label_area(at_x, at_y, half + 3)  # so that two labels do not read as one
            least = (inf, inf) if best is None else best[0]
            hidden = _covered(area, taken, least[0])
            cost = (hidden, _covered(area, crossed, least[1] if hidden == least[0] else inf)) if hidden <= least[0] else least
            if cost < least:
                best = (cost, at_x, at_y)
        if best is not None and best[0] == (0, 0):
            break
    assert best is not None
    _, x, y = best
    shown = (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-size="11" fill="#334155" stroke="#ffffff" '
        f'stroke-width="3" paint-order="stroke">{escape(text)}</text>'
    )
    return _Label(shown, _label_area(x, y, half))


def _covered(area: _Area, others: Sequence[_Area], most: float) -> float:
    """Return how much an area covers of others. It stops where that is more than `most`."""
    total = 0.0
    for other in others:
        total += area.covered(other)
        if total > most:
            break
    return total


def _label_area(x: float, y: float, half: float) -> _Area:
    """Return the rectangle of a label whose baseline has its middle there."""
    return _Area(x - half, y - _LABEL_HIGH + 3, x + half, y + 3)


class _Curve(NamedTuple):
    """The path of an edge, points where its label may stand, the best first, and points from its beginning to its end."""

    path: str
    points: _Points
    drawn: _Points


def _line(one: _Box, other: _Box, number: int, *, is_turned: bool) -> _Curve:
    """Return the curve of the edge with that number among those of its pair."""
    if one is other:
        x, y, size = one.x + one.wide / 2, one.y - one.high / 2, 26 + 14 * number
        curve = (
            f"M{round(x - 10)} {round(y)} C{round(x - 10)} {round(y - size)} {round(x + size)} {round(y + 10)} {round(x)} {round(y + 10)}"
        )
        bends = ((x - 10, y), (x - 10, y - size), (x + size, y + 10), (x, y + 10))
        drawn = [_on_loop(bends, at / _STEPS) for at in range(_STEPS + 1)]
        return _Curve(curve, [(x + size / 2, y - size / 2), (x + size, y + 4), (x, y - size)], drawn)
    bend = (number + 1) // 2 * 34 * (-1 if number % 2 else 1) * (-1 if is_turned else 1)
    dx, dy = other.x - one.x, other.y - one.y
    far = sqrt(dx * dx + dy * dy) or 1.0
    middle = ((one.x + other.x) / 2 - dy / far * bend, (one.y + other.y) / 2 + dx / far * bend)
    (x1, y1), (x2, y2) = one.border(*middle), other.border(*middle)
    pull = middle if bend else ((x1 + x2) / 2, (y1 + y2) / 2)
    points = [_between((x1, y1), pull, (x2, y2), at) for at in _ALONG]
    drawn = [_between((x1, y1), pull, (x2, y2), at / _STEPS) for at in range(_STEPS + 1)]
    if not bend:
        return _Curve(f"M{round(x1)} {round(y1)} L{round(x2)} {round(y2)}", points, drawn)
    return _Curve(f"M{round(x1)} {round(y1)} Q{round(middle[0])} {round(middle[1])} {round(x2)} {round(y2)}", points, drawn)


def _between(one: tuple[float, float], middle: tuple[float, float], other: tuple[float, float], at: float) -> tuple[float, float]:
    """Return a point of a quadratic curve."""
    rest = 1 - at
    x, y = (rest * rest * one[i] + 2 * rest * at * middle[i] + at * at * other[i] for i in (0, 1))
    return x, y


def _on_loop(points: _Points, at: float) -> tuple[float, float]:
    """Return a point of a cubic curve."""
    one, two, three, four = points
    (x1, y1), (x2, y2) = _between(one, two, three, at), _between(two, three, four, at)
    return x1 + (x2 - x1) * at, y1 + (y2 - y1) * at


# -- layout


def _placed(drawing: Drawing) -> dict[str, _Box]:
    """Return the nodes as boxes that do not overlap. Those without edges stand below the others."""
    linked = {end for edge in drawing.edges for end in (edge.source, edge.target)}
    columns = max(1, round(sqrt(len(linked) or len(drawing.nodes))))
    boxes = {node.id: _Box(node, 0.0, 0.0) for node in drawing.nodes}
    if not boxes:
        return {}
    tied = [box for id_, box in boxes.items() if id_ in linked]
    labels = [display_width(fitted(escaped(edge.label), _LONGEST)) * _LABEL_CELL for edge in drawing.edges]
    wide = max(box.wide for box in boxes.values()) + max(50.0, *labels, 0.0)
    high = max(box.high for box in boxes.values()) + 60.0
    for at, box in enumerate(tied):
        box.x, box.y = at % columns * wide, at // columns * high
    pulls = sorted({(edge.source, edge.target) for edge in drawing.edges if edge.source != edge.target})
    if tied:
        _settle(tied, [(boxes[source], boxes[target]) for source, target in pulls], wide, high)
        _push_apart(tied, _room(drawing.edges))
    _in_rows([box for id_, box in boxes.items() if id_ not in linked], tied)
    for box in boxes.values():
        box.x, box.y = round(box.x), round(box.y)
    return boxes


def _in_rows(boxes: Sequence[_Box], above: Sequence[_Box]) -> None:
    """Put boxes in rows below others, about as wide as those are, or as high as wide if there are none."""
    left = min((box.area.left for box in above), default=0.0)
    top = max((box.area.bottom for box in above), default=0.0) + 2 * _GAP
    room = max(
        max((box.area.right for box in above), default=0.0) - left, sqrt(sum((box.wide + _GAP) * (box.high + _GAP) * 1.6 for box in boxes))
    )
    x, highest = left, 0
    for box in boxes:
        if x > left and x + box.wide > left + room:
            x, top, highest = left, top + highest + _GAP, 0
        box.x, box.y = x + box.wide / 2, top + box.high / 2
        x, highest = x + box.wide + _GAP, max(highest, box.high)


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


def _room(edges: Sequence[DrawnEdge]) -> dict[tuple[str, str], float]:
    """Return how far apart two boxes side by side must be, so that there is room for a label and the ends of its line."""
    room: dict[tuple[str, str], float] = {}
    for edge in edges:
        wide = display_width(fitted(escaped(edge.label), _LONGEST)) * _LABEL_CELL + 2 * _GAP
        for ends in ((edge.source, edge.target), (edge.target, edge.source)):
            room[ends] = max(wide, room.get(ends, 0.0))
    return room


def _push_apart(boxes: list[_Box], room: Mapping[tuple[str, str], float]) -> None:
    """Move boxes that overlap, or nearly do, along the shorter way, until none does."""
    for _ in range(200):
        moved = False
        for number, one in enumerate(boxes):
            for other in boxes[number + 1 :]:
                between = room.get((one.node.id, other.node.id), _GAP)
                over_x = (one.wide + other.wide) / 2 + between - abs(one.x - other.x)
                over_y = (one.high + other.high) / 2 + 2 * _GAP - abs(one.y - other.y)
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
