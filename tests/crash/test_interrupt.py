"""Ctrl-C in a writer, and callers that go away: before the intent is armed nothing is left, after it somebody finishes the write."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import pytest

from omnigraph.exec.engine import Engine
from omnigraph.exec.write.protocol import Prepared, Request, Upsert, Written, write
from omnigraph.faults import Fault
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.read import BranchSnapshot, Manifest
from tests.crash.matrix import ALIASES, WRITERS, Point, check, content, images, points, prepare
from tests.crasher import asleep
from tests.graphs import COMPANY, PERSON, ids_in, make, people, row_of

TWO_TABLES = next(writer for writer in WRITERS if writer.name == "two tables, main")
BEFORE_ARMING = (Fault.WRITE_PREPARED, Fault.WRITE_BEFORE_ARM, Fault.OBJECT_BEFORE_LINK)


def ready(folder: Path) -> Manifest:
    manifest = make(folder / "g", *ALIASES)
    prepare(manifest, TWO_TABLES)
    return manifest


@pytest.mark.crash
@pytest.mark.parametrize("point", points(TWO_TABLES), ids=lambda point: f"{point.fault.value}:{point.nth}")
def test_an_interrupt_leaves_nothing_or_an_intent_that_the_next_writer_resolves(tmp_path: Path, point: Point) -> None:
    """W-07: An interrupted writer frees its locks; the graph is before or after, at worst with an intent for the next writer."""
    manifest = ready(tmp_path)
    with asleep(f"matrix {WRITERS.index(TWO_TABLES)}", manifest.root.uri, point.fault, nth=point.nth) as sleeper:
        assert sleeper.interrupt() == -signal.SIGINT
    assert len(intents.pending(manifest.root.objects)) == (0 if point.fault in BEFORE_ARMING else 1)
    visible = point.lands and not point.resolved
    assert content(manifest, MAIN) == (images(TWO_TABLES).after if visible else images(TWO_TABLES).before)
    check(manifest, TWO_TABLES, lands=point.lands, resolved=point.resolved)


def test_a_write_whose_caller_went_away_finishes(tmp_path: Path) -> None:
    """W-02: A write whose caller is cancelled lands whole or not at all.

    Also W-07.
    """
    manifest = ready(tmp_path)
    begun, abandoned = threading.Event(), threading.Event()

    def slow(snapshot: BranchSnapshot) -> Prepared:
        begun.set()
        abandoned.wait()
        return Prepared({row_of(manifest, alias).id: Upsert(people("late")) for alias in ALIASES})

    def work() -> Written:
        return write(Engine(manifest), Request(CommitKind.MUTATE), slow)

    async def caller() -> None:
        task = asyncio.create_task(asyncio.to_thread(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "late" not in ids_in(manifest)
        abandoned.set()

    asyncio.run(caller())  # waits for its threads, as an interpreter that ends does
    assert "late" in ids_in(manifest, alias=PERSON) & ids_in(manifest, alias=COMPANY)
    assert intents.pending(manifest.root.objects) == []
