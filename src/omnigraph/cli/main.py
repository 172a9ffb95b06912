"""Arguments -> one command, its exit code, and errors as a line a person can act on. Imports nothing heavy."""

from __future__ import annotations

import logging
import sys

import click

from omnigraph import __version__
from omnigraph.cli import output
from omnigraph.cli.lint import lint
from omnigraph.cli.schema import schema
from omnigraph.cli.version import version
from omnigraph.errors import OmniGraphError, status_of

_QUIET_FLAGS = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_QUIET_FLAGS)
@click.version_option(__version__, "-v", "--version", prog_name="omnigraph", message="%(prog)s %(version)s")
@click.option("--verbose", is_flag=True, help="Log what happens to stderr.")
def cli(*, verbose: bool) -> None:
    """A typed property graph on plain Lance datasets that branches, merges and travels in time like Git."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.ERROR, format="%(levelname)s %(name)s: %(message)s")


cli.add_command(lint)
cli.add_command(schema)
cli.add_command(version)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    try:
        # Without standalone mode click returns the code of an early exit instead of raising it.
        sys.exit(cli.main(arguments, standalone_mode=False) or 0)
    except click.exceptions.Abort:
        output.error("interrupted")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OmniGraphError as error:
        output.failure(error, as_json="--json" in (arguments if arguments is not None else sys.argv[1:]))
        sys.exit(status_of(error).exit_code)


if __name__ == "__main__":
    main()
