"""`omnigraph query`, `mutate` and `lint`: one query of a `.gq` text -> its rows or one commit; a file of queries -> a report.

The compiler and the engine are imported inside functions: `--help` must not load them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from omnigraph.cli import output
from omnigraph.cli.files import draw_errors, read_source
from omnigraph.cli.numbers import Seconds
from omnigraph.cli.output import FORMATS
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DATA,
    HISTORY,
    LOOK,
    PATH,
    F,
    Flags,
    GraphCommand,
    admit,
    command_flags,
    external_blobs_flag,
    global_flags,
    graph_argument,
    message_flag,
    open_graph,
    resolve,
    takes,
    token_flag,
)
from omnigraph.cli.shapes import commit_document
from omnigraph.errors import InvalidInput, Kind, LanguageError, PreconditionFailed
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.answers import Receipt
    from omnigraph.catalog import Catalog
    from omnigraph.exec.read.result import Result
    from omnigraph.lang import Source
    from omnigraph.plan.lint import LintReport, SchemaSource

_TEXT_OPTIONS: Final = (
    click.argument("name", required=False),
    graph_argument,
    click.option("--query", "query_file", type=PATH, metavar="FILE", help="A file of queries (.gq). NAME selects one if it has several."),
    click.option("-e", "--query-string", metavar="GQ", help="The text of the query itself."),
    click.option("--params", metavar="JSON", help='Parameters: one JSON object, as in {"name": "Ada"}.'),
    click.option("--params-file", type=PATH, metavar="FILE", help="A file that holds the parameters."),
)


def _text_options(command: F) -> F:
    """Add the options that `query` and `mutate` share."""
    for option in reversed(_TEXT_OPTIONS):
        command = option(command)
    return command


@click.command(cls=GraphCommand)
@_text_options
@click.option("--branch", metavar="BRANCH", help="The branch to read.  [default: main]")
@click.option("--snapshot", "--at", "snapshot", metavar="ID", help="Read the past: a commit id, a manifest version or a time (ISO 8601).")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="The format of the rows.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), metavar="SECONDS", help="Stop the query after this time.")
@click.option("--explain", "only_explain", is_flag=True, help="Print the plan. The query is not run.")
@click.option("--analyze", is_flag=True, help="Run the query, and print the plan with what each step did instead of the rows.")
@click.option("--timing", is_flag=True, help="Print the elapsed time to stderr.")
@click.option("--draw", "drawing_file", type=PATH, metavar="FILE", help="Draw the nodes of the rows, and their edges: .svg or .html.")
@takes(HISTORY)
@command_flags
def query(
    flags: Flags,
    *,
    uri: str | None,
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
    drawing_file: Path | None,
    as_json: bool,
) -> None:
    """Query a graph, as it is now or as it was."""
    _refuse_both(query_file, query_string, params, params_file)
    if drawing_file is not None:
        from omnigraph.cli.draw import check_path

        if only_explain or analyze:
            raise click.UsageError("--draw needs rows, which --explain and --analyze do not print")
        check_path(drawing_file)
    target = resolve(flags, "query", HISTORY, uri=uri)
    source = query_source(query_file, query_string, what="query")
    selected = query_named(source, name)
    given = read_params(params, params_file)
    place = "main" if branch is None else branch
    with open_graph(target, mode="r") as graph, draw_errors(source):
        started = time.perf_counter()
        if only_explain or analyze:
            with Line("query", quiet=flags.quiet):
                explanation = graph.explain(
                    source.text, selected, given, branch=place, at=parse_moment(snapshot), analyze=analyze, timeout=timeout
                )
            if as_json:
                output.document(explanation.to_json())
            else:
                output.lines(explanation.text)
        else:
            with Line("query", quiet=flags.quiet):
                result = graph.query(source.text, selected, given, branch=place, at=parse_moment(snapshot), timeout=timeout)
            if drawing_file is not None:
                catalog = graph.engine.catalog(graph.engine.snapshot(place, parse_moment(snapshot)))
                _draw(result, source, selected, catalog, drawing_file)
            show_result(result, form="json" if as_json else form, branch=place, snapshot=snapshot)
        if timing:
            output.note(f"{(time.perf_counter() - started) * 1000:.1f} ms")


def parse_moment(text: str | None) -> str | int | None:
    """Parse a moment of the past: digits are a manifest version; the rest, a time, a commit or a tag, is read by the engine.

    All ids of commits begin with 0, and no version does: `01` is the beginning of an id.
    """
    is_version = text is not None and text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
    return int(text) if text is not None and is_version else text


def _draw(result: Result, source: Source, name: str, catalog: Catalog, path: Path) -> None:
    from omnigraph.cli.draw import result_drawing, write_drawing
    from omnigraph.lang import parse_queries, select_query
    from omnigraph.plan.check import check_read

    read = check_read(select_query(parse_queries(source.text, name=source.name), name), catalog)
    write_drawing(result_drawing(read, result, f"{counted(result.row_count, 'row')}{_via(result.query_name)}"), path)


def _via(query: str) -> str:
    """The name of the query, if it has one."""
    return f" via {query}" if query else ""


def show_result(result: Result, *, form: str, branch: str, snapshot: str | None) -> None:
    """Print the rows of a read."""
    target = {"branch": branch if snapshot is None else None, "snapshot": snapshot}
    facts = {"query_name": result.query_name, "target": target, "row_count": result.row_count}
    if form == "json":
        columns = {"columns": list(result.columns)} if result.columns else {}
        output.document({**facts, **columns, "rows": iter(result), "graph_commit_id": result.commit_id})
        return
    if form == "jsonl":
        for row in result:
            output.compact(row)
        return
    seen = f"branch {branch}" if snapshot is None else f"snapshot {snapshot}"
    headline = f"{counted(result.row_count, 'row')} from {seen}{_via(result.query_name)}"
    output.rows(form, headline, list(result.columns), [list(values) for values in result.tuples()])


@click.command(cls=GraphCommand)
@_text_options
@click.option("--branch", default="main", show_default=True, help="The branch to write to.")
@click.option("--if-commit", metavar="ID", help="Write only if this is the newest commit of the branch. Otherwise exit with 4.")
@message_flag
@token_flag
@external_blobs_flag
@takes(DATA)
@command_flags
def mutate(
    flags: Flags,
    *,
    uri: str | None,
    name: str | None,
    query_file: Path | None,
    query_string: str | None,
    params: str | None,
    params_file: Path | None,
    branch: str,
    if_commit: str | None,
    message: str | None,
    token: str | None,
    external_blobs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run one mutation, in one commit."""
    _refuse_both(query_file, query_string, params, params_file)
    target = resolve(flags, "mutate", DATA, uri=uri)
    source = query_source(query_file, query_string, what="mutation")
    query = query_named(source, name)
    given = read_params(params, params_file)
    try:
        with open_graph(target, mode="rw", external_blobs=external_blobs) as graph, draw_errors(source), Line("mutate", quiet=flags.quiet):
            receipt = graph.mutate(source.text, query, given, branch=branch, if_commit=if_commit, message=message, token=token)
    except PreconditionFailed as lost:
        if as_json:
            facts = {key: lost.facts[key] for key in ("expected", "actual") if lost.facts.get(key) is not None}
            output.document({"error": lost.message, "precondition_failure": facts})
        raise
    if as_json:
        output.document(
            {
                "branch": branch,
                "query_name": query,
                "affected_nodes": receipt.affected_nodes,
                "affected_edges": receipt.affected_edges,
                "actor_id": flags.actor,
                "commit": commit_document(receipt.commit) if receipt.commit is not None else None,
            }
        )
        return
    show_receipt(receipt, branch=branch, query=query)
    if flags.actor is not None:
        output.line(f"actor_id: {flags.actor}")


