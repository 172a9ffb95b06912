"""tests/crash/{matrix,failing,powercut}.py -> docs/dev/crash-matrix.md, by `python -m scripts.crash_matrix` when one of them changes."""

from __future__ import annotations

from pathlib import Path

from omnigraph.faults import Fault
from tests.crash import failing, matrix, powercut
from tests.crash.failing import FAILURES, Failure, Heard
from tests.crash.matrix import Point, Writer, points
from tests.crash.test_load import ROWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dev" / "crash-matrix.md"

WRITERS = (*matrix.WRITERS, *(row.writer for row in ROWS))

HEAD = """# The crash matrix

Every writer, stopped at every boundary between two durable effects; and every writer, with a system call that fails, or when the
power is cut. Written by `python -m scripts.crash_matrix` from `tests/crash/matrix.py`, `failing.py` and `powercut.py`; a test
keeps page and tests equal.

## Stopped at a boundary

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

FAILING = """
## A system call fails, or the power is cut

Each writer below, with one of its system calls on the graph's files failing (`tests/crash/test_syscalls.py`: a filter in the kernel hands
the calls to `shim.c`, which counts them by class and fails the n-th; `./test crash` tries the last call on each kind of file,
`./test crash --all` every call). A cell says what the caller may hear; empty: the writer makes no such call. Afterwards, always: a reader
sees before or after, the next write works (on the same handle, or in another process), `verify` is clean and no intent is left.

| word | what the caller hears | what the graph shows |
|---|---|---|
| receipt | it is done: nothing rests on what failed, or it was done again | after |
| error | a typed error: it did not happen | before (a recovery: what the next writer makes of it, which is the same) |
| happened | a typed error after the fact: it is done, and what comes after it is not | after |
| unknown | a typed error: it may have happened | before or after; the next writer settles an intent that is left |
| whole | nothing: the power is gone | before or after; after, once it was acknowledged |

**Power cut** (`tests/crash/test_powercut.py`): the graph lies on an ext4 of its own. At a fault point, and after the receipt, the raw disk
is copied twice: as it is, and after somebody else's fsync, which makes names durable whose bytes are not. Both copies mount,
show before or after (after, once acknowledged), verify, and take a write. With `--all` that is done at every point that the writer
passes; by default at
{points}.
A writer that writes on and on is cut off at any moment, too. Disks that are full for a moment, and files that may not grow, are
in `tests/crash/test_full_disk.py`.
"""
WORDS = {Heard.RECEIPT: "receipt", Heard.DID_NOT_HAPPEN: "error", Heard.HAPPENED: "happened", Heard.UNKNOWN: "unknown"}
POWER = "power cut"


def page() -> str:
    columns = _columns()
    number = {column: at for at, column in enumerate(columns, start=1)}
    telling = ", ".join(f"`{point.value}`" for point in Fault if point in powercut.TELLING)
    parts = [HEAD, *_boundaries(columns), "", *_matrix(number), FAILING.format(points=telling), *_failing()]
    return "\n".join(parts) + "\n"


def _failing() -> list[str]:
    heads = [*(failure.name for failure in FAILURES), POWER]
    cut = [writer.name for writer in powercut.WRITERS]
    calls = {writer.name: writer.calls for writer in failing.WRITERS}
    rows = []
    for name in dict.fromkeys([*calls, *cut]):
        cells = [_heard(failure) if failure.call in calls.get(name, ()) else "" for failure in FAILURES]
        rows.append(f"| {name} | {' | '.join([*cells, 'whole' if name in cut else ''])} |")
    return [f"| writer | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}", *rows]


def _heard(failure: Failure) -> str:
    return ", ".join(word for heard, word in WORDS.items() if heard in failure.hears)


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
