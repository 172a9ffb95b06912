"""An error from the operating system or an object store -> a StorageError, by errno, exception class, HTTP status or S3 code."""

from __future__ import annotations

import errno
import re
from typing import Final

import msgspec

from omnigraph.errors import Kind, Outcome, StorageError

_BY_ERRNO: Final[dict[int, tuple[Kind, str]]] = {
    errno.EACCES: (Kind.STORAGE_PERMISSION, "check the owner and the mode of the directory"),
    errno.EPERM: (Kind.STORAGE_PERMISSION, "check the owner, the mode and the attributes of the directory"),
    errno.EROFS: (
        Kind.STORAGE_PERMISSION,
        "the file system is mounted read-only: remount it, open the graph with mode 'r', or choose another location",
    ),
    errno.ENOSPC: (Kind.STORAGE_FULL, "free disk space or inodes, then retry"),
    errno.EDQUOT: (Kind.STORAGE_FULL, "free disk space or raise the quota, then retry"),
    errno.EFBIG: (Kind.STORAGE_FULL, "raise the file size limit (ulimit -f), then retry"),
    errno.EOPNOTSUPP: (Kind.STORAGE_UNSUPPORTED, "keep the graph on a local disk or on an object store"),
    errno.ENOSYS: (Kind.STORAGE_UNSUPPORTED, "keep the graph on a local disk or on an object store"),
    errno.EISDIR: (Kind.STORAGE, "on a disk, a name cannot be both an object and a directory"),
    errno.ENOTDIR: (Kind.STORAGE, "on a disk, a name cannot be both an object and a directory"),
    errno.EEXIST: (Kind.STORAGE, "on a disk, a name cannot be both an object and a directory"),
    errno.ENAMETOOLONG: (Kind.STORAGE, "choose a shorter name"),
    errno.EMFILE: (Kind.STORAGE, "raise the limit on open files (ulimit -n)"),
    errno.ENFILE: (Kind.STORAGE, "the machine has too many open files; close some, or raise the system limit"),
}
_UNREACHABLE: Final = (
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ESTALE,
)


def wrap_os_error(error: OSError, *, doing: str, path: str, outcome: Outcome = Outcome.DID_NOT_HAPPEN) -> StorageError:
    """The exception to raise in place of `error`, which occurred while `doing` something (a verb) at `path`."""
    number = error.errno or 0
    if number in _UNREACHABLE:
        kind, remedy = Kind.STORAGE_UNAVAILABLE, "check the network and the file server, then retry"
    else:
        kind, remedy = _BY_ERRNO.get(number, (Kind.STORAGE, "check the system log"))
    reason = error.strerror or str(error)
    return StorageError(kind, f"could not {doing} {path}: {reason}; {remedy}", outcome=outcome, path=path, errno=number or None)


class Evidence(msgspec.Struct, frozen=True):
    """The facts in an object store's error. `transport` is set if no response arrived."""

    status: int | None = None
    code: str | None = None
    transport: str | None = None


# obstore's exceptions have no attributes for the status and the transport kind. They are only in the text of the Rust error, which has
# a fixed format. That text escapes object names, so a name contains no line break and cannot imitate these fields.
_STATUS: Final = re.compile(r"\binner: (?:Status|Response) \{\s*\n\s*status: (\d{3})")
_TRANSPORT: Final = re.compile(r"\bHttpError \{\s*\n\s*kind: (\w+)")
_BUILDER: Final = re.compile(r"\breqwest::Error \{\s*\n\s*kind: Builder")
_METADATA: Final = re.compile(r"\buri: Some\(\s*\n\s*http://169\.254\.169\.254/")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_DELETE: Final = re.compile(r"\bDeleteFailed \{\s*\n\s*path: .*\n\s*code: \"(\w+)\"")

_UNSENDABLE: Final = "Builder"
# Our own code: without credentials, obstore queries the metadata service of a cloud machine, and that request fails.
_NO_CREDENTIALS: Final = "NoCredentials"
_MISCONFIGURED: Final = frozenset(
    {
        _NO_CREDENTIALS,
        "NoSuchBucket",
        "InvalidBucketName",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "InvalidToken",
        "PermanentRedirect",
        "IllegalLocationConstraintException",
        "RequestTimeTooSkewed",
    }
)


def evidence(error: BaseException) -> Evidence:
    """Extracts the facts from an obstore exception."""
    text = str(error)
    if _METADATA.search(text):
        return Evidence(code=_NO_CREDENTIALS)
    if refused := _DELETE.search(text):  # the error for one object of a batch request
        return Evidence(code=refused[1])
    status, transport, code = _STATUS.search(text), _TRANSPORT.search(text), _CODE.search(text)
    return Evidence(
        status=int(status[1]) if status else None,
        code=code[1] if status and code else None,
        transport=_UNSENDABLE if _BUILDER.search(text) else transport[1] if transport else None,
    )


def wrap_obstore_error(error: BaseException, *, doing: str, path: str, write: bool, many: bool = False) -> StorageError:
    """The exception to raise in place of an obstore exception, which occurred while `doing` something (a verb) at `path`.

    `many`: the request was for several objects below `path`, so some of them may have changed.
    """
    found = evidence(error)
    kind, remedy, refused = _judge(error, found)
    outcome = Outcome.DID_NOT_HAPPEN if not write or (refused and not many) else Outcome.UNKNOWN
    reason = found.code or (f"HTTP status {found.status}" if found.status else str(error).splitlines()[0][:300])
    return StorageError(
        kind, f"could not {doing} {path}: {reason}; {remedy}", outcome=outcome, path=path, status=found.status, code=found.code
    )


def _judge(error: BaseException, found: Evidence) -> tuple[Kind, str, bool]:
    """Returns the kind, the remedy, and whether the store refused the request, so that nothing changed."""
    from obstore import exceptions as obstore_errors

    status = found.status or 0
    if found.code in _MISCONFIGURED or 300 <= status < 400:
        return Kind.STORAGE_CONFIGURATION, "check the bucket, the region, the endpoint and the credentials", True
    if found.transport == _UNSENDABLE:
        return Kind.STORAGE_CONFIGURATION, "check the URL of the endpoint, and set allow_http if it has no TLS", True
    if isinstance(error, obstore_errors.UnauthenticatedError) or status == 401:
        return Kind.STORAGE_CONFIGURATION, "check the credentials", True
    if isinstance(error, obstore_errors.PermissionDeniedError) or status == 403 or found.code == "AccessDenied":
        return Kind.STORAGE_PERMISSION, "check the permissions of the credentials in this bucket", True
    if isinstance(error, obstore_errors.NotSupportedError) or status == 501:
        return Kind.STORAGE_UNSUPPORTED, "this object store lacks a required operation; use another one", True
    if status == 507:
        return Kind.STORAGE_FULL, "the object store is full; free space, then retry", True
    if status == 409:
        return Kind.STORAGE_UNAVAILABLE, "another client wrote the same object; retry", True
    if status >= 500 or status in (408, 429) or found.transport:
        return Kind.STORAGE_UNAVAILABLE, "check the network and the endpoint, then retry", False
    return Kind.STORAGE, "check the log of the object store", 400 <= status < 500


def never_applied(found: Evidence) -> bool:
    """Whether the request certainly changed nothing, so that it can be retried: no connection was made, or the store refused it."""
    return found.transport == "Connect" or found.status in (409, 429) or found.code == "SlowDown"