def show_receipt(receipt: Receipt, *, branch: str, query: str) -> None:
    """Print what a mutation changed."""
    output.line(f"changed {branch}{_via(query)}: {counted(receipt.affected_nodes, 'node')}, {counted(receipt.affected_edges, 'edge')}")


# -- texts and parameters


def _refuse_both(query_file: Path | None, query_string: str | None, params: str | None, params_file: Path | None) -> None:
    for one, other, both in ((query_file, query_string, "--query and --query-string"), (params, params_file, "--params and --params-file")):
        if one is not None and other is not None:
            raise click.UsageError(f"{both} are mutually exclusive")


def query_source(path: Path | None, text: str | None, *, what: str) -> Source:
    """Return the text of `--query` or `--query-string`. `what` is the noun for it in messages."""
    from omnigraph.lang import Source

    if path is not None:
        return read_source(path, what="query file")
    if text is None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"by-name invocation needs a server, and this release has none: give the {what} with --query FILE or -e GQ",
        )
    if not text.strip():
        raise InvalidInput(Kind.INVALID_ARGUMENT, "--query-string must not be empty")
    return Source(text, "--query-string")


def query_named(source: Source, name: str | None) -> str:
    """Return the name of the query that `name` selects. None selects the only query of the text."""
    from omnigraph.lang import parse_queries, select_query

    with draw_errors(source):
        file = parse_queries(source.text, name=source.name)
    try:
        return select_query(file, name).name.text
    except InvalidInput as error:
        how = " (NAME, the command's argument)" if name is None and file.queries else ""
        raise InvalidInput(error.kind, f"{source.name}: {error.message}{how}", **error.facts) from None


