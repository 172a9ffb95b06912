"""`omnigraph query`: one read of a `.gq` text -> its rows, as a table or in a form that programs read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.output import FORMATS, printed
from omnigraph.cli.scope import HISTORY, PATH, Flags, global_flags, json_flag, opened, resolve
from omnigraph.errors import InvalidInput, Kind

if TYPE_CHECKING:
    from omnigraph.exec.read.result import Result


@click.command()
@click.argument("name", required=False)
@click.option("--query", "query_file", type=PATH, metavar="FILE", help="A file of queries (.gq); NAME says which, if it holds several.")
@click.option("-e", "--query-string", metavar="GQ", help="The text of the query itself.")
@click.option("--params", metavar="JSON", help='Parameters: one JSON object, as in {"name": "Ada"}.')
@click.option("--params-file", type=PATH, metavar="FILE", help="The same, from a file.")
@click.option("--branch", metavar="BRANCH", help="The branch to read.  [default: main]")
@click.option("--snapshot", "--at", "snapshot", metavar="ID", help="Read the past: a commit id, a manifest version or a time (ISO 8601).")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows are printed.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Give up after so long.")
@click.option("--explain", "only_explain", is_flag=True, help="Print the plan, and do not run it.")
@click.option("--analyze", is_flag=True, help="Run the query, and print the plan with what each step did instead of the rows.")
@click.option("--timing", is_flag=True, help="Say on stderr how long it took.")
@json_flag
@global_flags
@click.pass_obj
def query(
    flags: Flags,
    *,
    name: str | None,
    query_file: Path | None,
    query_string: str | None,
    params: str | None,
    params_file: Path | None,
    branch: str | None,
    snapshot: str | None,
    form: str,
    timeout: float | None,
    only_explain: bool,
    analyze: bool,
    timing: bool,
    as_json: bool,
) -> None:
    """Ask a graph, now or in its past."""
    from omnigraph.cli.texts import query_named, query_source, read_params, shown_in  # here: help needs no compiler

    for one, other, both in ((query_file, query_string, "--query and --query-string"), (params, params_file, "--params and --params-file")):
        if one is not None and other is not None:
            raise click.UsageError(f"{both} are mutually exclusive")
    target = resolve(flags, "query", HISTORY, spelled=None)
    source = query_source(query_file, query_string, what="query")
    selected = query_named(source, name)
    given = read_params(params, params_file)
    place = branch or "main"
    with opened(target, mode="r") as graph, shown_in(source):
        started = time.perf_counter()
        if only_explain or analyze:
            explanation = graph.explain(source.text, selected, given, branch=place, at=moment(snapshot), analyze=analyze, timeout=timeout)
            if as_json:
                output.document(explanation.to_json())
            else:
                output.lines(explanation.text)
        else:
            result = graph.query(source.text, selected, given, branch=place, at=moment(snapshot), timeout=timeout)
            _show(result, form="json" if as_json else form, branch=place, snapshot=snapshot)
        if timing:
            output.note(f"{(time.perf_counter() - started) * 1000:.1f} ms")


def moment(text: str | None) -> str | int | datetime | None:
    """What `--snapshot` names: digits are a manifest version, a date or time is one (UTC unless it says otherwise), the rest a commit."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        if "-" in text or ":" in text:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"--snapshot {text!r} is no commit id, manifest version or time such as 2026-01-31T12:00:00Z"
            ) from None
        return text
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _show(result: Result, *, form: str, branch: str, snapshot: str | None) -> None:
    target = {"branch": branch if snapshot is None else None, "snapshot": snapshot}
    facts = {"query_name": result.query_name, "target": target, "row_count": result.row_count}
    if form == "json":
        columns = {"columns": list(result.columns)} if result.columns else {}
        output.document({**facts, **columns, "rows": result.rows, "graph_commit_id": result.commit_id})
        return
    if form == "jsonl":
        output.compact({"kind": "metadata", **facts})
        for row in result:
            output.compact(row)
        return
    seen = f"branch {branch}" if snapshot is None else f"snapshot {snapshot}"
    headline = f"{result.row_count} rows from {seen} via {result.query_name}"
    for line in printed(form, headline, list(result.columns), [list(values) for values in result.tuples()]):
        output.verbatim(line) if form == "csv" else output.line(line)
