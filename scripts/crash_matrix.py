"""`python -m scripts.crash_matrix`: tests/crash/{matrix,failing,powercut}.py -> docs/dev/crash-matrix.md. Run it after a change."""

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

Every writer is stopped at every boundary between two durable effects. Every writer also runs with a failing system call, and with a
power cut. `python -m scripts.crash_matrix` generates this page from `tests/crash/matrix.py`, `failing.py` and `powercut.py`; a test
checks that it is current.

## Stopped at a boundary

`tests/crash/test_matrix.py` (part of `./test crash`) tests each cell three times: with a simulated crash inside the process, with an
error that the writer receives, and with a process that is killed. The writer of two tables on main is also interrupted at each
boundary (`test_interrupt.py`). On a real S3 server it is killed and suspended at selected boundaries
(`tests/contract/test_write_s3.py`). Loads (`tests/crash/test_load.py`) crash inside the process at every boundary, and are killed at
selected boundaries, on a disk and on S3, for each kind of source. After each test: the graph is in the state before or after the write,
HEAD matches the visible tables, no intent is left, a write to a branch has not changed main, and the next write succeeds.

| cell | final state of the graph | resolved by |
|---|---|---|
| before | the state before the write | no action needed: nothing refers to the effects |
| undone | the state before the write | the next or the failing writer: tables restored, native branches removed, one recovery record |
| finished | the state after the write | the next or the failing writer: published under the commit id of the write, one recovery record |
| after | the state after the write | no action needed: it was published; at most a spent intent is removed |
"""

FAILING = """
## A system call fails, or the power is cut

In each writer below, one system call on the files of the graph fails (`tests/crash/test_syscalls.py`: a kernel filter passes the calls to
`shim.c`, which counts them by class and fails the n-th; `./test crash` fails the last call on each kind of file, `./test crash --all`
every call). A cell lists the possible results for the caller. It is empty if the writer makes no such call. After each test: a reader
sees the state before or after the write, the next write succeeds (on the same handle and in another process), `verify` finds nothing,
and no intent is left.

| word | result for the caller | state of the graph |
|---|---|---|
| receipt | success: the failed call was not needed, or it was retried | after |
| error | a typed error: the write did not happen | before (for a recovery: the state that the next writer makes, which is the same) |
| happened | a typed error: the write happened, and a later step failed | after |
| unknown | a typed error: the write may have happened | before or after; the next writer resolves an intent that is left |
| whole | none: the power is cut | before or after; after, if the write was acknowledged |

**Power cut** (`tests/crash/test_powercut.py`): the graph is on an ext4 file system of its own. At a fault point, and after the receipt, the
raw disk is copied twice: at once, and after an fsync by another process, which can make names durable before their bytes. Both copies
mount, show the state before or after the write (after, if it was acknowledged), pass `verify`, and accept a write. With `--all` this is
done at every fault point of the writer; by default at
{points}.
A writer in a loop is also cut off at random times. `tests/crash/test_full_disk.py` covers disks that are temporarily full and files that
cannot grow.
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
    """Return all boundaries in the order in which a write passes them. The longest path contains every shorter one."""
    longest = max((points(writer) for writer in WRITERS), key=len)
    columns = [(point.fault.value, point.nth) for point in longest]
    assert all((point.fault.value, point.nth) in columns for writer in WRITERS for point in points(writer))
    return columns


def _boundaries(columns: list[tuple[str, int]]) -> list[str]:
    return [
        "| | boundary (a fault point, and the number of the pass) |",
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
