"""Global flags, at any level of the command line -> one frozen `Flags`; flags and arguments -> the graph of a command.

Every command names its graph in the same way: as its first argument, with `--store`, with `OMNIGRAPH_STORE`, or with a profile of the
configuration. A command declares the argument `uri` (`graph_argument`), is a `GraphCommand`, and calls `resolve`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from omnigraph.cli import output
from omnigraph.cli.engine import without_pandas
from omnigraph.errors import VALUE_CHARACTERS, InvalidInput, Kind, OmniGraphError, shortened

if TYPE_CHECKING:
    from omnigraph.graph import Graph, Mode

F = TypeVar("F", bound=Callable[..., Any])


class _FilePath(click.Path):
    """The path of a file. An empty text, as of a variable that is not set, is refused: it would stand for the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH: Final = _FilePath(path_type=Path)


STORE_ENVIRONMENT: Final = "OMNIGRAPH_STORE"
_QUERY_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Flags(NamedTuple):
    """The global flags. None means that the flag was not given; an empty text is a value."""

    store: str | None = None
    profile: str | None = None
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
    _flag(
        "--store",
        "--uri",
        "store",
        metavar="URI",
        help="The graph, if it is not the first argument: a directory, file:// or s3://bucket/prefix.  [env: OMNIGRAPH_STORE]",
    ),
    _flag("--profile", metavar="NAME", help="The graph of this profile of the configuration.  [env: OMNIGRAPH_PROFILE]"),
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


def token_flag(command: F) -> F:
    help_ = "A name for this write. A second run with the same name writes nothing and returns the first commit."
    return click.option("--token", metavar="TEXT", help=help_)(command)


graph_argument: Final = click.argument("uri", metavar="[GRAPH]", required=False)


class GivenOnce(click.Command):
    """A command that refuses an option with a value that is given twice. Click would use the last value without a word."""

    def make_parser(self, ctx: click.Context) -> Any:  # a parser of click, whose class is private
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def once(args: list[str]) -> Any:
            given, rest, order = parse(args)
            if not ctx.resilient_parsing:
                _refuse_twice([option for option in order if isinstance(option, click.Option) and not option.multiple], ctx)
            return given, rest, order

        parser.parse_args = once  # type: ignore[method-assign]  # click has no other way in
        return parser


def _refuse_twice(options: Iterable[click.Option], ctx: click.Context) -> None:
    """Refuse a second value of one option. A flag may be repeated."""
    seen: set[str | None] = set()
    for option in options:
        if option.name in seen and not option.is_flag:
            raise click.UsageError(f"{' or '.join(option.opts)} is given twice, and takes one value", ctx)
        seen.add(option.name)


class GraphCommand(GivenOnce):
    """A command on a graph. Its argument `uri` comes first on the command line and may be left out.

    The arguments that a command needs are filled first. What is left over is the graph: with `omnigraph branch create g.omni review`
    there is one argument more than `branch create` needs, so the first is the graph.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        graph = [parameter for parameter in self.params if _is_graph(parameter)]
        self.params = [parameter for parameter in self.params if not _is_graph(parameter)] + graph

    def make_parser(self, ctx: click.Context) -> Any:  # a parser of click, whose class is private
        parser = super().make_parser(ctx)
        names = [str(parameter.name) for parameter in self.params if isinstance(parameter, click.Argument)]
        if any(map(_is_graph, self.params)) and len(names) > 1:
            parse = parser.parse_args

            def graph_first(args: list[str]) -> Any:
                given, rest, order = parse(args)
                words = [given[name] for name in names if isinstance(given.get(name), str)]
                named = isinstance(given.get("store"), str) or isinstance(given.get("profile"), str)
                if len(words) == len(names) or (len(words) == 1 and self._is_graph_alone(words[0], ctx, named=named)):
                    absent = [given[name] for name in names[len(words) :]]
                    given |= dict(zip(names, [*words[1:], *absent, words[0]], strict=True))
                return given, rest, order

            parser.parse_args = graph_first
        return parser

    def _is_graph_alone(self, word: str, ctx: click.Context, *, named: bool) -> bool:
        """Return whether the only argument is the graph, where it may also be the name of a query. `named`: a flag names the graph."""
        if any(parameter.required for parameter in self.params if isinstance(parameter, click.Argument)):
            return False
        above: Flags = ctx.obj or Flags()
        return _QUERY_NAME.fullmatch(word) is None or (not (named or above.store or above.profile) and os.path.isdir(word))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        has_graph = any(map(_is_graph, self.params))
        return [pieces[0], pieces[-1], *pieces[1:-1]] if has_graph else pieces


class GraphGroup(GivenOnce, click.Group):
    """A group whose commands work on a graph."""

    command_class = GraphCommand


def _is_graph(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument) and parameter.name == "uri"


def command_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` and the global flags. The command gets the global flags as its first argument."""
    return json_flag(global_flags(click.pass_obj(command)))


class Capability(NamedTuple):
    """What a command accesses: its name in messages, the flags it takes, and a hint for a flag it does not take."""

    phrase: str
    takes: frozenset[str]
    hint: str


_ADDRESS: Final = frozenset({"--store", "--storage-option", "--profile"})
_WRITE: Final = frozenset({"--yes", "--quiet"})

