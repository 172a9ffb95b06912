"""Global flags, at any level of the command line -> one frozen `Flags`; flags and arguments -> the graph of a command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from omnigraph.cli import output
from omnigraph.cli.engine import without_pandas
from omnigraph.errors import InvalidInput, Kind, OmniGraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph, Mode

F = TypeVar("F", bound=Callable[..., Any])

PATH: Final = click.Path(path_type=Path)


class Flags(NamedTuple):
    """The global flags. None means that the flag was not given; an empty text is a value."""

    store: str | None = None
    actor: str | None = None
    storage_options: Mapping[str, str] = MappingProxyType({})
    yes: bool = False
    quiet: bool = False


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store a flag in the context. A context inherits the flags of its parent, so a flag is accepted at any level."""
    name = str(parameter.name)
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        context.obj = context.obj._replace(**{name: value})


def _remember_options(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    pairs = [value.partition("=") for value in values]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.BadParameter(f"{key!r} is not KEY=VALUE", ctx=context, param=parameter)
    added = {key: value for key, _, value in pairs}
    context.obj = context.obj._replace(storage_options={**context.obj.storage_options, **added})


def _be_verbose(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        for name in ("", "omnigraph"):
            logging.getLogger(name).setLevel(logging.DEBUG)


def _flag(*spellings: str, help: str, **more: Any) -> Callable[[F], F]:  # noqa: A002  # click's own name
    return click.option(*spellings, help=help, expose_value=False, **{"callback": _remember, **more})


_GLOBAL: Final = (
    _flag("--store", metavar="URI", help="The storage of the graph: a directory, file:// or s3://bucket/prefix."),
    _flag("--as", "actor", metavar="ACTOR", help="The actor that is recorded in commits."),
    _flag(
        "--storage-option",
        "storage_options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_remember_options,
        help="A setting of the object store. Overrides the AWS_* variables. May be repeated.",
    ),
    _flag("--yes", is_flag=True, help="Confirm a destructive command on a remote graph."),
    _flag("--quiet", is_flag=True, help="Do not print the graph that is written to."),
    _flag("--verbose", is_flag=True, callback=_be_verbose, help="Log to stderr."),
)


def global_flags(command: F) -> F:
    """Add the global flags. Every group and command accepts them; `admit` refuses those that do not apply."""
    for option in reversed(_GLOBAL):
        command = option(command)
    return command


def json_flag(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def message_flag(command: F) -> F:
    return click.option("--message", metavar="TEXT", help="A text that is stored in the commit.")(command)


def external_blobs_flag(command: F) -> F:
    return click.option(
        "--external-blobs",
        multiple=True,
        metavar="BASE",
        help="A directory or s3://bucket/prefix from below which blobs may be copied by their URIs. May be repeated. By default those of "
        "OMNIGRAPH_EXTERNAL_BLOBS.",
    )(command)


def command_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` and the global flags. The command gets the global flags as its first argument."""
    return json_flag(global_flags(click.pass_obj(command)))


class Capability(NamedTuple):
    """What a command accesses: its name in messages, the flags it takes, and a hint for a flag it does not take."""

    phrase: str
    takes: frozenset[str]
    hint: str


DATA: Final = Capability("data", frozenset({"--store", "--as", "--storage-option"}), "leave it out")
HISTORY: Final = Capability("data", frozenset({"--store", "--storage-option"}), "a read has no actor: leave it out")
DIRECT: Final = Capability("direct (storage-native)", frozenset({"--store", "--storage-option"}), "pass a storage URI")
INIT: Final = Capability("direct (storage-native)", frozenset({"--storage-option"}), "pass a storage URI, as the argument")
COPY: Final = Capability(
    "direct (storage-native)", frozenset({"--as", "--storage-option"}), "give both graphs as arguments, SOURCE and TARGET"
)
LOCAL: Final = Capability("local", frozenset(), "it does not address a graph: leave it out")

_ADDRESSES: Final = {
    "--store": "one graph's storage",
    "--as": "the actor of a write",
    "--storage-option": "the object store of a graph",
}


class GraphTarget(NamedTuple):
    """The graph of a command, and the global flags."""

    uri: str
    flags: Flags

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file:")


def admit(flags: Flags, command: str, capability: Capability) -> None:
    """Refuse a flag that does not apply to a command. It is never ignored."""
    given = {"--store": flags.store is not None, "--as": flags.actor is not None, "--storage-option": bool(flags.storage_options)}
    for flag, present in given.items():
        if present and flag not in capability.takes:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"{flag} ({_ADDRESSES[flag]}) does not apply to `{command}`, a {capability.phrase} command; {capability.hint}",
                flag=flag,
                command=command,
            )


def resolve(flags: Flags, command: str, capability: Capability, *, uri: str | None = None, spelled: str | None = "URI") -> GraphTarget:
    """Return the graph of a command. `uri` is its own argument; `spelled` is the name of that argument (None if it has none)."""
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
            "give a directory, file:// or s3://bucket/prefix",
            uri=place,
        )
    return GraphTarget(place, flags)


@contextmanager
def open_graph(target: GraphTarget, *, mode: Mode, for_spark: bool = False, external_blobs: tuple[str, ...] = ()) -> Iterator[Graph]:
    """Open the graph. An error that does not name the graph gets a note that does. The bases replace those of the environment."""
    with nullcontext() if for_spark else without_pandas():
        from omnigraph.graph import open_

    try:
        yield open_(
            target.uri,
            mode=mode,
            actor=target.flags.actor,
            storage_options=target.flags.storage_options,
            external_blobs=external_blobs or None,
        )
    except OmniGraphError as error:
        if target.uri not in error.message:
            error.add_note(f"in the graph {target.uri}")
        raise


def echo_write(target: GraphTarget, command: str) -> None:
    """Print the graph that is about to be written to, so that a wrong URI is noticed."""
    if not target.flags.quiet:
        output.note(f"omnigraph {command} → {target.uri} (direct, {'local' if target.is_local else 'remote'})")


def confirm(target: GraphTarget, command: str, *, as_json: bool) -> None:
    """Ask before a destructive command on a remote graph. Without a terminal, require `--yes`."""
    if target.is_local or target.flags.yes:
        return
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"refusing destructive `{command}` on {target.uri} without consent; pass --yes", uri=target.uri
        )
    answer = output.ask(f"`{command}` on {target.uri} cannot be undone. Continue? [y/N]")
    if answer.strip().lower() not in ("y", "yes"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"`{command}` on {target.uri} was not confirmed; nothing was done", uri=target.uri)
