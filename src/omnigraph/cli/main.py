"""Arguments -> one command, its exit code, and error messages. Imports neither the engine nor the compiler."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from traceback import walk_tb
from typing import NoReturn

import click

from omnigraph import __version__
from omnigraph.cli import merge as _merge  # noqa: F401  # adds commands to `branch` and `commit`
from omnigraph.cli import output
from omnigraph.cli.changes import log as entity_log
from omnigraph.cli.cleanup import cleanup
from omnigraph.cli.completion import VARIABLE, complete, completion
from omnigraph.cli.data import blob, copy, export
from omnigraph.cli.embed import embed
from omnigraph.cli.feed import changes
from omnigraph.cli.history import branch, commit, snapshot, tag
from omnigraph.cli.load import load
from omnigraph.cli.optimize import optimize
from omnigraph.cli.queries import lint, mutate, query
from omnigraph.cli.schema import init, schema
from omnigraph.cli.scope import Flags, GraphGroup, global_flags
from omnigraph.cli.shell import shell
from omnigraph.cli.spark import spark
from omnigraph.cli.upkeep import ensure_embeddings, ensure_indices, info, recovery, repair, verify, version
from omnigraph.errors import OmniGraphError, bounded, status_of
from omnigraph.store.leaving import wait_for_work

INTERRUPTED = 130
LEGEND = """\b
What commands access:
  any     a graph at any location   shell, query, mutate, load, export, blob,
                                    schema, branch, tag, commit, log, changes,
                                    snapshot, ensure-indices,
                                    ensure-embeddings, spark
  direct  a graph's storage         init, copy, info, lint, optimize, verify,
                                    repair, cleanup, recovery
  local   no graph                  embed, completion, version"""

log = logging.getLogger(__name__)


@click.group(cls=GraphGroup, context_settings={"help_option_names": ["-h", "--help"], "obj": Flags()}, epilog=LEGEND)
@click.version_option(__version__, "-v", "--version", prog_name="omnigraph", message="%(prog)s %(version)s")
@global_flags
def cli() -> None:
    """A typed property graph on plain Lance datasets that branches, merges and travels in time like Git."""


_COMMANDS = (
    *(
        blob,
        branch,
        changes,
        cleanup,
        commit,
        completion,
        copy,
        embed,
        ensure_embeddings,
        ensure_indices,
        entity_log,
        export,
        info,
        init,
        lint,
    ),
    *(lint, load, mutate, optimize, query, recovery, repair, schema, shell, snapshot, spark, tag, verify, version),
)
for _command in _COMMANDS:
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    _replace_closed_streams()
    try:
        code = run(list(sys.argv[1:] if arguments is None else arguments))
    except BaseException:  # noqa: BLE001  # neither our error nor a bug, such as SystemExit: print it as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    _leave(code)


def _replace_closed_streams() -> None:
    """Occupy the descriptors of standard streams that the caller closed, as with `>&-`.

    Otherwise a file of the graph would get the number 1 or 2, and what a library prints would be written into it. A write to a closed
    stdout fails, so that a result is not lost without a word. What is written to a closed stderr is dropped.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _leave(code: int) -> NoReturn:
    """Run the exit handlers, flush the streams and end the process without finalizing the interpreter.

    The threads of Lance and Arrow live as long as the process. A thread that calls into a finalizing interpreter aborts the process.
    A read that exceeded its timeout is not awaited.
    """
    try:
        atexit.unregister(wait_for_work)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with suppress(OSError, ValueError):  # the reader is gone; `run` has reported it if it could
                    stream.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        os._exit(code)


def run(arguments: list[str]) -> int:
    """Run one command. Every failure becomes an exit code and a message. A traceback is printed only with --verbose."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("omnigraph").setLevel(logging.WARNING)  # our warnings concern the user: a damaged index, for example
    as_json = "--json" in arguments
    try:
        if (asked := os.environ.get(VARIABLE)) is not None:
            return complete(cli, asked)
        _refuse_bytes(arguments)
        code = _invoke(arguments)
        output.flush()
        return code
    except (click.exceptions.Abort, KeyboardInterrupt):
        output.interrupted()
        return INTERRUPTED
    except click.ClickException as error:
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the help text
            error.message = bounded(error.message)  # type: ignore[misc]  # each of its classes has a format of its own
        error.show()
        output.usage(error.format_message(), as_json=as_json)
        return error.exit_code
    except output.OutputError as failed:
        output.output_failure(failed)
        return 1
    except OmniGraphError as error:
        log.debug("failed", exc_info=True)
        output.failure(error, as_json=as_json)
        return status_of(error).exit_code
    except Exception as error:  # a bug
        log.debug("failed", exc_info=True)
        output.unexpected(error)
        return 1


def _invoke(arguments: list[str]) -> int:
    """Run one command and return its exit code. Click's own `main` would leave the process when a pipe is closed."""
    try:
        with cli.make_context("omnigraph", arguments) as context:
            code: int | None = cli.invoke(context)
            return code or 0
    except click.exceptions.Exit as left:
        return left.exit_code
    except OSError as failed:
        if [frame for frame, _ in walk_tb(failed.__traceback__)][-1].f_code is click.echo.__code__:
            raise output.OutputError(failed) from failed  # a help text or the version, which click prints itself
        raise


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8 text, for all commands: names, actors and URIs are text."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"argument {argument!r} is not UTF-8 text") from None


if __name__ == "__main__":
    main()
