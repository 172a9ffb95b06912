"""What a second process does to a store in the contract tests: `python -m tests.contract.objects_child ROLE JSON`, JSON out."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.store.objects import Objects, open_objects, probe_local

_NOBODY: Final = 65534


def main(role: str, text: str) -> None:
    task = json.loads(text)
    objects = open_objects(task["uri"], storage_options=task.get("options"))
    if task.get("wait"):
        print("ready", flush=True)
        sys.stdin.readline()
    print(json.dumps(ROLES[role](objects, task)), flush=True)


def claim(objects: Objects, task: dict[str, Any]) -> list[str]:
    """Try for every name; which ones were won?"""
    data = task["me"].encode() * task["repeat"]
    return [name for name in task["names"] if objects.put_if_absent(name, data) is not None]


def increment(objects: Objects, task: dict[str, Any]) -> dict[str, int]:
    """Add one to a counter until `times` of them were applied."""
    applied = lost = 0
    while applied < task["times"]:
        found = objects.get_versioned(task["path"])
        assert found is not None
        if objects.put_if_match(task["path"], str(int(found[0]) + 1).encode(), found[1]) is None:
            lost += 1
        else:
            applied += 1
    return {"applied": applied, "lost": lost}


def replace(objects: Objects, task: dict[str, Any]) -> int:
    """Write values of one letter, as many as fit into `seconds`."""
    end = time.monotonic() + task["seconds"]
    written = 0
    while time.monotonic() < end:
        objects.put(task["path"], b"abcdefgh"[written % 8 : written % 8 + 1] * task["size"])
        written += 1
    return written


def put(objects: Objects, task: dict[str, Any]) -> str | None:
    """One write, in the way named by `how`; the environment may hold the fault that ends us."""
    data = task["data"].encode()
    if task["how"] == "put":
        return objects.put(task["path"], data)
    if task["how"] == "put_if_absent":
        return objects.put_if_absent(task["path"], data)
    found = objects.get_versioned(task["path"])
    assert found is not None
    return objects.put_if_match(task["path"], data, found[1])


def denied(objects: Objects, task: dict[str, Any]) -> dict[str, Any]:
    """What each operation says to a user whom the folders' modes refuse. Root is refused nothing, so root becomes nobody."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    return {
        "put": refusal(lambda: objects.put("readonly/new", b"x")),
        "put_if_absent": refusal(lambda: objects.put_if_absent("readonly/new", b"x")),
        "put_if_match": refusal(lambda: objects.put_if_match("readonly/old", b"x", task["token"])),
        "delete": refusal(lambda: objects.delete("readonly/old")),
        "delete_prefix": refusal(lambda: objects.delete_prefix("readonly")),
        "rename": refusal(lambda: objects.rename("readonly/old", "readonly/other")),
        "probe": refusal(lambda: probe_local(open_objects(task["uri"] + "/readonly"))),
        "get": refusal(lambda: objects.get_if_exists("closed/x")),
        "exists": refusal(lambda: objects.exists("closed/x")),
        "exists_folder": refusal(lambda: objects.exists("closed")),
        "list": refusal(lambda: objects.list("closed")),
        "rename_from": refusal(lambda: objects.rename("closed/x", "y")),
        "list_around": objects.list(""),
    }


def fill_up(objects: Objects, task: dict[str, Any]) -> dict[str, Any]:
    """Write more than fits, then something that does."""
    objects.put("keep", b"old")
    if task["limit_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["limit_bytes"], task["limit_bytes"]))
    large = b"x" * (1 << 20)
    refused = [
        refusal(lambda: objects.put("keep", large)),
        refusal(lambda: objects.put_if_absent("new", large)),
        refusal(lambda: objects.put("folder/new", large, sync=True)),
    ]
    left = sorted(name for _, _, files in os.walk(objects.uri) for name in files)
    return {"refused": refused, "left": left, "kept": objects.get("keep").decode(), "small": objects.put("small", b"fits") is not None}


def read_only(objects: Objects, task: dict[str, Any]) -> dict[str, Any]:
    return {"put": refusal(lambda: objects.put("x", b"x")), "probe": refusal(lambda: probe_local(objects)), "list": objects.list("")}


def without_links(objects: Objects, task: dict[str, Any]) -> dict[str, Any]:
    """The kernel refuses hard links from here on, with the error that FAT gives."""
    refuse_links()
    return {
        "probe": refusal(lambda: probe_local(objects)),
        "put_if_absent": refusal(lambda: objects.put_if_absent("x", b"x")),
        "put": objects.put("y", b"y") is not None,
        "left": sorted(os.listdir(objects.uri)),
    }


def refusal(act: Callable[[], object]) -> list[str | None]:
    """The error's class, kind and outcome, or what came back instead of one."""
    try:
        return ["no error", repr(act()), None]
    except OmniGraphError as error:
        return [type(error).__name__, error.kind.value, error.outcome.value if isinstance(error, StorageError) else None]


def refuse_links() -> None:
    """A seccomp filter under which link and linkat fail with EPERM; needs no privilege."""
    numbers = {"x86_64": (86, 265), "aarch64": (37,)}[platform.machine()]
    load_number = struct.pack("HBBI", 0x20, 0, 0, 0)
    checks = [struct.pack("HBBI", 0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    allow, refuse = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), struct.pack("HBBI", 0x06, 0, 0, 0x00050001)
    program = ctypes.create_string_buffer(b"".join([load_number, *checks, allow, refuse]))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(numbers) + 3, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "no_new_privs"
    assert libc.prctl(22, 2, header, 0, 0) == 0, f"seccomp: errno {ctypes.get_errno()}"


ROLES: Final[dict[str, Callable[[Objects, dict[str, Any]], object]]] = {
    "claim": claim,
    "increment": increment,
    "replace": replace,
    "put": put,
    "denied": denied,
    "fill_up": fill_up,
    "read_only": read_only,
    "without_links": without_links,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
