"""`omnigraph verify`: a graph -> what is wrong with it, and exit code 1 if anything is."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DIRECT, opened, resolve


@click.command()
@click.argument("uri", required=False)
@click.option("--deep", is_flag=True, help="Read every byte that a branch shows: rows, blobs, indexes, versions.")
@json_flag
@global_flags
@click.pass_context
def verify(context: click.Context, *, uri: str | None, deep: bool, as_json: bool) -> None:
    """Check every branch and every table of a graph. Reads only."""
    flags: Flags = context.obj
    target = resolve(flags, "verify", DIRECT, uri=uri)
    with opened(target, mode="r") as graph, Line(quiet=flags.quiet) as line:
        findings = graph.verify(deep=deep, on_progress=lambda progress: line.draw(f"{progress.at} of {progress.of}: {progress.where}"))
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        shown = [{"severity": f.severity.value, "code": f.code, "message": f.message, "where": f.where} for f in findings]
        output.document({"uri": target.uri, "ok": errors == 0, "findings": shown})
    else:
        for finding in findings:
            output.line(f"{finding.severity.upper()} {finding.code} {finding.where}: {finding.message}")
        output.line(f"verified {target.uri}: {errors} errors, {len(findings) - errors} warnings")
    if errors:
        context.exit(1)
