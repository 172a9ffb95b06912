"""Trouble from outside, as a user meets it: each time a typed error that names the path and what to do, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import Kind
from tests.graphs import add, make
from tests.mounts import private_mount
from tests.system.doomed import files

ROOT = Path(__file__).resolve().parent.parent.parent


def run(doing: str, uri: Path, *, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    command = [*prefix, sys.executable, "-m", "tests.system.doomed", doing, str(uri)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_read_only_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Reading works; every write says which path refused and what to do."""
    place = Path(f"/tmp/omnigraph-read-only-{os.getpid()}")
    graph = place / "g"
    place.mkdir()
    try:
        add(make(graph), "there")
        for folder, _, names in os.walk(place):
            os.chmod(folder, 0o555)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o444)
        before = files(place)
        report = run("without rights", graph)
        for doing in ("init", "open", "publish", "write"):
            kind, message = report[doing]
            assert kind == Kind.STORAGE_PERMISSION, (doing, message)
            assert str(place) in message
        assert report["read"] == ["there"]
        assert report["left"] == before
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(place)], check=True)
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    """A real file system of a megabyte: what was there stays, what failed leaves nothing, and room again is enough."""
    small = tmp_path / "small"
    small.mkdir()
    prefix = private_mount(small, "size=1m")
    assert prefix is not None, "this test needs to mount a tmpfs: run it as root, or where user namespaces are allowed"
    report = run("full disk", small / "g", prefix=prefix)
    for doing in ("publish", "write", "init"):
        kind, message = report[doing]
        assert kind == Kind.STORAGE_FULL, (doing, message)
        assert str(small) in message
        assert "free disk space" in message
    assert report["left"] == []
    assert report["unchanged"] is True
    assert report["after"] == "room again"
    assert report["kept"] == ["kept"]