DATA: Final = Capability("data", _ADDRESS | _WRITE | {"--as"}, "leave it out")
"""Commands that write to a graph."""
READ: Final = Capability("data", _ADDRESS | {"--as"}, "a read writes to no graph: leave it out")
EXPORT: Final = Capability("data", _ADDRESS | {"--as", "--quiet"}, "a read writes to no graph: leave it out")
HISTORY: Final = Capability("data", _ADDRESS, "a read has no actor and writes to no graph: leave it out")
DIRECT: Final = Capability("direct (storage-native)", _ADDRESS | _WRITE, "pass a storage URI")
"""Commands on the storage of a graph."""
LOOK: Final = Capability("direct (storage-native)", _ADDRESS, "a read has no actor and writes to no graph: leave it out")
"""Commands that only look at the storage of a graph."""
INIT: Final = Capability("direct (storage-native)", frozenset({"--storage-option"}), "pass a storage URI, as the argument")
COPY: Final = Capability(
    "direct (storage-native)", frozenset({"--as", "--storage-option", "--quiet"}), "give both graphs as arguments, SOURCE and TARGET"
)
LOCAL: Final = Capability("local", frozenset(), "it does not address a graph: leave it out")
EMBED: Final = Capability("local", frozenset({"--quiet"}), "it does not address a graph: leave it out")

_ADDRESSES: Final = {
    "--store": "one graph's storage",
    "--as": "the actor of a write",
    "--storage-option": "the object store of a graph",
    "--profile": "a scope bundle",
    "--yes": "consent to a destructive write",
    "--quiet": "the line that a write prints about its graph",
}


def takes(capability: Capability) -> Callable[[F], F]:
    """Hide the global flags that a command refuses from its help and from completion. It stands above `global_flags`."""

    def decorate(command: F) -> F:
        for parameter in getattr(command, "__click_params__", ()):
            if isinstance(parameter, click.Option) and not _ADDRESSES.keys().isdisjoint(set(parameter.opts) - capability.takes):
                parameter.hidden = True
        return command

    return decorate


class GraphTarget(NamedTuple):
    """The graph of a command, and the global flags."""

    uri: str
    flags: Flags

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file:")


def admit(flags: Flags, command: str, capability: Capability) -> None:
    """Refuse a flag that does not apply to a command. It is never ignored."""
    given = {
        "--store": flags.store is not None,
        "--as": flags.actor is not None,
        "--profile": flags.profile is not None,
        "--storage-option": bool(flags.storage_options),
        "--yes": flags.yes,
        "--quiet": flags.quiet,
    }
    for flag, present in given.items():
        if present and flag not in capability.takes:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"{flag} ({_ADDRESSES[flag]}) does not apply to `{command}`, a {capability.phrase} command; {capability.hint}",
                flag=flag,
                command=command,
            )


def resolve(flags: Flags, command: str, capability: Capability, *, uri: str | None = None, spelled: str = "GRAPH") -> GraphTarget:
    """Return the graph of a command. `uri` is its own argument, and `spelled` the name of that argument."""
    admit(flags, command, capability)
    if uri is not None and flags.store is not None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{spelled} ({uri}) and --store ({flags.store}) are mutually exclusive; give one of them", uri=uri
        )
    place = uri if uri is not None else flags.store if flags.store is not None else _configured(flags)
    if place is None:
        ways = f"as the first argument, with --store URI, with the variable {STORE_ENVIRONMENT}, or with a profile (--profile NAME)"
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"no graph addressed: name it {ways}{_taken_otherwise()}", command=command)
    if place.lower().startswith(("http://", "https://")):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{place} is the address of a server (for --server, which this release does not have), and this needs direct storage access: "
            "give a directory, file:// or s3://bucket/prefix",
            uri=place,
        )
    return GraphTarget(place, flags)


def _taken_otherwise() -> str:
    """Return what the arguments were taken for, if there are any: perhaps one of them was meant to be the graph."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    arguments = [parameter for parameter in context.command.params if isinstance(parameter, click.Argument) and not _is_graph(parameter)]
    given = [(one.human_readable_name, context.params.get(str(one.name))) for one in arguments]
    taken = [f"{shortened(value, VALUE_CHARACTERS)!r} was taken for {name}" for name, value in given if isinstance(value, str)]
    return f"; {', '.join(taken)}" if taken else ""


def _configured(flags: Flags) -> str | None:
    """Return the graph of `--profile`, of the environment, or of the defaults of the configuration."""
    from omnigraph.cli.config import default_store, profile_store

    if flags.profile is not None:
        return profile_store(flags.profile)
    if (place := os.environ.get(STORE_ENVIRONMENT)) is not None:
        return place
    return default_store()


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
        note = f"in the graph {shortened(target.uri, VALUE_CHARACTERS)}"
        if target.uri not in error.message and note not in getattr(error, "__notes__", ()):  # the shell opens a graph twice
            error.add_note(note)
        raise


def echo_write(target: GraphTarget, command: str) -> None:
    """Print the graph that is about to be written to, so that a wrong URI is noticed."""
    if not target.flags.quiet:
        shown = shortened(target.uri, VALUE_CHARACTERS)
        output.note(f"omnigraph {command} → {shown} (direct, {'local' if target.is_local else 'remote'})")


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
