"""The power goes while a writer stands at a fault point, or after it was done: what was acknowledged is there, and the graph goes on.

At each point the disk is copied twice: as it is, and after a foreign fsync, which makes names durable whose bytes are not. By
default at the telling points of each writer; at all points that it passes with `OMNIGRAPH_TEST_ALL=1`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import Fault
from omnigraph.manifest import intents
from tests.crash.disks import Disk, new_disk
from tests.crash.failing import GRAPH, NEXT, SCHEMA, Images, differences, images, without_next
from tests.crash.powercut import TELLING, WRITERS, Writer, die, standing

pytestmark = pytest.mark.crash

POINTS = [point for point in Fault if point in TELLING or os.environ.get("OMNIGRAPH_TEST_ALL")]


@pytest.mark.parametrize("writer", WRITERS, ids=[writer.name for writer in WRITERS])
def test_the_power_is_cut(tmp_path: Path, writer: Writer) -> None:
    if (empty := new_disk(tmp_path)) is None:
        pytest.skip("only root may mount a disk, and not everywhere")
    start = empty.copy(tmp_path / "start.img")
    with start.mounted() as at:
        writer.world(at)
        before = images(at)
    with start.copy(tmp_path / "twin.img").mounted() as at:
        if writer.died_at is not None:
            die(writer, at)
        with standing(writer, at, None, 1) as acknowledged:
            assert acknowledged
        after = images(at)
    wrong: list[str] = []
    for point in (*POINTS, None):
        wrong += cuts_at(start, writer, point, before, after)
    assert not wrong, "\n".join(wrong)


def cuts_at(start: Disk, writer: Writer, point: Fault | None, before: Images, after: Images) -> list[str]:
    """Each time that the writer comes by the point, or None for its end: cut the power, and look."""
    wrong: list[str] = []
    nth = 0
    acknowledged = False
    while not acknowledged:
        nth += 1
        disk = start.copy(start.image.with_name("cut.img"))
        with disk.mounted() as at:
            if writer.died_at is not None:
                die(writer, at)
            with standing(writer, at, point, nth) as acknowledged:
                if acknowledged and point is not None:
                    break  # it does not come by (again)
                cuts = {"": disk.copy(start.image.with_name("quiet.img"))}
                disk.foreign_fsync()
                cuts[" and a foreign fsync"] = disk.copy(start.image.with_name("foreign.img"))
        allowed = {"after": after} if acknowledged else {"before": before, "after": after}
        for how, cut in cuts.items():
            moment = f"{point.value}, {nth}. time" if point is not None else "acknowledged"
            wrong += [f"{moment}{how}: {problem}" for problem in problems(cut, allowed)]
    return wrong


def problems(disk: Disk, allowed: dict[str, Images]) -> list[str]:
    """What is wrong with the graph on a disk after the cut."""
    found: list[str] = []
    with disk.mounted() as at:
        try:
            if (seen := images(at)) not in allowed.values():
                found.append(f"a reader sees neither: {differences(seen, allowed)}")
            graph = og.open(at / GRAPH) if seen[GRAPH] is not None else og.init(at / GRAPH, schema=SCHEMA)
            if (seen := images(at)) not in allowed.values() and None not in (seen[GRAPH], *(image[GRAPH] for image in allowed.values())):
                found.append(f"when healed it shows neither: {differences(seen, allowed)}")
            graph.mutate(NEXT)
            if without_next(images(at)) != seen:
                found.append("the next write changed more than its own")
            found += [f"verify: {finding}" for finding in graph.verify() if finding.severity == "error"]
            found += [f"an intent is left: {intent.operation}" for intent in intents.pending(graph._manifest.root.objects)]
        except Exception as error:  # noqa: BLE001  # reported with the rest
            found.append(f"afterwards: {type(error).__name__}: {error}")
    return found
