"""A graph's URI -> its canonical form. The name of an object -> the same name, checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from omnigraph.errors import InvalidInput, Kind, Unsupported, redacted

# The suffix of temporary files, which an interrupted local write leaves behind. No object may have it, so that listings can skip them.
RESIDUE: Final = ".omnigraph-tmp"

Names = list[str]
"""The result of a listing. A class with a method `list` cannot use `list[str]` in annotations."""

First = Callable[[Callable[[], None]], None]
"""What runs before an object becomes visible. Its argument flushes the object's bytes, and may run beside other flushes."""

_S3: Final = "s3://"
_MEMORY: Final = "memory://"


def nothing_to_flush() -> None:
    """The flush of an object whose store keeps what it acknowledged, or that need not be durable."""


def canonical_uri(uri: str) -> str:
    """The canonical form of a URI: an absolute path without symlinks for a directory, else without a trailing slash (A-08, A-12)."""
    if not uri or not _is_text(uri):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{uri!r} is not a URI; use a directory, file://, s3://bucket/prefix or memory://name", uri=uri
        )
    if uri.startswith("file:"):
        return _directory(_file_path(uri))
    if "://" not in uri:
        return _directory(uri)
    if uri.startswith(_S3):
        s3_place(uri)
        return uri.removesuffix("/")
    if uri.startswith(_MEMORY):
        return _memory_name(uri)
    clean = redacted(uri)
    raise Unsupported(Kind.UNSUPPORTED, f"cannot store a graph at {clean!r}; use a directory, file://, s3:// or memory://", uri=clean)


def _directory(path: str) -> str:
    """The absolute path of a directory. One that Lance cannot store tables below is refused."""
    try:
        real = os.path.realpath(path)
    except FileNotFoundError:  # only a relative path needs it
        message = f"the working directory of this process no longer exists, so that {path!r} has no meaning; change to another directory"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, path=path) from None
    if wrong := next((character for character in real if character < " " or character in "\x7f?"), None):
        what = "'?'" if wrong == "?" else f"the control character {wrong!r}"
        message = f"{real!r} has {what} in it, and branches of tables cannot be stored below such a directory; rename it"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, path=real)
    return real


def is_local(canonical: str) -> bool:
    return "://" not in canonical


def s3_place(uri: str) -> tuple[str, str]:
    """The bucket and the key prefix of an `s3://` URI, decoded as Lance decodes them, so that both write to the same location."""
    bucket, _, encoded = uri.removeprefix(_S3).removesuffix("/").partition("/")
    prefix = unquote(encoded, errors="surrogateescape")
    if "@" in bucket:
        clean = redacted(uri)
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{clean!r} contains credentials; pass them in storage_options instead", uri=clean)
    # Lance silently truncates a URI at '#' and '?', and would write its tables to another location than our objects.
    if not bucket or "#" in uri or "?" in uri or (encoded and _broken(prefix)):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{uri!r} is not a valid location; use s3://bucket/prefix without '#', '?', '//' or dot segments",
            uri=uri,
        )
    return bucket, prefix


def check_path(path: str) -> str:
    """Returns `path` if it names an object below the root, else raises InvalidInput."""
    if not path or _broken(path) or path.endswith(RESIDUE):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{path!r} is not a valid object name; names are relative, '/'-separated, without dot segments, and do not end in {RESIDUE!r}",
            path=path,
        )
    return path


def check_prefix(prefix: str) -> str:
    """Returns `prefix`, checked and without a trailing slash. "" is the root."""
    return check_path(prefix.removesuffix("/")) if prefix else ""


def _broken(path: str) -> bool:
    return not _is_text(path) or any(part in ("", ".", "..") for part in path.split("/"))


def _is_text(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _file_path(uri: str) -> str:
    rest = uri.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{uri!r} names the host {host!r}; file:// supports only this machine", uri=uri)
        rest = slash + below
    if not rest.startswith("/"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{uri!r} is not absolute; use file:///directory", uri=uri)
    return unquote(rest, errors="surrogateescape")


def _memory_name(uri: str) -> str:
    name = uri.removesuffix("/")
    if len(name) <= len(_MEMORY):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{uri!r} has no name; use memory://name", uri=uri)
    return name
