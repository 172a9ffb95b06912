"""The power goes while a writer stands at a fault point, or after it was done: what was acknowledged is there, and the graph goes on.

At each point the disk is copied twice: as it is, and after a foreign fsync, which makes names durable whose bytes are not. By
default at the telling points of each writer; at all points that it passes with `./test --all`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import Fault
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from tests.crash.disks import Disk, new_disk
from tests.crash.failing import GRAPH, NEXT, SCHEMA, WORK, Images, branched, differences, images, without_next
from tests.crash.powercut import TELLING, WRITERS, Endless, Writer, arrivals, die, standing
from tests.samples import sample

pytestmark = pytest.mark.crash

EVERY = bool(sample(0, whole=1))
MOMENTS = range(3, 60, sample(9, whole=1))
"""After how many acknowledged writes the power is cut, at the moment when that is noticed."""


@pytest.fixture
def empty(tmp_path: Path) -> Disk:
    if (disk := new_disk(tmp_path)) is None:
        pytest.skip("only root may mount a disk, and not everywhere")
    return disk


@pytest.mark.parametrize("writer", WRITERS, ids=[writer.name for writer in WRITERS])
def test_the_power_is_cut(tmp_path: Path, empty: Disk, writer: Writer) -> None:
    start = empty.copy("start")
    with start.mounted() as at:
        writer.world(at)
        allowed = {"before": images(at)}
    with start.copy("twin").mounted() as at:
        if writer.died_at is not None:
            die(writer, at)
            og.open(at / GRAPH)
            allowed["healed"] = images(at)
    with start.copy("twin").mounted() as at:
        if writer.died_at is not None:
            die(writer, at)
        points = [(point, nth) for point, nth in arrivals(writer, at, tmp_path / "log") if point in TELLING or EVERY]
        allowed["after"] = images(at)
    wrong = [problem for point, nth in (*points, (None, 1)) for problem in cuts_at(start, writer, point, nth, allowed)]
    assert not wrong, "\n".join(wrong)


def cuts_at(start: Disk, writer: Writer, point: Fault | None, nth: int, allowed: dict[str, Images]) -> list[str]:
    """When the writer comes by the point for the `nth` time, or, for None, when it is done: cut the power, and look."""
    disk = start.copy("running")
    with disk.mounted() as at:
        if writer.died_at is not None:
            die(writer, at)
        with standing(writer, at, point, nth) as acknowledged:
            assert acknowledged is (point is None)
            cuts = cut(disk, "")
    moment = "acknowledged" if point is None else f"{point.value}, {nth}. time"
    shown = {"after": allowed["after"]} if acknowledged else allowed
    return [f"{moment}{how}: {problem}" for how, copy in cuts.items() for problem in problems(copy, shown)]


def cut(disk: Disk, name: str) -> dict[str, Disk]:
    """The disk as it would be found, and as it would be found had somebody else called fsync before."""
    quiet = disk.copy(f"quiet{name}")
    disk.foreign_fsync()
    return {"": quiet, " and a foreign fsync": disk.copy(f"foreign{name}")}


def test_the_power_is_cut_at_any_moment(tmp_path: Path, empty: Disk) -> None:
    """A writer writes on and on; whatever it had logged as acknowledged by the time of a cut is there, and at most one write more."""
    cuts: list[tuple[list[str], str, Disk]] = []
    with empty.mounted() as at:
        branched(at)
        writer = Endless(at, tmp_path / "log")
        try:
            for acknowledged in MOMENTS:
                logged = writer.stop_after(acknowledged)
                cuts += [(logged, how, copy) for how, copy in cut(empty, str(acknowledged)).items()]
        finally:
            writer.kill()
    wrong = [f"after {len(logged)} writes{how}: {problem}" for logged, how, copy in cuts for problem in lost(copy, logged)]
    assert not wrong, "\n".join(wrong)


def lost(disk: Disk, logged: list[str]) -> list[str]:
    """What is wrong with the graph of a writer that had logged these writes."""
    found: list[str] = []
    with disk.mounted() as at:
        try:
            graph = og.open(at / GRAPH)
            for branch in (MAIN, WORK):
                shown = {key.partition("-")[0] for key in keys(graph, branch) if "-" in key}
                acknowledged = {line.split()[1] for line in logged if line.split()[0] == branch}
                if missing := acknowledged - shown:
                    found.append(f"{branch} lacks {sorted(missing)}")
                if len(extra := shown - acknowledged) > 1:
                    found.append(f"{branch} has {sorted(extra)}")
            graph.mutate(NEXT)
            found += [f"verify: {finding}" for finding in graph.verify() if finding.severity == "error"]
        except Exception as error:  # noqa: BLE001  # reported with the rest
            found.append(f"{type(error).__name__}: {error}")
    return found


def keys(graph: Graph, branch: str) -> set[str]:
    lines = [json.loads(line) for line in graph.export(branch, types=["P"])]
    return {line["data"]["k"] for line in lines}


def problems(disk: Disk, allowed: dict[str, Images]) -> list[str]:
    """What is wrong with the graph on a disk after the cut."""
    found: list[str] = []
    with disk.mounted() as at:
        try:
            if (seen := images(at)) not in allowed.values():
                found.append(f"a reader sees neither: {differences(seen, allowed)}")
            graph = og.open(at / GRAPH) if seen[GRAPH] is not None else og.init(at / GRAPH, schema=SCHEMA)
            healed = images(at)
            if seen[GRAPH] is not None and healed not in allowed.values():
                found.append(f"when healed it shows neither: {differences(healed, allowed)}")
            graph.mutate(NEXT)
            if without_next(images(at)) != healed:
                found.append("the next write changed more than its own")
            found += [f"verify: {finding}" for finding in graph.verify() if finding.severity == "error"]
            found += [f"an intent is left: {intent.operation}" for intent in intents.pending(graph.engine.manifest.root.objects)]
        except Exception as error:  # noqa: BLE001  # reported with the rest
            found.append(f"afterwards: {type(error).__name__}: {error}")
    return found
