"""Flags and arguments -> the one graph a command works on; and what is said, or asked, before it is written to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from omnigraph.cli import output
from omnigraph.cli.engine import without_pandas
from omnigraph.cli.flags import Flags
from omnigraph.errors import InvalidInput, Kind, OmniGraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph, Mode


class Capability(NamedTuple):
    """What a command reaches: its phrase in messages, the flags it takes, and a way out for one it does not take."""

    phrase: str
    takes: frozenset[str]
    hint: str


DATA: Final = Capability("data", frozenset({"--store", "--as", "--storage-option"}), "leave it out")
HISTORY: Final = Capability("data", frozenset({"--store", "--storage-option"}), "reading has no actor: leave it out")
DIRECT: Final = Capability("direct (storage-native)", frozenset({"--store", "--storage-option"}), "pass a storage URI")
BIRTH: Final = Capability("direct (storage-native)", frozenset({"--storage-option"}), "pass a storage URI, as the argument")
COPYING: Final = Capability(
    "direct (storage-native)", frozenset({"--as", "--storage-option"}), "give both graphs as arguments, SOURCE and TARGET"
)
LOCAL: Final = Capability("local", frozenset(), "it does not address a graph: leave it out")

_ADDRESSES: Final = {
    "--store": "one graph's storage",
    "--as": "the actor of a write",
    "--storage-option": "the object store of a graph",
}


class Target(NamedTuple):
    """One graph, as it was addressed."""

    uri: str
    flags: Flags

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file:")


def admit(flags: Flags, command: str, capability: Capability) -> None:
    """Refuse a flag that means nothing to a command, instead of leaving it unheard."""
    given = {"--store": flags.store is not None, "--as": flags.actor is not None, "--storage-option": bool(flags.storage_options)}
    for flag, said in given.items():
        if said and flag not in capability.takes:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"{flag} ({_ADDRESSES[flag]}) does not apply to `{command}`, a {capability.phrase} command; {capability.hint}",
                flag=flag,
                command=command,
            )


def resolve(flags: Flags, command: str, capability: Capability, *, uri: str | None = None, spelled: str | None = "URI") -> Target:
    """The graph a command works on. `uri` came with the command itself, in a place `spelled` so in its usage (None: nowhere)."""
    admit(flags, command, capability)
    if uri is not None and flags.store is not None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{spelled} ({uri}) and --store ({flags.store}) are mutually exclusive; give one of them", uri=uri
        )
    place = uri if uri is not None else flags.store
    if place is None:
        ways = "--store URI" if spelled is None else f"{'its URI as an argument' if spelled == 'URI' else f'{spelled} URI'}, or --store URI"
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"no graph addressed: give {ways}", command=command)
    if place.lower().startswith(("http://", "https://")):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{place} is the address of a server (for --server, which this release does not have), and this needs direct storage access: "
            "give a folder, file:// or s3://bucket/prefix",
            uri=place,
        )
    return Target(place, flags)


@contextmanager
def opened(target: Target, *, mode: Mode, for_spark: bool = False) -> Iterator[Graph]:
    """The graph, open. An error that does not name it itself gets a note of which graph it was."""
    with nullcontext() if for_spark else without_pandas():
        from omnigraph.graph import open_

    try:
        yield open_(target.uri, mode=mode, actor=target.flags.actor, storage_options=target.flags.storage_options)
    except OmniGraphError as error:
        if target.uri not in error.message:
            error.add_note(f"in the graph {target.uri}")
        raise


def echo_write(target: Target, command: str) -> None:
    """Say what is about to be written to: the wrong graph is the most expensive typing error."""
    if not target.flags.quiet:
        output.note(f"omnigraph {command} → {target.uri} (direct, {'local' if target.is_local else 'remote'})")


def confirm(target: Target, command: str, *, as_json: bool) -> None:
    """Ask before destroying what others may use. Where nobody can answer, only `--yes` is an answer."""
    if target.is_local or target.flags.yes:
        return
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"refusing destructive `{command}` on {target.uri} without consent; pass --yes", uri=target.uri
        )
    answer = output.ask(f"`{command}` on {target.uri} cannot be undone. Go on? [y/N]")
    if answer.strip().lower() not in ("y", "yes"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"`{command}` on {target.uri} was not confirmed; nothing was done", uri=target.uri)
