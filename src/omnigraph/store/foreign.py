"""An error from the operating system or an object store -> ours, by typed evidence: errno, exception class, HTTP status, S3 code."""

from __future__ import annotations

import errno
import re
from typing import Final

import msgspec

from omnigraph.errors import Kind, Outcome, StorageError

_BY_ERRNO: Final[dict[int, tuple[Kind, str]]] = {
    errno.EACCES: (Kind.STORAGE_PERMISSION, "check who owns the folder and its mode"),
    errno.EPERM: (Kind.STORAGE_PERMISSION, "check who owns the folder, its mode and its attributes"),
    errno.EROFS: (Kind.STORAGE_PERMISSION, "the file system is mounted read-only: remount it, open with mode 'r', or choose another place"),
    errno.ENOSPC: (Kind.STORAGE_FULL, "free some space (or inodes) and try again"),
    errno.EDQUOT: (Kind.STORAGE_FULL, "free some space or raise the quota and try again"),
    errno.EFBIG: (Kind.STORAGE_FULL, "raise the file size limit (ulimit -f) and try again"),
    errno.EOPNOTSUPP: (Kind.STORAGE_UNSUPPORTED, "keep the graph on a local disk or on an object store"),
    errno.ENOSYS: (Kind.STORAGE_UNSUPPORTED, "keep the graph on a local disk or on an object store"),
    errno.EISDIR: (Kind.STORAGE, "on a disk a name cannot be both an object and a folder"),
    errno.ENOTDIR: (Kind.STORAGE, "on a disk a name cannot be both an object and a folder"),
    errno.EEXIST: (Kind.STORAGE, "on a disk a name cannot be both an object and a folder"),
    errno.ENAMETOOLONG: (Kind.STORAGE, "choose a shorter name"),
    errno.EMFILE: (Kind.STORAGE, "raise the limit of open files (ulimit -n)"),
    errno.ENFILE: (Kind.STORAGE, "the machine has too many open files"),
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
    """What to raise in place of `error`, met while `doing` something (a verb) at `path`."""
    number = error.errno or 0
    if number in _UNREACHABLE:
        kind, remedy = Kind.STORAGE_UNAVAILABLE, "check the network and the file server, then try again"
    else:
        kind, remedy = _BY_ERRNO.get(number, (Kind.STORAGE, "look at the system log"))
    reason = error.strerror or str(error)
    return StorageError(kind, f"could not {doing} {path}: {reason}; {remedy}", outcome=outcome, path=path, errno=number or None)


class Evidence(msgspec.Struct, frozen=True):
    """What an object store's refusal says about itself. `transport` is set when no answer came at all."""

    status: int | None = None
    code: str | None = None
    transport: str | None = None


# obstore keeps status and transport kind out of its exceptions' attributes; they survive only in the fixed rendering of the
# Rust error it appends. Names are escaped there, so an object's name can hold no line break and cannot imitate one.
_STATUS: Final = re.compile(r"\binner: (?:Status|Response) \{\s*\n\s*status: (\d{3})")
_TRANSPORT: Final = re.compile(r"\bHttpError \{\s*\n\s*kind: (\w+)")
_BUILDER: Final = re.compile(r"\breqwest::Error \{\s*\n\s*kind: Builder")
_METADATA: Final = re.compile(r"\buri: Some\(\s*\n\s*http://169\.254\.169\.254/")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_DELETE: Final = re.compile(r"\bDeleteFailed \{\s*\n\s*path: .*\n\s*code: \"(\w+)\"")

_UNSENDABLE: Final = "Builder"
# Our own code: without credentials obstore asks the cloud machine it believes to be on, and that request fails instead.
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
    """Read an obstore exception."""
    text = str(error)
    if _METADATA.search(text):
        return Evidence(code=_NO_CREDENTIALS)
    if refused := _DELETE.search(text):  # one object's answer inside a request for many
        return Evidence(code=refused[1])
    status, transport, code = _STATUS.search(text), _TRANSPORT.search(text), _CODE.search(text)
    return Evidence(
        status=int(status[1]) if status else None,
        code=code[1] if status and code else None,
        transport=_UNSENDABLE if _BUILDER.search(text) else transport[1] if transport else None,
    )


def wrap_obstore_error(error: BaseException, *, doing: str, path: str, write: bool, many: bool = False) -> StorageError:
    """What to raise in place of an obstore exception, met while `doing` something (a verb) at `path`, or to `many` below it."""
    found = evidence(error)
    kind, remedy, refused = _judge(error, found)
    outcome = Outcome.DID_NOT_HAPPEN if not write or (refused and not many) else Outcome.UNKNOWN
    reason = found.code or (f"HTTP status {found.status}" if found.status else str(error).splitlines()[0][:300])
    return StorageError(
        kind, f"could not {doing} {path}: {reason}; {remedy}", outcome=outcome, path=path, status=found.status, code=found.code
    )


def _judge(error: BaseException, found: Evidence) -> tuple[Kind, str, bool]:
    """Kind, remedy, and whether the store refused, so that nothing can have happened."""
    from obstore import exceptions as obstore_errors

    status = found.status or 0
    if found.code in _MISCONFIGURED or 300 <= status < 400:
        return Kind.STORAGE_CONFIGURATION, "check the bucket, the region, the endpoint and the credentials", True
    if found.transport == _UNSENDABLE:
        return Kind.STORAGE_CONFIGURATION, "check the endpoint's URL, and set allow_http for one without TLS", True
    if isinstance(error, obstore_errors.UnauthenticatedError) or status == 401:
        return Kind.STORAGE_CONFIGURATION, "check the credentials", True
    if isinstance(error, obstore_errors.PermissionDeniedError) or status == 403 or found.code == "AccessDenied":
        return Kind.STORAGE_PERMISSION, "check what the credentials are allowed to do in this bucket", True
    if isinstance(error, obstore_errors.NotSupportedError) or status == 501:
        return Kind.STORAGE_UNSUPPORTED, "this object store lacks an operation that a graph needs", True
    if status == 507:
        return Kind.STORAGE_FULL, "the object store is full", True
    if status == 409:
        return Kind.STORAGE_UNAVAILABLE, "others were writing the same object; try again", True
    if status >= 500 or status in (408, 429) or found.transport:
        return Kind.STORAGE_UNAVAILABLE, "check the network and the endpoint, then try again", False
    return Kind.STORAGE, "see the object store's own log", 400 <= status < 500


def never_applied(found: Evidence) -> bool:
    """Is it certain that the request changed nothing and may be sent again? Not even a connection, or an explicit refusal."""
    return found.transport == "Connect" or found.status in (409, 429) or found.code == "SlowDown"