def read_params(text: str | None, path: Path | None) -> dict[str, object] | None:
    """Return the JSON object of `--params` or of the file of `--params-file`."""
    from omnigraph.lang import Source

    if text is not None:
        source = Source(text, "--params")
    elif path is not None:
        source = read_source(path, what="parameter file")
    else:
        return None
    params = json_value(source)
    if not isinstance(params, dict):
        raise _invalid(source, 'params must be a JSON object, as in {"name": "Ada"}')
    return params


def json_value(source: Source) -> object:
    """Return the one JSON value of a text."""
    try:
        return json.loads(source.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _invalid(source, f"invalid JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise _invalid(source, "invalid JSON: it is nested too deeply") from error
    except ValueError as error:
        raise _invalid(source, f"invalid JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _invalid(source: Source, message: str, **position: int) -> InvalidInput:
    at = "".join(f":{number}" for number in position.values())
    return InvalidInput(Kind.INVALID_ARGUMENT, f"{source.name}{at}: {message}", source=source.name, **position)


# -- lint


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--query", "query_files", type=PATH, required=True, multiple=True, metavar="FILE", help="A query file. May be repeated.")
@click.option("--schema", "schema_file", type=PATH, metavar="FILE", help="The schema file to check against, instead of a graph's schema.")
@click.option("--branch", default="main", show_default=True, help="The branch of the graph that has the schema.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@takes(LOOK)
@global_flags
@click.pass_context
def lint(
    context: click.Context, *, uri: str | None, query_files: tuple[Path, ...], schema_file: Path | None, branch: str, as_json: bool
) -> None:
    """Check every query of a file against a schema. Exits with 1 if a query has an error."""
    import msgspec

    from omnigraph.plan.lint import LintStatus
    from omnigraph.plan.lint import lint as report_on

    catalog, schema = _linted_against(context.obj, uri, schema_file, branch)
    sources = [read_source(file, what="query file") for file in query_files]
    reports = [report_on(source.text, catalog, query_path=source.name, schema_source=schema) for source in sources]
    failed = any(report.status is LintStatus.ERROR for report in reports)
    if as_json:
        documents = [msgspec.to_builtins(report) for report in reports]
        output.document(documents[0] if len(documents) == 1 else {"status": "error" if failed else "ok", "reports": documents})
    else:
        for source, report in zip(sources, reports, strict=True):
            if len(sources) > 1:
                output.line(f"FILE  {source.name}")
            for line in _report_lines(report):
                output.line(line)
            for error in _language_errors(source, catalog):
                output.error(str(error))
    if failed:
        context.exit(1)


def _linted_against(flags: Flags, uri: str | None, schema_file: Path | None, branch: str) -> tuple[Catalog, SchemaSource]:
    """Return the schema of a file or of a graph."""
    from omnigraph.cli.schema import catalog_of
    from omnigraph.plan.lint import SchemaSource

    if schema_file is not None:
        if uri is not None or flags.store is not None:
            raise click.UsageError("queries are checked against one schema: give --schema FILE, or a graph")
        admit(flags, "lint", LOOK)
        return catalog_of(schema_file), SchemaSource("file", str(schema_file))
    try:
        target = resolve(flags, "lint", LOOK, uri=uri)
    except InvalidInput as error:
        if "no graph addressed" not in error.message:
            raise
        what = "queries are checked against a schema: name its file with --schema FILE, or a graph"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what) from None
    with open_graph(target, mode="r") as graph:
        return graph.engine.catalog(graph.engine.snapshot(branch)), SchemaSource("graph", uri=target.uri)


def _report_lines(report: LintReport) -> Iterator[str]:
    labels = {"error": "ERROR", "warning": "WARN ", "info": "INFO "}
    for result in report.results:
        if result.error is None:
            yield f"OK    query `{result.name}` ({result.kind})"
        else:
            yield f"ERROR query `{result.name}`: {result.error}"
        yield from (f"WARN  query `{result.name}`: {warning}" for warning in result.warnings)
    yield from (f"{labels[finding.severity]} {finding.code} {finding.message}" for finding in report.findings)
    counts = f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}, {counted(report.infos, 'info item')}"
    yield f"INFO  Lint complete: {counted(report.queries_processed, 'query')} processed ({counts})"


def _language_errors(source: Source, catalog: Catalog) -> Iterator[LanguageError]:
    """Yield every error of the report with its position in the text. The report has only messages."""
    from omnigraph.lang import located, parse_queries
    from omnigraph.plan.check import check

    try:
        queries = parse_queries(source.text, name=source.name).queries
    except LanguageError as error:
        yield error
        return
    for query in queries:
        try:
            with located(source):
                check(query, catalog)
        except LanguageError as error:
            yield error
