"""Flags that stand before or after the subcommand -> one frozen `Flags`, the nearest to the command winning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])

PATH: Final = click.Path(path_type=Path)


class Flags(NamedTuple):
    """What was said to the whole program. `None` is "not said", which is not the same as an empty text."""

    store: str | None = None
    actor: str | None = None
    storage_options: Mapping[str, str] = MappingProxyType({})
    yes: bool = False
    quiet: bool = False


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """A context inherits the flags of the one around it, so that a flag may stand at any level."""
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
    _flag("--store", metavar="URI", help="The graph's storage: a folder, file:// or s3://bucket/prefix."),
    _flag("--as", "actor", metavar="ACTOR", help="Who writes."),
    _flag(
        "--storage-option",
        "storage_options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_remember_options,
        help="A setting of the object store, over the AWS_* variables. May be given many times.",
    ),
    _flag("--yes", is_flag=True, help="Consent to destructive work on a graph that is not on this machine."),
    _flag("--quiet", is_flag=True, help="Do not say which graph is written to."),
    _flag("--verbose", is_flag=True, callback=_be_verbose, help="Log what happens to stderr."),
)


def global_flags(command: F) -> F:
    """Every group and command takes them all; `scope` refuses those that do not apply."""
    for option in reversed(_GLOBAL):
        command = option(command)
    return command


def json_flag(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)
