"""`omnigraph shell`: queries, mutations and commands, line by line -> what each prints. Reads from a terminal or from a pipe.

On a terminal an error is printed and the shell goes on; in a pipe the first error ends it, with the exit code of that error.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from omnigraph.cli import output
from omnigraph.cli.files import draw_errors
from omnigraph.cli.progress import Line
from omnigraph.cli.queries import json_value, parse_moment, show_receipt, show_result
from omnigraph.cli.scope import DATA, Flags, GraphCommand, GraphTarget, global_flags, graph_argument, open_graph, resolve, takes
from omnigraph.cli.words import KnownNames, words
from omnigraph.errors import VALUE_CHARACTERS, InvalidInput, Kind, OmniGraphError, shortened
from omnigraph.ids import BranchName

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from omnigraph.graph import Graph
    from omnigraph.lang.query import Query

HELP: Final = """\
A query or a mutation runs when it is whole: at the end of its line, or
after an empty line or a `;` if it has several lines.
\\branch NAME     read and write another branch; without a name, list them
\\at ID           read the past: a commit, a tag, a manifest version or a time;
                 `\\at now` returns
\\explain QUERY   print the plan of a query; without a query, of the last one
\\schema TYPE     print the schema, or one type of it
\\set NAME VALUE  set the parameter $NAME to a JSON value, for the queries that
                 have it; without a name, list what is set
\\unset NAME      take a parameter away
\\timing on|off   print the elapsed time of each query
\\help            print this
\\quit            leave, as Ctrl-D does"""

_SOURCE: Final = "shell"
_WORDS: Final = ("help", "quit", "exit")
"""Lines that no query begins like, and that mean the command, as in other shells."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_OR_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_CONTINUES: Final = re.compile(r"match\b(?!.*\b(?:return|insert|create|upsert|update|delete)\b)", re.DOTALL)


