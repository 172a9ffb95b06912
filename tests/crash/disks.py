"""A small ext4 on a loop device whose power can be cut: what the disk holds at a moment, without what the kernel still keeps in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE_BYTES = 128 * 1024 * 1024
# The journal is committed by fsync alone, never by the passing of time.
OPTIONS = "loop,commit=600"
TOOLS = ("mkfs.ext4", "mount", "umount", "cp")


class Disk:
    """A disk is a file; `at` is where it is mounted."""

    def __init__(self, at: Path, image: Path) -> None:
        self.at = at
        self.image = image

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """Mounting replays the journal, as after a power cut."""
        _run("mount", "-o", OPTIONS, str(self.image), str(self.at))
        try:
            yield self.at
        finally:
            # Lazily: a handle that is still open must not keep the place from the next disk.
            _run("umount", "--lazy", str(self.at))

    def copy(self, name: str) -> Disk:
        """The disk as it is now. What was written and not flushed is not on it."""
        image = self.image.with_name(f"{name}.img")
        _run("cp", "--sparse=always", str(self.image), str(image))
        return Disk(self.at, image)

    def foreign_fsync(self) -> None:
        """Somebody else flushes a file of their own: the journal is written, and with it every name that was given before."""
        descriptor = os.open(self.at / "foreign", os.O_CREAT | os.O_WRONLY)
        try:
            os.write(descriptor, b"x")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def new_disk(folder: Path) -> Disk | None:
    """An empty disk; None where there may be none: only root may mount, and not in every container."""
    if os.geteuid() or any(shutil.which(tool) is None for tool in TOOLS):
        return None
    at, image = folder / "disk", folder / "new.img"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
    disk = Disk(at, image)
    try:
        with disk.mounted():
            return disk
    except OSError:
        return None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr}")
