"""tests/crash/matrix.py -> docs/dev/crash-matrix.md. Run it when a writer or a boundary changes: `python -m scripts.crash_matrix`."""

from __future__ import annotations

from pathlib import Path

from tests.crash import matrix
from tests.crash.matrix import Point, Writer, points
from tests.crash.test_load import ROWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dev" / "crash-matrix.md"

WRITERS = (*matrix.WRITERS, *(row.writer for row in ROWS))

HEAD = """# The crash matrix

Every writer, stopped at every boundary between two durable effects. Written by `python -m scripts.crash_matrix` from
`tests/crash/matrix.py`; a test keeps the two equal.

Each cell is tried three times by `tests/crash/test_matrix.py` (`./test crash` runs it, with the rest): as a death inside
the process, as a failure that the writer hears of, and as a real process that is killed. The two-table writer on main is
also interrupted at each (`test_interrupt.py`), and on a real S3 server killed and put to sleep at the telling ones
(`tests/contract/test_write_s3.py`). Loads (`tests/crash/test_load.py`) die inside the process at every boundary and are killed for
real, on a disk and on S3, at the telling ones; and so from each kind of source. Afterwards, always: the graph is before or
after, HEAD is what is shown, no intent is left, main has seen nothing of a branch, and the next write works.

| cell | what the graph shows in the end | who sees to it |
|---|---|---|
| before | as if the write had never begun | nobody needs to: no effect has a name yet |
| undone | as before | the next writer, or the failing writer itself: tables restored, native branches removed, one record |
| finished | as after | the same: published under the writer's own commit, one record |
| after | as after | nobody: it was published; at most a spent intent is removed |
"""


def page() -> str:
    columns = _columns()
    number = {column: at for at, column in enumerate(columns, start=1)}
    return "\n".join([HEAD, *_boundaries(columns), "", *_matrix(number)]) + "\n"


def _columns() -> list[tuple[str, int]]:
    """All boundaries, in the order in which a write meets them: the longest way holds every shorter one."""
    longest = max((points(writer) for writer in WRITERS), key=len)
    columns = [(point.fault.value, point.nth) for point in longest]
    assert all((point.fault.value, point.nth) in columns for writer in WRITERS for point in points(writer))
    return columns


def _boundaries(columns: list[tuple[str, int]]) -> list[str]:
    return [
        "| | boundary (a fault point, and which arrival at it) |",
        "|---|---|",
        *(f"| {at} | `{fault}`{f', {nth}. time' if nth > 1 else ''} |" for at, (fault, nth) in enumerate(columns, start=1)),
    ]


def _matrix(number: dict[tuple[str, int], int]) -> list[str]:
    heads = [str(at) for at in number.values()]
    return [
        f"| writer | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *(f"| {writer.name} | {' | '.join(_cells(writer, number))} |" for writer in WRITERS),
    ]


def _cells(writer: Writer, number: dict[tuple[str, int], int]) -> list[str]:
    met = {(point.fault.value, point.nth): _cell(point) for point in points(writer)}
    return [met.get(column, "") for column in number]


def _cell(point: Point) -> str:
    match point.lands, point.resolved:
        case False, False:
            return "before"
        case False, True:
            return "undone"
        case True, True:
            return "finished"
        case _:
            return "after"


if __name__ == "__main__":
    PAGE.write_text(page())
