"""What is said when Spark cannot run here at all."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.spark.sessions import require_answer, require_java, session


def java(folder: Path, says: str) -> Path:
    """A fake java that tells its version as the real one does."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _no_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize("says", ['openjdk version "17.0.12" 2024-07-16', 'java version "21" 2023-09-19 LTS'])
def test_java_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("PATH", f"{java(tmp_path, says).parent}:/usr/bin:/bin")
    require_java()


@pytest.mark.parametrize(
    ("says", "told"),
    [('openjdk version "11.0.2" 2019-01-15', "is Java 11"), ('java version "1.8.0_401"', "is Java 1"), ("hello", "no Java that prints")],
)
def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str) -> None:
    monkeypatch.setenv("PATH", f"{java(tmp_path, says).parent}:/usr/bin:/bin")
    with pytest.raises(Unsupported) as caught:
        require_java()
    assert caught.value.kind is Kind.UNSUPPORTED
    assert "Java 17 or newer" in caught.value.message
    assert told in caught.value.message
    assert "JAVA_HOME" in caught.value.message, "it says what to do"


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="java is not installed"):
        require_java()


def test_a_java_home_counts_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match="java is not installed"):
        require_java()
    java(tmp_path, 'openjdk version "8.0"')
    with pytest.raises(Unsupported, match="is Java 8"):
        require_java()


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1/;token=x", "spark://127.0.0.1:1,127.0.0.1:2", "spark://no.where.test", "sc://h:x"]
)
def test_a_cluster_that_is_not_there_is_told_at_once(master: str) -> None:
    with pytest.raises(Unsupported, match="nothing answers at") as caught:
        require_answer(master)
    assert caught.value.facts["master"] == master


@pytest.mark.parametrize("form", ["spark://127.0.0.1:{}", "spark://127.0.0.1:1,127.0.0.1:{}", "sc://127.0.0.1:{}/;user_id=a"])
def test_a_cluster_that_answers_is_tried(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        require_answer(form.format(server.getsockname()[1]))
        assert server.accept(), "it was asked"


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://nowhere.test"])
def test_what_is_no_address_of_ours_is_left_to_spark(master: str) -> None:
    assert require_answer(master) is None  # type: ignore[func-returns-value]  # nothing is asked, and nothing raised


@pytest.mark.parametrize("master", ["", 5, "mesos://x", "yarn-client", "127.0.0.1:7077"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(InvalidInput, match="master"):
        session(master=master)
