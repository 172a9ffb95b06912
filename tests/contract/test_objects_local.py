"""Objects on a disk: paths, durability, crashes, refusals by the kernel, file systems that cannot do it (A-01..A-12)."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidInput, Kind, Outcome, StorageError, Unsupported
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.store.objects import Objects, canonical_uri, open_objects, probe_local, wrap_os_error
from tests.contract.stores import Place, run_child, start_child
from tests.mounts import private_mount


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def objects(root: Path) -> Objects:
    return open_objects(str(root))


def residue(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*.omnigraph-tmp")]


class TestWhere:
    def test_relative_and_dotted_paths_become_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-08: Relative and dotted paths become absolute."""
        monkeypatch.chdir(tmp_path)
        here = os.path.realpath(tmp_path)
        assert canonical_uri("g") == canonical_uri("./x/../g/") == canonical_uri(f"{tmp_path}//g/.") == f"{here}/g"
        objects = open_objects("g")
        monkeypatch.chdir("/")
        objects.put("x", b"1")
        assert (tmp_path / "g/x").read_bytes() == b"1"
        assert objects.is_local

    def test_symlinks_are_resolved_to_one_identity(self, tmp_path: Path) -> None:
        """A-12: All spellings of a local path, symbolic links included, are one root; a remote URI is opaque but for its last slash."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        assert canonical_uri(str(tmp_path / "link/g")) == canonical_uri(str(tmp_path / "real/g"))
        open_objects(str(tmp_path / "link")).put("x", b"1")
        assert open_objects(str(tmp_path / "real")).get("x") == b"1"

    def test_file_uris_are_decoded_and_plain_paths_are_not(self, tmp_path: Path) -> None:
        """A-05, A-08"""
        here = os.path.realpath(tmp_path)
        assert canonical_uri(f"file://{here}/a%20b%23") == f"{here}/a b#"
        assert canonical_uri(f"file://localhost{here}/x") == canonical_uri(f"file:{here}/x/") == f"{here}/x"
        assert canonical_uri(f"{here}/a%20b") == f"{here}/a%20b"
        open_objects(f"file://{here}/a%20b").put("c d", b"1")
        assert (tmp_path / "a b/c d").read_bytes() == b"1"

    def test_remote_uris_are_opaque_less_a_slash(self) -> None:
        """A-12"""
        assert canonical_uri("s3://bucket/a%20b/../c/".replace("../", "")) == "s3://bucket/a%20b/c"
        assert canonical_uri("s3://bucket/") == "s3://bucket"
        assert canonical_uri("memory://name/") == "memory://name"

    @pytest.mark.parametrize(
        "uri",
        [
            "",
            "nul\0",
            "file://elsewhere/x",
            "file:relative",
            "s3://",
            "s3:///x",
            "s3://b/a#b",
            "s3://b/a?b",
            "s3://b/a//b",
            "s3://b/../a",
            "memory://",
        ],
    )
    def test_uris_that_name_no_place_are_refused(self, uri: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            open_objects(uri)
        assert caught.value.kind is Kind.INVALID_ARGUMENT

    def test_other_schemes_are_unsupported(self) -> None:
        with pytest.raises(Unsupported):
            canonical_uri("gs://bucket/x")

    def test_opening_touches_nothing(self, root: Path, objects: Objects) -> None:
        assert objects.list("") == []
        assert not objects.exists("x")
        objects.delete("x")
        objects.delete_prefix("x")
        assert not root.exists()


class TestFolders:
    def test_an_empty_folder_does_not_exist(self, root: Path, objects: Objects) -> None:
        """A-04, A-05: nor does one that holds only empty folders, or only what a crash left."""
        (root / "a/b/c").mkdir(parents=True)
        (root / "d").mkdir()
        (root / "d/.0123.omnigraph-tmp").touch()
        assert not any(objects.exists(path) for path in ("a", "a/b", "d"))
        assert objects.list("") == objects.list("d") == []

    def test_delete_prefix_leaves_no_skeleton(self, root: Path, objects: Objects) -> None:
        """A-06"""
        objects.put("p/q/r/x", b"")
        (root / "p/empty").mkdir()
        (root / "p/q/.0123.omnigraph-tmp").touch()
        objects.delete_prefix("p")
        assert os.listdir(root) == []

    def test_delete_prefix_does_not_follow_links_out(self, tmp_path: Path, root: Path, objects: Objects) -> None:
        """A-06"""
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/x").write_bytes(b"mine")
        objects.put("p/y", b"")
        (root / "p/link").symlink_to(tmp_path / "outside")
        objects.delete_prefix("p")
        assert (tmp_path / "outside/x").read_bytes() == b"mine"

    def test_a_name_cannot_be_object_and_folder(self, objects: Objects) -> None:
        objects.put("a", b"1")
        objects.put("f/x", b"2")
        acts: list[Callable[[], object]] = [
            lambda: objects.put("a/b", b""),
            lambda: objects.put("f", b""),
            lambda: objects.put_if_absent("f", b""),
        ]
        for act in acts:
            with pytest.raises(StorageError, match="both an object and a directory") as caught:
                act()
            assert (caught.value.kind, caught.value.outcome) == (Kind.STORAGE, Outcome.DID_NOT_HAPPEN)
        assert objects.get_if_exists("f") is None
        assert objects.get_if_exists("a/b") is None
        assert (objects.get("a"), objects.get("f/x")) == (b"1", b"2")

    def test_writers_survive_a_folder_deleted_under_them(self, objects: Objects) -> None:
        """A-06: delete_prefix and writes may meet; every write still lands, or was deleted after it landed.

        One write meets ten deletions at most. It fails after twenty, which an unbounded deleter reaches on a busy machine.
        """
        left, stop = threading.Semaphore(0), threading.Event()

        def keep_deleting() -> None:
            while not stop.is_set():
                if left.acquire(timeout=0.05):
                    objects.delete_prefix("p")

        def meet(write: Callable[[], object]) -> None:
            while left.acquire(blocking=False):
                pass
            left.release(10)
            write()

        deleter = threading.Thread(target=keep_deleting)
        deleter.start()
        try:
            for number in range(300):
                meet(partial(objects.put, "p/q/x", b"%d" % number))
                meet(lambda: objects.put_if_absent("p/q/y", b""))
                meet(lambda: objects.put_if_match("p/q/x", b"", "stale"))
                meet(lambda: objects.delete("p/q/y"))
        finally:
            stop.set()
            deleter.join()
        objects.put("p/q/x", b"last")
        assert objects.get("p/q/x") == b"last"

    @pytest.mark.parametrize("write", ["put", "put_if_match", "delete", "rename_from", "rename_to"])
    def test_whatever_changes_a_name_waits_for_the_folder_lock(self, root: Path, objects: Objects, write: str) -> None:
        """A-03: a swap compares and replaces under this lock, and nothing may come between."""
        token = objects.put("f/x", b"1")
        objects.put("g/y", b"1")
        act: Callable[[], object] = {
            "put": lambda: objects.put("f/x", b"2"),
            "put_if_match": lambda: objects.put_if_match("f/x", b"2", token),
            "delete": lambda: objects.delete("f/x"),
            "rename_from": lambda: objects.rename("f/x", "g/z"),
            "rename_to": lambda: objects.rename("g/y", "f/x"),
        }[write]
        writer = threading.Thread(target=act)
        folder = os.open(root / "f", os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            writer.start()
            writer.join(0.2)
            assert writer.is_alive()
            assert (root / "f/x").read_bytes() == b"1"
        finally:
            os.close(folder)
        writer.join(10)
        assert not writer.is_alive()
        assert objects.get_if_exists("f/x") in (b"2", None, b"1")
        assert residue(root) == []

    def test_opposite_renames_do_not_wait_for_each_other(self, objects: Objects) -> None:
        """A-07"""
        objects.put("a/x", b"1")
        objects.put("b/y", b"2")

        def back_and_forth(one: str, other: str) -> None:
            for _ in range(200):
                objects.rename(one, other)
                objects.rename(other, one)

        threads = [threading.Thread(target=back_and_forth, args=pair, daemon=True) for pair in (("a/x", "b/x"), ("b/y", "a/y"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert (objects.get("a/x"), objects.get("b/y")) == (b"1", b"2")

    def test_a_bounded_read_looks_at_the_size_before_the_bytes(self, root: Path, objects: Objects) -> None:
        """A-09: reading this file first would need a terabyte."""
        root.mkdir()
        with open(root / "vast", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(Exception, match="1099511627776 bytes"):
            objects.get_if_exists("vast", limit_bytes=1 << 20)


@pytest.fixture
def durable_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the kernel was asked to make visible or durable, in order; files that hold staged bytes are named `staged`."""
    calls: list[str] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def recorded_fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        calls.append("fsync " + ("staged" if path.endswith(".omnigraph-tmp") else path))
        fsync(descriptor)

    def recorded_replace(old: str, new: str, **folders: Any) -> None:
        calls.append("replace")
        replace(old, new, **folders)

    def recorded_link(old: str, new: str, **folders: Any) -> None:
        calls.append("link")
        link(old, new, **folders)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    monkeypatch.setattr(os, "link", recorded_link)
    return calls


