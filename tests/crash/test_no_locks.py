"""C-31: Where locks do not exclude, an id minted beforehand is still published once; such a file system is refused for writing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.faults import Fault
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import heal
from omnigraph.store.tables import Tables
from tests.crash.matrix import ALIASES, WORK, WRITERS, Writer, content, images, prepare, whole
from tests.crasher import asleep, crash
from tests.graphs import make
from tests.writes import upsert

pytestmark = pytest.mark.crash

BY_NAME = {writer.name: writer for writer in WRITERS}
ROLLED_BACK = (BY_NAME["two tables, first touch"], Fault.WRITE_BETWEEN_TABLES)
ROLLED_FORWARD = (BY_NAME["two tables, main"], Fault.WRITE_COMMITTED)
LATE = (Fault.RECOVER_BEFORE_PUBLISH, Fault.PUBLISH_BEFORE_COMMIT)
"""Before the id is looked up, and after."""


def ready(folder: Path, writer: Writer, death: Fault) -> Manifest:
    """A graph with what a writer left that was killed."""
    manifest = make(folder / "g", *ALIASES)
    prepare(manifest, writer)
    assert crash(f"matrix {WRITERS.index(writer)}", manifest.root.uri, death).returncode == -signal.SIGKILL
    return manifest


def remove_locks(manifest: Manifest) -> None:
    shutil.rmtree(Path(manifest.root.uri) / "__locks")


def is_a_chain(manifest: Manifest, writer: Writer) -> bool:
    chain = manifest.commits(writer.branch)
    return [commit.parents for commit in chain] == [*((parent.id,) for parent in chain[1:]), ()]


@pytest.mark.parametrize("point", LATE, ids=lambda point: point.value)
@pytest.mark.parametrize(("writer", "death"), [ROLLED_BACK, ROLLED_FORWARD], ids=["back", "forward"])
def test_two_recoveries_at_once_publish_one_commit(tmp_path: Path, writer: Writer, death: Fault, point: Fault) -> None:
    manifest = ready(tmp_path, writer, death)
    with asleep(f"heal {writer.branch}", manifest.root.uri, point) as sleeper:
        remove_locks(manifest)
        heal(manifest, Tables(manifest.root), writer.branch, timeout_seconds=10)
        assert sleeper.wake() == "done"
    assert is_a_chain(manifest, writer)
    seen = images(writer)
    assert content(manifest, writer.branch) == (seen.after if death is Fault.WRITE_COMMITTED else seen.before)
    assert sum(commit.audit is not None for commit in manifest.commits(writer.branch)) == 1
    upsert(manifest, "next", branch=writer.branch)
    whole(manifest, writer)


def test_two_recoveries_at_once_discard_an_intent_once(tmp_path: Path) -> None:
    writer, death = ROLLED_BACK
    manifest = ready(tmp_path, writer, death)
    delete_branch(manifest, WORK)
    with asleep("heal main", manifest.root.uri, Fault.PUBLISH_BEFORE_COMMIT) as sleeper:
        remove_locks(manifest)
        heal(manifest, Tables(manifest.root), MAIN, timeout_seconds=10)
        assert sleeper.wake() == "done"
    chain = manifest.commits()
    assert [commit.parents for commit in chain] == [*((parent.id,) for parent in chain[1:]), ()]
    assert sum(commit.audit is not None for commit in chain) == 1
    assert intents.pending(manifest.root.objects) == []
    create_branch(manifest, WORK)


def test_a_writer_finds_its_own_commit_published_by_a_recovery(tmp_path: Path) -> None:
    """The recovery could not know that it lives. It gets its receipt, and its commit is there once."""
    writer = BY_NAME["two tables, main"]
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    with asleep(f"matrix {WRITERS.index(writer)}", manifest.root.uri, Fault.WRITE_COMMITTED) as sleeper:
        remove_locks(manifest)
        heal(manifest, Tables(manifest.root), MAIN, timeout_seconds=10)
        assert sleeper.wake() == "done"
    assert is_a_chain(manifest, writer)
    assert content(manifest, MAIN) == images(writer).after


# -- a file system that ignores locks

SHIM = """
#include <sys/file.h>
int flock(int fd, int operation) { (void)fd; (void)operation; return 0; }
"""
OPEN = """
import sys, omnigraph as og
from omnigraph.errors import StorageError
uri, mode = sys.argv[1:]
try:
    graph = og.init(uri, schema="node A { k: String @key }") if mode == "init" else og.open(uri, mode=mode)
    print(len(graph.commits()))
except StorageError as error:
    print(error.kind, error.outcome, "local disk" in error.message)
"""
REFUSED = "storage_unsupported did_not_happen True"


@pytest.fixture(scope="module")
def ignoring_locks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which flock(2) always succeeds, for a process and all it starts."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c"], check=True)
    return {**os.environ, "LD_PRELOAD": str(folder / "shim.so")}


def opened(uri: Path, mode: str, environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", OPEN, uri, mode], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_file_system_that_ignores_locks_is_refused_for_writing(tmp_path: Path, ignoring_locks: dict[str, str]) -> None:
    assert opened(tmp_path / "new", "init", ignoring_locks) == REFUSED
    assert not (tmp_path / "new").exists()
    make(tmp_path / "g", *ALIASES)
    assert opened(tmp_path / "g", "rw", ignoring_locks) == REFUSED
    assert opened(tmp_path / "g", "r", ignoring_locks) == "1", "readers take no lock"
    assert opened(tmp_path / "g", "rw", dict(os.environ)) == "1"


def test_what_was_proven_of_a_mount_is_asked_once(tmp_path: Path, ignoring_locks: dict[str, str]) -> None:
    """With the proof beside the lock files nobody is asked; with one of another mount, somebody is."""
    manifest = make(tmp_path / "g", *ALIASES)
    upsert(manifest, "a")
    uri = Path(manifest.root.uri)
    assert opened(uri, "rw", dict(os.environ)) == "2"
    proof = uri / "__locks" / "proven.txt"
    assert opened(uri, "rw", ignoring_locks) == "2"
    proof.write_bytes(proof.read_bytes() + b"another mount")
    assert opened(uri, "rw", ignoring_locks) == REFUSED
