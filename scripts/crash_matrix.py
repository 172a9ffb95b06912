"""`python -m scripts.crash_matrix`: tests/crash/{matrix,failing,powercut}.py -> docs/dev/crash-matrix.md. Run it after a change."""

from __future__ import annotations

from pathlib import Path

from omnigraph.faults import Fault
from tests.crash import failing, matrix, powercut
from tests.crash.failing import FAILURES, Failure, Heard
from tests.crash.matrix import Point, Writer, points
from tests.crash.test_load import ROWS
from tests.crash.test_merge import CASES
from tests.crash.test_repair import WRITER as REPAIR

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dev" / "crash-matrix.md"

WRITERS = (*matrix.WRITERS, *(row.writer for row in ROWS), *(case.writer for case in CASES), REPAIR)

HEAD = """# The crash matrix

Every writer is stopped at every boundary between two durable effects, runs with every failing system call, and meets a power cut.
`python -m scripts.crash_matrix` generates this page from `tests/crash/matrix.py`, `failing.py` and `powercut.py`; a test checks
that it is current.

## Stopped at a boundary

`tests/crash/test_matrix.py` tests each case three times: with a process that is killed, with a simulated crash inside the process,
and with an error that the writer receives; without `--all` every case is killed, and has one of the other two. `test_interrupt.py`
interrupts one writer at each boundary; `tests/contract/test_write_s3.py` kills and pauses it on S3; `tests/crash/test_load.py`,
`test_merge.py` and `test_repair.py` crash loads, merges, reverts, the ends of transactions and repairs at every boundary, and
`test_transaction.py` kills processes inside transactions.
After each test the graph shows the state before or after the write, HEAD matches the visible tables, no intent is left, a write to a
branch has not changed main, and the next write succeeds.

| outcome | state of the graph | resolved by |
|---|---|---|
| before | before the write | no action needed: nothing refers to the effects |
| undone | before the write | the next or the failing writer: tables restored, native branches removed, one recovery record |
| finished | after the write | the next or the failing writer: published under the commit id of the write, one recovery record |
| after | after the write | no action needed: it was published; at most a spent intent is removed |

The boundaries, by the name of their fault point (x2: passed a second time):
"""

FAILING = """
## A system call fails, or the power is cut

`tests/crash/test_syscalls.py` fails one system call on the files of the graph: a kernel filter passes the calls to `shim.c`, which
counts them by class and fails the n-th. `./test crash` fails the last call on each kind of file, `./test crash --all` every call.
After each test a reader sees the state before or after the write, the next write succeeds on the same handle and in another
process, `verify` finds nothing, and no intent is left.

| result | the caller gets | state of the graph |
|---|---|---|
| receipt | success: the call was not needed, or was retried | after |
| error | a typed error: the write did not happen | before |
| happened | a typed error: the write happened, and a later step failed | after |
| unknown | a typed error: the write may have happened | before or after; the next writer resolves an intent that is left |
"""

POWER = """
**Power cut** (`tests/crash/test_powercut.py`): the graph is on an ext4 file system of its own. At a fault point, and after the
receipt, the raw disk is copied twice: at once, and after an fsync by another process, which can make names durable before their
bytes. Both copies mount, show the state before or after the write (after, if it was acknowledged), pass `verify`, and accept a
write. The fault points are {points}; with `--all`, every one of the writer. A writer in a loop is also cut off at random times.
`tests/crash/test_full_disk.py` covers disks that are full for a moment and files that cannot grow.
"""
WORDS = {Heard.RECEIPT: "receipt", Heard.DID_NOT_HAPPEN: "error", Heard.HAPPENED: "happened", Heard.UNKNOWN: "unknown"}
OUTCOMES = ("before", "undone", "finished", "after")


def page() -> str:
    columns = _columns()
    number = {column: at for at, column in enumerate(columns, start=1)}
    telling = ", ".join(f"`{point.value}`" for point in Fault if point in powercut.TELLING)
    parts = [HEAD, _boundaries(columns), "", *_matrix(number), FAILING, *_failing(), POWER.format(points=telling), _writers()]
    return "\n".join(parts) + "\n"


def _failing() -> list[str]:
    rows = []
    for failure in FAILURES:
        spared = [writer.name for writer in failing.WRITERS if failure.call not in writer.calls]
        rows.append(f"| {failure.name} | {_heard(failure)} | {', '.join(spared)} |")
    return ["| failure | possible results | writers without such a call |", "|---|---|---|", *rows]


def _writers() -> str:
    both = [writer.name for writer in failing.WRITERS]
    cut = [writer.name for writer in powercut.WRITERS]
    only = [name for name in cut if name not in both]
    assert set(both) <= set(cut)
    return f"The writers: {'; '.join(both)}. With a power cut also: {'; '.join(only)}."


def _heard(failure: Failure) -> str:
    return ", ".join(word for heard, word in WORDS.items() if heard in failure.hears)


def _columns() -> list[tuple[str, int]]:
    """Return all boundaries in the order in which a write passes them: those of the longest path, and those that only others pass."""
    columns: list[tuple[str, int]] = []
    for path in sorted((points(writer) for writer in WRITERS), key=len, reverse=True):
        at = 0
        for point in path:
            column = point.fault.value, point.nth
            if column not in columns:
                columns.insert(at, column)
            at = columns.index(column) + 1
    return columns


def _boundaries(columns: list[tuple[str, int]]) -> str:
    return ", ".join(f"{at} `{fault}`{f' x{nth}' if nth > 1 else ''}" for at, (fault, nth) in enumerate(columns, start=1)) + "."


def _matrix(number: dict[tuple[str, int], int]) -> list[str]:
    """Return one row for all writers that pass the same boundaries with the same outcomes."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for writer in WRITERS:
        rows.setdefault(_cells(writer, number), []).append(writer.name)
    return [
        f"| writer | {' | '.join(OUTCOMES)} |",
        f"|---|{'---|' * len(OUTCOMES)}",
        *(f"| {'; '.join(names)} | {' | '.join(cells)} |" for cells, names in rows.items()),
    ]


def _cells(writer: Writer, number: dict[tuple[str, int], int]) -> tuple[str, ...]:
    met = points(writer)
    return tuple(_ranges([number[point.fault.value, point.nth] for point in met if _outcome(point) == outcome]) for outcome in OUTCOMES)


def _ranges(numbers: list[int]) -> str:
    """Join numbers that follow each other: 1, 2, 3, 7 -> 1-3, 7."""
    runs: list[tuple[int, int]] = []
    for at in sorted(numbers):
        if runs and runs[-1][1] == at - 1:
            runs[-1] = (runs[-1][0], at)
        else:
            runs.append((at, at))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _outcome(point: Point) -> str:
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