def is_whole(text: str) -> bool:
    """Return whether a text can be run: a command, or a query or a mutation whose last line has been typed.

    A text of one line is whole if its brackets are closed, unless it is a `match` without a `return` or a change. A named query ends with
    its closing brace. Another text of several lines ends with an empty line or a semicolon.
    """
    stripped = text.strip()
    if stripped.startswith("\\"):
        command, _, rest = stripped.partition(" ")
        return command != "\\explain" or not rest or is_whole(text.lstrip()[len(command) :].lstrip(" "))
    bare = _QUOTED_OR_COMMENT.sub("", text).strip()
    if not bare or bare.endswith(";"):
        return True
    if any(bare.count(opening) > bare.count(closing) for opening, closing in ("{}", "()", "[]")):
        return False
    if re.match(r"query\b", bare):
        return "{" in bare
    lines = text.lstrip().split("\n")
    return not lines[-1].strip() if len(lines) > 1 else not _CONTINUES.match(bare)


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Yield the texts that can be run, of lines that come one after another. The end of the input ends the last one."""
    text = ""
    for line in lines:
        text += line
        if is_whole(text.removesuffix("\n")):
            yield text
            text = ""
    if text.strip():
        yield text


class ShellSession:
    """A graph, and where in it the shell stands: the branch, the moment, and whether times are printed."""

    def __init__(self, target: GraphTarget, graph: Graph, *, branch: str, at: str | None, timing: bool) -> None:
        self._target: Final = target
        self._graph: Final = graph
        self._timing = timing
        self._last: str | None = None
        self._parameters: Final[dict[str, object]] = {}
        self._branch, self._at = branch, at
        self._move(branch, at)

    @property
    def prompt(self) -> str:
        place = self._target.uri.rstrip("/").rpartition("/")[2]
        return f"{place}:{self._branch}{'' if self._at is None else f'@{self._at}'}> "

    def known(self) -> KnownNames:
        """Return the names that can be completed."""
        engine = self._graph.engine
        catalog = engine.catalog(engine.manifest.snapshot(BranchName(self._branch)))
        return KnownNames(catalog, self._graph.branches.list(), [tag.name for tag in self._graph.tags.list()], list(self._parameters))

    def run(self, text: str) -> bool:
        """Run a command, a query or a mutation. Returns whether the shell goes on."""
        text = text.strip()
        if not text.startswith("\\"):
            bare = text.removesuffix(";").rstrip()
            if bare not in _WORDS:
                if bare:
                    self._run_query(bare)
                return True
            text = f"\\{bare}"
        command, _, rest = text.partition(" ")
        rest = rest.strip().removesuffix(";").rstrip()
        match command:
            case "\\branch" if rest:
                self._move(rest, None)
            case "\\branch":
                for name in sorted(self._graph.branches.list()):
                    output.line(f"{'*' if name == self._branch else ' '} {name}")
            case "\\at" if rest:
                self._move(self._branch, None if rest == "now" else rest)
            case "\\at":
                output.line(self._at or "now")
            case "\\explain":
                self._explain(rest)
            case "\\schema":
                self._print_schema(rest)
            case "\\set":
                self._set(rest)
            case "\\unset":
                self._unset(rest)
            case "\\timing" if rest and rest not in ("on", "off"):
                raise InvalidInput(Kind.INVALID_ARGUMENT, f"\\timing takes on or off, not {shortened(rest, VALUE_CHARACTERS)}")
            case "\\timing" if rest:
                self._timing = rest == "on"
            case "\\timing":
                output.line("on" if self._timing else "off")
            case "\\help":
                output.lines(HELP)
            case "\\quit" | "\\q" | "\\exit":
                return False
            case _:
                shown = shortened(command, VALUE_CHARACTERS)
                raise InvalidInput(Kind.INVALID_ARGUMENT, f"there is no command {shown}; \\help lists the commands")
        return True

    def _move(self, branch: str, at: str | None) -> None:
        """Go to a branch and a moment that exist."""
        self._graph.snapshot(branch, at=parse_moment(at))
        self._branch, self._at = branch, at

    def _set(self, text: str) -> None:
        from omnigraph.lang import Source

        name, _, value = text.removeprefix("$").partition(" ")
        if not name:
            for each, known in sorted(self._parameters.items()):
                output.line(f"{each} = {json.dumps(known, ensure_ascii=False)}")
            return
        shown = shortened(name, VALUE_CHARACTERS)
        if _NAME.fullmatch(name) is None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f'{shown} is no name of a parameter; write \\set NAME VALUE, such as \\set n "Ada"')
        try:
            self._parameters[name] = json_value(Source(value.strip(), f"\\set {shown}"))
        except InvalidInput as error:
            raise InvalidInput(error.kind, f'{error.message}; a value is JSON, such as "Ada", 1815 or ["a"]', **error.facts) from None

    def _unset(self, text: str) -> None:
        name = text.removeprefix("$")
        if name not in self._parameters:
            what = f"no parameter {shortened(name, VALUE_CHARACTERS)} is set" if name else "\\unset takes the name of a parameter"
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{what}; \\set lists what is set")
        del self._parameters[name]

    @contextmanager
    def _given(self, query: Query) -> Iterator[dict[str, object]]:
        """Yield the parameters of the query that are set. An error for one that is not says how to set it."""
        from omnigraph.plan.check import check

        engine = self._graph.engine
        given: dict[str, object] = {}
        if self._parameters:
            catalog = engine.catalog(engine.snapshot(self._branch, parse_moment(self._at)))
            declared = [parameter.name for parameter in check(query, catalog).parameters]
            given = {name: self._parameters[name] for name in declared if name in self._parameters}
        try:
            yield given
        except InvalidInput as error:
            if isinstance(name := error.facts.get("parameter"), str) and name not in given:
                error.add_note(f"\\set {name} VALUE sets a parameter")
            raise

    def _run_query(self, text: str) -> None:
        from omnigraph.lang import Source, parse_queries, select_query
        from omnigraph.lang.query import Read

        source = Source(text, _SOURCE)
        started = time.perf_counter()
        with draw_errors(source):
            query = select_query(parse_queries(text, name=_SOURCE), None)
            if isinstance(query.body, Read):
                self._last = text
                with self._given(query) as given, Line("query", quiet=self._target.flags.quiet):
                    result = self._graph.query(text, params=given, branch=self._branch, at=parse_moment(self._at))
                show_result(result, form="table", branch=self._branch, snapshot=self._at)
            elif self._at is not None:
                raise InvalidInput(Kind.INVALID_ARGUMENT, f"the past ({self._at}) cannot be changed; `\\at now` returns to the present")
            else:
                with (
                    self._given(query) as given,
                    open_graph(self._target, mode="rw") as graph,
                    Line("mutate", quiet=self._target.flags.quiet),
                ):
                    receipt = graph.mutate(text, params=given, branch=self._branch)
                show_receipt(receipt, branch=self._branch, query=query.name.text)
        if self._timing:
            output.note(f"{(time.perf_counter() - started) * 1000:.1f} ms")

    def _explain(self, text: str) -> None:
        from omnigraph.lang import Source, parse_queries, select_query

        text = text or self._last or ""
        if not text:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "no query has been run yet; \\explain QUERY explains one")
        with draw_errors(Source(text, _SOURCE)), self._given(select_query(parse_queries(text, name=_SOURCE), None)) as given:
            output.lines(self._graph.explain(text, params=given, branch=self._branch, at=parse_moment(self._at)).text)

    def _print_schema(self, name: str) -> None:
        text = self._graph.schema_of(self._branch)
        if name:
            declared = re.search(
                rf"^\s*(?:node|edge|interface)\s+{re.escape(name)}\b.*?(?=^\s*(?:node|edge|interface)\s|\Z)", text, re.M | re.S
            )
            if declared is None:
                from omnigraph.exec.problems import with_hint

                catalog = self.known().catalog
                names = [each.name for each in (*catalog.entities, *catalog.interfaces)]
                shown = shortened(name, VALUE_CHARACTERS)
                raise InvalidInput(Kind.INVALID_ARGUMENT, with_hint(f"the schema has no type '{shown}'", name, names), type=name)
            text = declared.group()
        output.lines(text.strip("\n"))


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch to begin on.")
@click.option("--at", metavar="ID", help="Begin in the past: at a commit id, a tag, a manifest version or a time (ISO 8601).")
@takes(DATA)
@global_flags
@click.pass_obj
def shell(flags: Flags, *, uri: str | None, branch: str, at: str | None) -> None:
    """Query and change a graph interactively. It also takes statements from a pipe."""
    target = resolve(flags, "shell", DATA, uri=uri)
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    with open_graph(target, mode="r") as graph:
        session = ShellSession(target, graph, branch=branch, at=at, timing=is_terminal)
        if is_terminal:
            _interact(session)
            return
        for text in statements(sys.stdin or ()):
            if not session.run(text):
                return


def _interact(session: ShellSession) -> None:
    prompts = _prompts(session)
    output.note("\\help lists the commands, \\quit or Ctrl-D leaves.")
    while True:
        try:
            text = prompts.prompt(session.prompt)
        except EOFError:
            return
        except KeyboardInterrupt:  # Ctrl-C clears what was typed
            continue
        try:
            if not session.run(text):
                return
        except KeyboardInterrupt:
            output.interrupted()
        except OmniGraphError as error:
            output.failure(error, as_json=False)


def _prompts(session: ShellSession) -> PromptSession[str]:
    """Return prompts with a history file, completion by Tab, and Enter that runs a text once it is whole."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # Enter takes the completion that is chosen
        elif buffer.document.is_cursor_at_the_end and is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return PromptSession(
        history=_history(),
        completer=_completer(session),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation=lambda width, line, wraps: "" if wraps else "...> ".rjust(width),
        key_bindings=bindings,
    )


def _history() -> FileHistory | InMemoryHistory:
    """The history in `$OMNIGRAPH_HOME` or ~/.omnigraph, for its owner only. In memory if it cannot be written there."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    home = Path(os.environ.get("OMNIGRAPH_HOME") or "~/.omnigraph").expanduser()
    path = home / "shell_history"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _completer(session: ShellSession) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class ShellCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            try:
                begun, found = words(document.text_before_cursor, session.known())
            except OmniGraphError:
                return  # the query that is being typed will report it
            for word in found:
                yield Completion(word, start_position=-len(begun))

    return ShellCompleter()
