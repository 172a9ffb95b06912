"""A directory -> byte objects: atomic names by link and rename, and compare-and-swap under the lock of the object's directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from omnigraph.errors import Kind, NotFound, Outcome, ResourceLimitExceeded, StorageError
from omnigraph.ids import content_hash
from omnigraph.store import directories
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.lock_proof import prove_locks
from omnigraph.store.paths import First, Names, check_path, check_prefix, nothing_to_flush

# How often a write is retried if its directory is deleted meanwhile.
_ATTEMPTS: Final = 20
_ABSENT: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

# Makes a staged file visible: (directory, staged name, final name) -> whether it did.
Show = Callable[[int, str, str], bool]


class LocalObjects:
    """Objects below a directory, which need not exist yet. A token is the hash of the content."""

    is_local = True

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._rooted: Final[set[tuple[int, int]]] = set()
        """The identities of directories whose path from the root is flushed."""

    def get(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        data = self.get_if_exists(path, limit_bytes=limit_bytes)
        if data is None:
            raise _not_found(self._full(path))
        return data

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        full = self._full(path)
        try:
            with open(full, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if limit_bytes is not None and size > limit_bytes:
                    raise ResourceLimitExceeded(
                        Kind.RESOURCE_LIMIT,
                        f"{full} has {size} bytes, more than the limit of {limit_bytes}",
                        resource="object_bytes",
                        limit=limit_bytes,
                        actual=size,
                    )
                return file.readall()
        except _ABSENT:
            return None
        except OSError as error:
            raise wrap_os_error(error, doing="read", path=full) from error

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        data = self.get_if_exists(path)
        return None if data is None else (data, content_hash(data))

    def put(self, path: str, data: bytes, *, sync: bool = False, first: First | None = None) -> str:
        self._write(path, data, sync=sync, show=directories.replace, first=first)
        return content_hash(data)

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        if os.path.isfile(self._full(path)):
            return None  # the object exists: do not stage the bytes
        return content_hash(data) if self._write(path, data, sync=sync, show=directories.link) else None

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        current = self.get_versioned(path)
        if current is None or current[1] != token:
            return None
        return content_hash(data) if self._write(path, data, sync=sync, show=partial(directories.swap, token)) else None

    def exists(self, path: str) -> bool:
        full = self._full(path)
        try:
            return _is_object(full) or directories.holds_object(full)
        except OSError as error:
            raise wrap_os_error(error, doing="look for", path=full) from error

    def size(self, path: str) -> int | None:
        full = self._full(path)
        try:
            status = os.stat(full)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise wrap_os_error(error, doing="look at", path=full) from error
        return None if stat.S_ISDIR(status.st_mode) else status.st_size

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        inside = check_prefix(prefix)
        directory = os.path.join(self.uri, inside) if inside else self.uri
        names: Names = []
        try:
            for name in directories.children(directory):
                names.append(f"{inside}/{name}" if inside else name)
                if limit is not None and len(names) > limit:
                    raise ResourceLimitExceeded(
                        Kind.RESOURCE_LIMIT,
                        f"{directory} holds more than {limit} objects",
                        resource="objects_listed",
                        limit=limit,
                        actual=len(names),
                    )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise wrap_os_error(error, doing="list", path=directory) from error
        return sorted(names)

    def sizes(self, prefix: str) -> Mapping[str, int]:
        full = self._full(prefix)
        try:
            return {f"{prefix}/{name}": size for name, size in directories.sizes(full)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise wrap_os_error(error, doing="list", path=full) from error

    def written(self, prefix: str) -> Mapping[str, datetime]:
        full = self._full(prefix)
        try:
            found = ((name, os.stat(os.path.join(full, name)).st_mtime) for name, _ in directories.sizes(full))
            return {f"{prefix}/{name}": datetime.fromtimestamp(at, UTC) for name, at in found}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise wrap_os_error(error, doing="list", path=full) from error

    def delete(self, path: str) -> None:
        full = self._full(path)
        directory, name = os.path.split(full)
        try:
            with directories.opened(directory) as descriptor, directories.locked(descriptor):
                os.unlink(name, dir_fd=descriptor)
        except _ABSENT:
            return
        except OSError as error:
            raise wrap_os_error(error, doing="delete", path=full) from error

    def delete_prefix(self, prefix: str) -> None:
        full = self._full(prefix.removesuffix("/"))
        try:
            directories.clear(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            # Some objects below it may be deleted already.
            raise wrap_os_error(error, doing="delete everything below", path=full, outcome=Outcome.UNKNOWN) from error

    def discard_staged(self, prefix: str) -> None:
        full = self._full(prefix)
        try:
            directories.discard_staged(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise wrap_os_error(error, doing="remove what killed processes left in", path=full, outcome=Outcome.UNKNOWN) from error

    def rename(self, source: str, target: str) -> None:
        old, new = self._full(source), self._full(target)
        for _ in range(_ATTEMPTS):
            try:
                if not _is_object(old):
                    raise _not_found(old)
                directories.make(os.path.dirname(new))
                directories.move(old, new)
            except FileNotFoundError:
                continue  # the source or a directory was deleted meanwhile: check again
            except OSError as error:
                raise wrap_os_error(error, doing=f"rename {old} to", path=new) from error
            return
        raise _restless(new)

    def _full(self, path: str) -> str:
        return os.path.join(self.uri, check_path(path))

    def _write(self, path: str, data: bytes, *, sync: bool, show: Show, first: First | None = None) -> bool:
        """Stages the bytes in the target directory, then calls `show` to make them visible. Returns whether it did."""
        full = self._full(path)
        directory, name = os.path.split(full)
        grown: str | None = None
        for _ in range(_ATTEMPTS):
            try:
                made = directories.make(directory)
                grown = grown or made
                with (
                    directories.opened(directory) as descriptor,
                    directories.staged(descriptor, data, sync=sync and first is None) as staged,
                ):
                    if first is not None:
                        first(partial(directories.flush, descriptor, staged) if sync else nothing_to_flush)
                    shown = show(descriptor, staged, name)
            except FileNotFoundError:
                continue  # delete_prefix removed the directory meanwhile
            except OSError as error:
                raise wrap_os_error(error, doing="write", path=full) from error
            if shown and sync:
                self._sync_directories(directory, grown=grown)
            return shown
        raise _restless(full)

    def _sync_directories(self, directory: str, *, grown: str | None) -> None:
        """Flushes every directory from the object's up to the root, and above the root if this write created it.

        An earlier write without `sync` may have created the directories in between, so they are flushed even if this write did not
        create them. After that, a directory only needs to be flushed itself.
        """
        top = grown if grown is not None and len(grown) < len(self.uri) else self.uri
        made: list[tuple[int, int]] = []
        try:
            while True:
                with directories.opened(directory) as descriptor:
                    os.fsync(descriptor)
                    made.append(directories.identity(descriptor))
                if directory == top or (made[-1] in self._rooted and grown is None):
                    self._rooted.update(made)
                    return
                directory = os.path.dirname(directory)
        except OSError as error:
            # The object is visible, but it may not survive a power failure.
            raise wrap_os_error(error, doing="flush", path=directory, outcome=Outcome.UNKNOWN) from error


def probe_directory(root: str) -> None:
    """Refuses a root whose file system lacks hard links or exclusive locks, before anything is written there (A-11)."""
    directory = root
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    try:
        with (
            directories.opened(directory) as descriptor,
            directories.locked(descriptor),
            directories.staged(descriptor, b"", sync=False) as staged,
        ):
            other = directories.staging_name()
            directories.hard_link(descriptor, staged, other)
            os.unlink(other, dir_fd=descriptor)
        prove_locks(directory, graph=root)
    except OSError as error:
        raise wrap_os_error(error, doing="write below", path=directory) from error


def _is_object(full: str) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(full).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _not_found(full: str) -> NotFound:
    return NotFound(Kind.OBJECT_NOT_FOUND, f"there is no object {full}", path=full)


def _restless(full: str) -> StorageError:
    return StorageError(
        Kind.STORAGE,
        f"could not write {full}: its directory was deleted {_ATTEMPTS} times meanwhile; stop the process that deletes it",
        path=full,
    )
