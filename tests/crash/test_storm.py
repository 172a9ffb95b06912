"""Four processes write, are killed at any moment and come back; afterwards no write is lost, halved or doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import omnigraph as og
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import Resolution
from omnigraph.store.objects import open_objects
from tests.crash.storm import ACCOUNT, SCHEMA, AboutTo, Acknowledged, Image, Line, look, problems, read_log, say
from tests.crash.storm_child import DIE_BETWEEN, PUT
from tests.crasher import TTL_SECONDS
from tests.forks import Forked
from tests.s3 import S3Server
from tests.samples import sample

STORM_SECONDS = sample(20, whole=600)
S3_SECONDS = sample(15, whole=600)
WRITERS = 4
PAUSE_SECONDS = 1.0
"""The mean time between two kills. Only their number rests on it, no assertion."""
TOO_MANY_KILLS = 1_000
POINTS = (Fault.WRITE_ARMED, Fault.STAGE_AFTER_COMMIT, Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED, Fault.PUBLISH_AFTER_COMMIT)

pytestmark = pytest.mark.crash


class Place(NamedTuple):
    """Where the graph is."""

    uri: str
    options: dict[str, str]


class Storm:
    """The writers of one graph: each has a log, and is started again under the same name when it was killed."""

    def __init__(self, folder: Path, style: str, *, doom: Callable[[random.Random], dict[str, str]], place: Place | None = None) -> None:
        self.place = place or Place(str(folder / "g"), {})
        og.init(self.place.uri, schema=SCHEMA, storage_options=self.place.options)
        self.chance = random.Random(style)
        self.kills = 0
        self._folder = folder
        self._style = style
        self._doom = doom
        self._lives: Counter[int] = Counter()
        self._quiet: dict[int, int] = {}
        self._running: dict[int, Forked] = {}

    @contextmanager
    def blowing(self) -> Iterator[None]:
        """All writers run inside this block; none after it."""
        try:
            for at in range(WRITERS):
                self._start(at)
            yield
        finally:
            for process in self._running.values():
                process.kill()
                process.wait()

    def strike(self) -> None:
        """Kill a writer that has begun to write in this life, if there is one."""
        if busy := [at for at in self._running if self._log(at).stat().st_size > self._quiet[at]]:
            struck = self._running[self.chance.choice(busy)]
            struck.kill()
            struck.wait()
        self.mourn()

    def rage(self, seconds: float, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        """Strike for so long, and until somebody was recovered each way: never the clock alone, for that would prove little."""
        ends = time.monotonic() + seconds
        with self.blowing():
            while time.monotonic() < ends or set(outcomes(self.look())) != {Resolution.ROLLED_FORWARD, Resolution.ROLLED_BACK}:
                time.sleep(self.chance.uniform(0, 2 * pause_seconds))
                self.strike()
                assert self.kills < TOO_MANY_KILLS, "all these deaths, and not once forward and once back"

    def look(self) -> Image:
        return look(self.place.uri, options=self.place.options)

    def problems(self) -> list[str]:
        """After one more write: whatever the dead left, it resolves."""
        log = self._folder / "test.log"
        one_more_write(self.place, log)
        return problems([*self.said(), *read_log(log)], self.look())

    def said(self) -> list[Line]:
        return [line for at in range(WRITERS) for line in read_log(self._log(at))]

    def mourn(self) -> None:
        """Start again whoever is dead. Who ended otherwise than by a kill has found a bug."""
        for at, process in list(self._running.items()):
            if (code := process.poll()) is not None:
                assert code == -signal.SIGKILL, process.errors()
                self.kills += 1
                self._start(at)

    def die_out(self) -> None:
        """Wait until every writer has died by its own hand. None is started again."""
        for process in self._running.values():
            assert process.wait() == -signal.SIGKILL, process.errors()

    def _start(self, at: int) -> None:
        self._lives[at] += 1
        self._log(at).touch()
        self._quiet[at] = self._log(at).stat().st_size
        who = (str(self._log(at)), f"w{at}", str(self._lives[at]))
        environment = {**os.environ, **self._doom(self.chance)}
        options = json.dumps(self.place.options)
        self._running[at] = Forked("tests.crash.storm_child", self._style, self.place.uri, *who, options, environment=environment)

    def _log(self, at: int) -> Path:
        return self._folder / f"w{at}.log"


def sometimes_at_a_fault_point(chance: random.Random) -> dict[str, str]:
    """Most lives end by themselves at a boundary of the protocol, which a random moment meets too rarely."""
    return {} if chance.random() < 0.4 else {ENVIRONMENT: f"{chance.choice(POINTS).value}=kill:{chance.randrange(1, 30)}"}


def soon_at_a_fault_point(chance: random.Random) -> dict[str, str]:
    """Every life ends by itself: where a lease outlives its holder, random moments mostly meet those who wait for it."""
    return {ENVIRONMENT: f"{chance.choice(POINTS).value}=kill:{chance.randrange(1, 8)}"}


def outcomes(image: Image) -> Counter[Resolution]:
    return Counter(recovery.outcome for recovery in image.recoveries)


def one_more_write(place: Place, log: Path) -> None:
    line = AboutTo("one more", 0, "one more", (ACCOUNT,), "the test")
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    say(out, line)
    graph = og.open(place.uri, storage_options=place.options)
    commit = graph.mutate(PUT, "alone", {"name": line.key, "value": line.value, "token": line.token}, token=line.token).commit
    assert commit is not None
    say(out, Acknowledged(line.token, commit.id))
    os.close(out)


def test_no_write_is_lost_in_a_storm(tmp_path: Path) -> None:
    """W-02, W-07, C-09, REC-09, RT-04, RT-06: acknowledged is there, in commit order; half is nowhere; HEAD is what is shown."""
    storm = Storm(tmp_path, "mutate", doom=sometimes_at_a_fault_point)
    storm.rage(STORM_SECONDS)
    assert storm.problems() == []
    image, acked = storm.look(), sum(isinstance(line, Acknowledged) for line in storm.said())
    print(f"\n{acked} writes acknowledged, {len(image.commits)} commits, {storm.kills + WRITERS} kills, recoveries {dict(outcomes(image))}")


@pytest.mark.s3
def test_no_write_is_lost_in_a_storm_on_s3(s3_server: S3Server, s3_uri: str, tmp_path: Path) -> None:
    """W-02, C-09, REC-09: the same, with leases that end after those who held them."""
    place = Place(s3_uri, s3_server.storage_options)
    locks = Locks.of(open_objects(place.uri, storage_options=place.options), ttl_seconds=TTL_SECONDS)
    storm = Storm(tmp_path, "mutate", doom=soon_at_a_fault_point, place=place)
    storm.rage(S3_SECONDS, pause_seconds=5 * TTL_SECONDS)
    assert storm.problems() == []
    del locks


def test_the_same_storm_finds_the_rows_that_a_delete_and_an_add_lose(tmp_path: Path) -> None:
    """W-01: An update is one commit. Here it is a delete and an insert, and the checker finds the lost rows.

    The checker can fail. Every writer dies between the two commits of an update of a key that only this life writes, and
    nowhere else: it keeps no intent, so a death between a table and the manifest would leave drift that nothing explains.
    """
    storm = Storm(tmp_path, "delete_then_add", doom=lambda chance: {DIE_BETWEEN: "1"})
    with storm.blowing():
        storm.die_out()
    found = storm.problems()
    assert any(problem.startswith("lost row") and "acknowledged" in problem for problem in found), found
