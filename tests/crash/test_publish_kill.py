"""SIGKILL at random moments of a publish loop: the graph is at the last acknowledged commit, or at the one being written."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.manifest.read import Manifest
from tests.graphs import make, note, reopen
from tests.publisher import acknowledged, start

ROUNDS = 50
INSIDE_AT_LEAST = 20
PUBLISH_SECONDS = 0.02
"""About what a publish takes; kills are spread over this long after one began. Only the spread rests on it, no assertion."""

pytestmark = pytest.mark.crash


def one_round(uri: str, round_: int) -> bool:
    """Kill a publisher; check the graph. True when the kill fell inside a publish."""
    before = reopen(uri).commits(limit=1)[0]
    chance = random.Random(round_)
    process = start(uri, "main", f"r{round_}", 0)
    seen: list[str] = []
    while seen.count("publish") <= chance.randrange(1, 4):
        seen.append(process.stdout.readline().strip())
    time.sleep(chance.uniform(0, PUBLISH_SECONDS))
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    seen += rest.split("\n")[:-1]  # a last line without an end was never said
    check(reopen(uri), before.id, acknowledged("\n".join(seen)), inside=seen[-1] == "publish", name=f"r{round_}")
    return seen[-1] == "publish"


def check(manifest: Manifest, before: str, acked: list[str], *, inside: bool, name: str) -> None:
    chain = []
    for commit in manifest.commits():
        if commit.id == before:
            break
        chain.append(commit)
    landed = [commit.id for commit in reversed(chain)]
    assert landed[: len(acked)] == acked, "an acknowledged commit is missing"
    assert len(landed) - len(acked) in ((0, 1) if inside else (0,)), "more than the one being written"
    assert [commit.message for commit in reversed(chain)] == [f"{name}-{n}" for n in range(len(landed))]
    assert [child.parents[0] for child in chain] == [*(parent.id for parent in chain[1:]), before][: len(chain)]
    assert manifest.snapshot().commit == (landed[-1] if landed else before)


def test_a_killed_publisher_leaves_the_graph_before_or_after(tmp_path: Path) -> None:
    """Fifty rounds, on two graphs side by side; worthless unless enough kills fell inside a publish."""
    uris = [make(tmp_path / name).root.uri for name in ("one", "two")]

    def rounds(at: int) -> int:
        return sum(one_round(uris[at], round_) for round_ in range(at, ROUNDS, 2))

    with ThreadPoolExecutor(2) as pool:
        inside = sum(pool.map(rounds, range(2)))
    assert inside >= INSIDE_AT_LEAST, f"only {inside} of {ROUNDS} kills fell inside a publish"
    for uri in uris:
        assert note(reopen(uri), "alive").commit.message == "alive"
