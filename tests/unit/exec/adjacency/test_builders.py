"""Real processes that build one adjacency: at once, or one after another has died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.plan.statistics import Availability

from .test_topology import city, mapped
from .town import Town

pytestmark = pytest.mark.crash


def builder(town: Town, *, fault: str = "") -> subprocess.Popen[str]:
    rows = msgspec.json.encode(town.rows()).decode()
    command = [sys.executable, "-m", "tests.unit.exec.adjacency.builder", town.root.uri, str(town.cache), rows]
    return subprocess.Popen(command, env={**os.environ, ENVIRONMENT: fault}, stdout=subprocess.PIPE, text=True)


def test_processes_that_build_at_once_all_get_it_and_leave_whole_files(tmp_path: Path) -> None:
    town = city(tmp_path, people=2000, edges=20_000)
    builders = [builder(town) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in builders] == ["20000"] * 2
    assert mapped(town.topology().adjacency(*town.rows()))
    assert len(list(town.cache.iterdir())) == 2, "the ids, the edges, and nothing under way"


@pytest.mark.parametrize("arrival", [1, 2])
def test_a_builder_that_is_killed_costs_the_next_one_only_time(tmp_path: Path, arrival: int) -> None:
    """F-13: dead before the ids, or before the edges were in place."""
    town = city(tmp_path)
    dead = builder(town, fault=f"{Fault.CACHE_BEFORE_RENAME}=kill:{arrival}")
    assert dead.communicate()[0] == ""
    assert dead.returncode == -signal.SIGKILL
    assert town.topology().availability(*town.rows()) is Availability.MISSING
    town.check(town.topology())
    assert mapped(town.check(town.topology()))
