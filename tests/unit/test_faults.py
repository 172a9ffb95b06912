"""Fault points: free when unarmed, a BaseException when armed here, a real death when armed by the environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.faults import ENVIRONMENT, Fault, SimulatedCrash, armed, reach

POINT = Fault.PUBLISH_BEFORE_COMMIT


def test_an_unarmed_point_does_nothing() -> None:
    for point in Fault:
        reach(point)


def test_an_armed_point_raises_past_every_except_exception() -> None:
    assert not issubclass(SimulatedCrash, Exception)
    with armed(POINT), pytest.raises(SimulatedCrash) as caught:
        reach(POINT)
    assert caught.value.point is POINT
    reach(POINT)


def test_only_the_named_arrival_counts() -> None:
    with armed(POINT, after=3):
        reach(POINT)
        reach(Fault.PUBLISH_AFTER_COMMIT)
        reach(POINT)
        with pytest.raises(SimulatedCrash):
            reach(POINT)


@pytest.mark.parametrize(("setting", "code"), [("kill", -signal.SIGKILL), ("kill:2", -signal.SIGKILL), ("kill:3", 0), ("raise", 1)])
def test_the_environment_arms_a_real_process(setting: str, code: int) -> None:
    program = f"from omnigraph.faults import *; reach(Fault.{POINT.name}); reach(Fault.{POINT.name})"
    environment = {**os.environ, ENVIRONMENT: f"{POINT.value}={setting}"}
    assert subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False).returncode == code


def test_the_environment_puts_a_real_process_to_sleep() -> None:
    program = f"from omnigraph.faults import *; reach(Fault.{POINT.name}); print('awake', flush=True)"
    environment = {**os.environ, ENVIRONMENT: f"{POINT.value}=stop"}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate()[0] == b"awake\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    "setting", ["nowhere=kill", f"{POINT.value}=explode", POINT.value, f"{POINT.value}=kill:x", f"{POINT.value}=kill:0"]
)
def test_a_mistyped_setting_fails_loudly_instead_of_never_firing(setting: str, tmp_path: Path) -> None:
    """F-13"""
    environment = {**os.environ, ENVIRONMENT: setting}
    command = [sys.executable, "-m", "omnigraph.cli.main", "info", str(tmp_path / "g")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {ENVIRONMENT} is {setting!r}; it takes a fault point and raise, kill or stop")
    assert "bug" not in done.stderr
