"""`omnigraph completion`: a shell -> the script that completes our command line in it; the words before the cursor -> the next ones.

The script asks `omnigraph` itself, by a variable in the environment, so that it never lags behind the commands. Neither asking loads
the engine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from omnigraph.cli import output
from omnigraph.cli.scope import LOCAL, Flags, GivenOnce, admit, global_flags, takes

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

VARIABLE: Final = "_OMNIGRAPH_COMPLETE"
"""Set by the scripts, to `bash_complete` and the like."""
SHELLS: Final = ("bash", "zsh", "fish")


@click.command(cls=GivenOnce)
@click.argument("shell", type=click.Choice(SHELLS))
@takes(LOCAL)
@global_flags
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print a script for completion in a shell. It completes commands, options and paths."""
    flags: Flags = context.obj
    admit(flags, "completion", LOCAL)
    asked = _asked(context.find_root().command, shell)
    output.verbatim((asked.source_template % asked.source_vars()).rstrip("\n"))


def complete(root: click.Command, instruction: str) -> int:
    """Print the words that may stand at the cursor, for the script of a shell. Returns the exit code."""
    from click.shell_completion import CompletionItem

    shell, _, action = instruction.partition("_")
    if shell not in SHELLS or action != "complete" or not {"COMP_WORDS", "COMP_CWORD"} <= os.environ.keys():
        return 1
    asked = _asked(root, shell)
    before, begun = asked.get_completion_args()
    found = asked.get_completions(before, begun)
    if not found and not begun.startswith("-"):
        found = [CompletionItem(begun, type="file")]  # a graph, or another path
    output.verbatim("\n".join(asked.format_completion(item) for item in found))
    return 0


def _asked(root: click.Command, shell: str) -> ShellComplete:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(root, {}, "omnigraph", VARIABLE)