class TestDurability:
    def test_sync_flushes_the_bytes_before_and_the_folders_after(self, root: Path, objects: Objects, durable_calls: list[str]) -> None:
        """A-01: the root itself was made by this write, so the folder above it gained an entry too."""
        objects.put("a/b/x", b"1", sync=True)
        folders = [f"fsync {path}" for path in (root / "a/b", root / "a", root, root.parent)]
        assert durable_calls == ["fsync staged", "replace", *folders]

    def test_every_conditional_write_flushes_too(self, root: Path, objects: Objects, durable_calls: list[str]) -> None:
        objects.put("a/other", b"", sync=False)
        assert durable_calls == ["replace"]
        durable_calls.clear()
        token = objects.put_if_absent("a/x", b"1", sync=True)
        assert token is not None
        assert durable_calls == ["fsync staged", "link", f"fsync {root / 'a'}", f"fsync {root}"]
        durable_calls.clear()
        objects.put_if_match("a/x", b"2", token, sync=True)
        # The way from there to the root is on the disk already.
        assert durable_calls == ["fsync staged", "replace", f"fsync {root / 'a'}"]

    def test_without_sync_nothing_is_flushed(self, objects: Objects, durable_calls: list[str]) -> None:
        token = objects.put_if_absent("a/x", b"1")
        assert token is not None
        objects.put_if_match("a/x", b"2", token)
        assert durable_calls == ["link", "replace"]

    def test_a_lost_race_flushes_no_folder(self, objects: Objects, durable_calls: list[str]) -> None:
        objects.put("x", b"1")
        durable_calls.clear()
        assert objects.put_if_absent("x", b"2", sync=True) is None
        assert objects.put_if_match("x", b"2", "stale", sync=True) is None
        assert durable_calls == []

    def test_bytes_that_cannot_be_flushed_never_become_visible(self, root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
        objects.put("x", b"old")
        monkeypatch.setattr(os, "fsync", failing_on(file=True))
        with pytest.raises(StorageError) as caught:
            objects.put("x", b"new", sync=True)
        assert (caught.value.kind, caught.value.outcome) == (Kind.STORAGE, Outcome.DID_NOT_HAPPEN)
        assert objects.get("x") == b"old"
        assert residue(root) == []

    def test_a_folder_that_cannot_be_flushed_leaves_the_outcome_unknown(
        self, root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", failing_on(file=False))
        with pytest.raises(StorageError) as caught:
            objects.put("x", b"new", sync=True)
        assert caught.value.outcome is Outcome.UNKNOWN
        assert objects.get("x") == b"new"
        assert residue(root) == []


def failing_on(*, file: bool) -> Callable[[int], None]:
    def fsync(descriptor: int) -> None:
        if os.path.isfile(f"/proc/self/fd/{descriptor}") == file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return fsync


@pytest.mark.crash
class TestCrash:
    @pytest.mark.parametrize("how", ["put", "put_if_absent", "put_if_match"])
    @pytest.mark.parametrize("point", [Fault.OBJECT_BEFORE_LINK, Fault.OBJECT_AFTER_LINK])
    def test_a_killed_writer_leaves_the_old_value_or_the_new(self, root: Path, objects: Objects, how: str, point: Fault) -> None:
        """A-01, A-05: never a part of one; what it staged is not listed and hinders nobody."""
        old = None if how == "put_if_absent" else b"old"
        if old is not None:
            objects.put("f/x", old)
        child = start_child("put", Place(str(root), {}), how=how, path="f/x", data="new", env={"OMNIGRAPH_FAULT": f"{point.value}=kill"})
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        after = b"new" if point is Fault.OBJECT_AFTER_LINK else old
        assert objects.get_if_exists("f/x") == after
        assert objects.list("f") == (["f/x"] if after else [])
        assert objects.exists("f") == (after is not None)
        assert bool(residue(root)) == (point is Fault.OBJECT_BEFORE_LINK or how == "put_if_absent")
        objects.put("f/x", b"newer")  # the dead writer's lock died with it
        assert objects.get("f/x") == b"newer"
        objects.delete_prefix("f")
        assert os.listdir(root) == []

    def test_a_simulated_death_tidies_as_little_as_a_real_one(self, root: Path, objects: Objects) -> None:
        with armed(Fault.OBJECT_BEFORE_LINK), pytest.raises(SimulatedCrash):
            objects.put("x", b"new")
        assert len(residue(root)) == 1
        assert objects.list("") == []

    def test_an_interrupt_tidies(self, root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            objects.put("x", b"new")
        assert os.listdir(root) == []


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-public-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder / "readonly", folder / "closed"):
        if path.exists():
            path.chmod(0o755)
    shutil.rmtree(folder)


class TestRefusals:
    def test_a_refusal_by_permission_is_an_error_everywhere(self, public_folder: Path) -> None:
        """A-04: never "absent", never "empty"."""
        objects = open_objects(str(public_folder))
        token = objects.put("readonly/old", b"old")
        objects.put("closed/x", b"")
        (public_folder / "readonly").chmod(0o555)
        (public_folder / "closed").chmod(0o000)
        report = run_child("denied", Place(str(public_folder), {}), token=token)
        assert report.pop("list_around") == ["closed/", "readonly/"]
        unknown = {"delete_prefix"}
        for name, answer in report.items():
            outcome = Outcome.UNKNOWN if name in unknown else Outcome.DID_NOT_HAPPEN
            assert answer == ["StorageError", Kind.STORAGE_PERMISSION.value, outcome.value], name
        (public_folder / "closed").chmod(0o755)
        assert sorted(str(path.relative_to(public_folder)) for path in public_folder.rglob("*")) == [
            "closed",
            "closed/x",
            "readonly",
            "readonly/old",
        ]

    def test_a_full_disk_loses_nothing_and_leaves_nothing(self, tmp_path: Path) -> None:
        """A-01: a tmpfs of 128 kB where we may mount one; else the kernel's limit on a file's size."""
        folder = tmp_path / "small"
        folder.mkdir()
        prefix = private_mount(folder, "size=128k")
        limit_bytes = None if prefix else 64 * 1024
        report = run_child("fill_up", Place(str(folder), {}), prefix=prefix or (), limit_bytes=limit_bytes)
        assert report["refused"] == [["StorageError", Kind.STORAGE_FULL.value, Outcome.DID_NOT_HAPPEN.value]] * 3
        assert (report["left"], report["kept"], report["small"]) == (["keep"], "old", True)

    def test_a_read_only_file_system_says_so(self, tmp_path: Path) -> None:
        folder = tmp_path / "frozen"
        folder.mkdir()
        if (prefix := private_mount(folder, "ro")) is None:
            pytest.skip("neither root nor a user namespace lets us mount a file system here")
        report = run_child("read_only", Place(str(folder), {}), prefix=prefix)
        refused = ["StorageError", Kind.STORAGE_PERMISSION.value, Outcome.DID_NOT_HAPPEN.value]
        assert report == {"put": refused, "probe": refused, "list": []}

    @pytest.mark.parametrize(
        ("number", "kind", "advice"),
        [
            (errno.EACCES, Kind.STORAGE_PERMISSION, "mode"),
            (errno.EROFS, Kind.STORAGE_PERMISSION, "read-only"),
            (errno.ENOSPC, Kind.STORAGE_FULL, "free disk space"),
            (errno.EDQUOT, Kind.STORAGE_FULL, "quota"),
            (errno.ETIMEDOUT, Kind.STORAGE_UNAVAILABLE, "network"),
            (errno.ESTALE, Kind.STORAGE_UNAVAILABLE, "network"),
            (errno.EOPNOTSUPP, Kind.STORAGE_UNSUPPORTED, "object store"),
            (errno.EIO, Kind.STORAGE, "system log"),
        ],
    )
    def test_an_os_error_is_judged_by_its_number(self, number: int, kind: Kind, advice: str) -> None:
        error = wrap_os_error(OSError(number, os.strerror(number)), doing="flush", path="/g/x", outcome=Outcome.UNKNOWN)
        assert (error.kind, error.outcome, error.facts["errno"]) == (kind, Outcome.UNKNOWN, number)
        assert error.message.startswith("could not flush /g/x: ")
        assert advice in error.message


class TestStaged:
    def test_what_killed_processes_left_is_removed_and_nothing_else(self, root: Path, objects: Objects) -> None:
        """Beside the direct children of a prefix. Where there is no such directory there is nothing to do."""
        objects.discard_staged("d")
        objects.put("d/kept", b"1")
        for name in ("d/.0123.omnigraph-tmp", "d/sub/.0123.omnigraph-tmp", "d/foreign.omnigraph-tmp", "d/.hidden"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).touch()
        objects.discard_staged("d")
        left = sorted(str(path.relative_to(root / "d")) for path in (root / "d").rglob("*") if path.is_file())
        assert left == [".hidden", "foreign.omnigraph-tmp", "kept", "sub/.0123.omnigraph-tmp"]

    def test_a_write_whose_staged_file_is_taken_stages_it_again(self, root: Path, objects: Objects) -> None:
        """The name is never given to a file that is gone, and the write does not fail."""
        takes = [True]

        def once(_: object) -> None:
            if takes:
                takes.pop()
                objects.discard_staged("d")
                assert residue(root) == []

        objects.put("d/x", b"whole", first=once)
        assert (objects.get("d/x"), residue(root)) == (b"whole", [])


class TestProbe:
    def test_it_accepts_a_good_root_and_leaves_no_trace(self, root: Path, objects: Objects) -> None:
        """A-11: A file system without hard links is refused by a probe before the first claim. The probe leaves no files."""
        probe_local(objects)
        assert not root.exists()
        assert os.listdir(root.parent) == []
        objects.put("mine", b"1")
        (root / "foreign.omnigraph-tmp").write_bytes(b"somebody's")
        probe_local(objects)
        assert sorted(os.listdir(root)) == ["foreign.omnigraph-tmp", "mine"]

    def test_it_refuses_a_file_system_without_hard_links(self, root: Path, objects: Objects) -> None:
        """A-11: the kernel refuses link(2) to the child as FAT would; a claim is refused too, never taken for lost."""
        objects.put("mine", b"1")
        report = run_child("without_links", Place(str(root), {}))
        unsupported = ["StorageError", Kind.STORAGE_UNSUPPORTED.value, Outcome.DID_NOT_HAPPEN.value]
        assert report == {"probe": unsupported, "put_if_absent": unsupported, "put": True, "left": ["mine", "y"]}

    def test_it_has_no_question_for_an_object_store(self) -> None:
        probe_local(open_objects("memory://probe"))
