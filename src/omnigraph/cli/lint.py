"""`omnigraph lint`: a query file checked against a schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.scope import LOCAL, PATH, admit, global_flags
from omnigraph.errors import InvalidInput, Kind, LanguageError

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.lang import Source
    from omnigraph.plan.lint import LintReport


@click.command()
@click.option("--query", "query_file", type=PATH, required=True, help="The query file to check.")
@click.option("--schema", "schema_file", type=PATH, help="The schema file to check it against.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@global_flags
@click.pass_context
def lint(context: click.Context, *, query_file: Path, schema_file: Path | None, as_json: bool) -> None:
    """Check every query of a file, and point out what is easy to miss. Exits with 1 when a query is wrong."""
    import msgspec

    from omnigraph.cli.files import read_source
    from omnigraph.cli.schema import catalog_of
    from omnigraph.plan.lint import SchemaSource, Status
    from omnigraph.plan.lint import lint as report_on

    admit(context.obj, "lint", LOCAL)
    if schema_file is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "queries are checked against a schema: name its file with --schema FILE")
    catalog = catalog_of(schema_file)
    source = read_source(query_file, what="query file")
    report = report_on(source.text, catalog, query_path=str(query_file), schema_source=SchemaSource("file", str(schema_file)))
    if as_json:
        output.document(msgspec.to_builtins(report))
    else:
        for line in _report_lines(report):
            output.line(line)
        for error in _language_errors(source, catalog):
            output.error(str(error))
    if report.status is Status.ERROR:
        context.exit(1)


def _report_lines(report: LintReport) -> Iterator[str]:
    labels = {"error": "ERROR", "warning": "WARN ", "info": "INFO "}
    for result in report.results:
        if result.error is None:
            yield f"OK    query `{result.name}` ({result.kind})"
        else:
            yield f"ERROR query `{result.name}`: {result.error}"
        yield from (f"WARN  query `{result.name}`: {warning}" for warning in result.warnings)
    yield from (f"{labels[finding.severity]} {finding.code} {finding.message}" for finding in report.findings)
    counts = f"{report.errors} error(s), {report.warnings} warning(s), {report.infos} info item(s)"
    yield f"INFO  Lint complete: {report.queries_processed} queries processed ({counts})"


def _language_errors(source: Source, catalog: Catalog) -> Iterator[LanguageError]:
    """Every error of the report again, with its place: the report itself has messages only."""
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
