"""`omnigraph ensure-indices`, `ensure-embeddings`, `verify`, `repair`, `recovery`, `info` and `version`: a graph -> its indexes, vectors,
findings, repairs, recoveries and facts.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import click

from omnigraph import __version__
from omnigraph.cli import output
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DATA,
    DIRECT,
    LOCAL,
    LOOK,
    Flags,
    GivenOnce,
    GraphCommand,
    GraphGroup,
    admit,
    command_flags,
    echo_write,
    global_flags,
    graph_argument,
    json_flag,
    message_flag,
    open_graph,
    resolve,
    takes,
    token_flag,
)
from omnigraph.cli.shapes import embeddings_document, finding_document, indexes_document, recovery_document, repair_document
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.upkeep.embeddings import EmbeddingProgress
    from omnigraph.exec.upkeep.indices import ColumnIndex, IndexProgress
    from omnigraph.exec.upkeep.repair import TableRepair
    from omnigraph.exec.upkeep.verify import Finding


@click.command("ensure-indices", cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch whose tables are indexed.")
@message_flag
@token_flag
@takes(DATA)
@command_flags
def ensure_indices(flags: Flags, *, uri: str | None, branch: str, message: str | None, token: str | None, as_json: bool) -> None:
    """Build missing indexes. The schema declares them."""
    target = resolve(flags, "ensure-indices", DATA, uri=uri)
    echo_write(target, "ensure-indices")
    with open_graph(target, mode="rw") as graph, Line("indexes", quiet=flags.quiet) as line:
        found = graph.ensure_indices(
            branch, message=message, token=token, on_progress=lambda progress: line.draw(_index_progress(progress))
        )
    if as_json:
        output.document({"uri": target.uri, **indexes_document(found)})
        return
    output.line(
        f"indexes of {target.uri} on branch {branch}: {len(found.built)} built, {len(found.present)} present, {len(found.pending)} pending"
    )
    for index in found.indexes:
        output.line(_index_line(index))


def _index_progress(progress: IndexProgress) -> str:
    return f"{progress.at} of {progress.of}: {progress.table} ({', '.join(progress.columns)}), {counted(progress.rows, 'row')}"


def _index_line(index: ColumnIndex) -> str:
    line = f"{index.state:<7} {index.kind:<9} {index.table}.{index.column}"
    if index.reason is not None:
        return f"{line}: {index.reason.text}"
    if index.damage is not None:
        return f"{line}: replaces a damaged index ({index.damage})"
    return f"{line}: {counted(index.uncovered_rows, 'row')} not covered yet" if index.uncovered_rows else line


@click.command("ensure-embeddings", cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch whose vectors are filled.")
@message_flag
@token_flag
@takes(DATA)
@command_flags
def ensure_embeddings(flags: Flags, *, uri: str | None, branch: str, message: str | None, token: str | None, as_json: bool) -> None:
    """Embed the texts whose vectors are missing. They are those of `@embed` properties."""
    target = resolve(flags, "ensure-embeddings", DATA, uri=uri)
    echo_write(target, "ensure-embeddings")
    with open_graph(target, mode="rw") as graph, Line("embeddings", quiet=flags.quiet) as line:
        found = graph.ensure_embeddings(
            branch, message=message, token=token, on_progress=lambda progress: line.draw(_embedding_progress(progress))
        )
    if as_json:
        output.document({"uri": target.uri, **embeddings_document(found)})
        return
    output.line(f"vectors of {target.uri} on branch {branch}: {found.embedded} embedded, {found.pending} pending")
    for each in found.properties:
        by = f" by {each.model}" if each.embedded and each.model else ""
        output.line(f"{each.table}.{each.property}: {each.embedded} embedded{by}, {each.pending} pending, {each.without_text} without text")


def _embedding_progress(progress: EmbeddingProgress) -> str:
    return f"{progress.table}.{progress.property}: {progress.rows:,} of {counted(progress.of, 'row')}"


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--deep", is_flag=True, help="Read every byte, and compare it with the checksums that commits recorded.")
@json_flag
@takes(DIRECT)
@global_flags
@click.pass_context
def verify(context: click.Context, *, uri: str | None, deep: bool, as_json: bool) -> None:
    """Check every branch, kept commit and table of a graph. Writes nothing."""
    flags: Flags = context.obj
    target = resolve(flags, "verify", DIRECT, uri=uri)
    with open_graph(target, mode="r") as graph, Line("verify", quiet=flags.quiet) as line:
        findings = graph.verify(deep=deep, on_progress=lambda progress: line.draw(f"{progress.at} of {progress.of}: {progress.where}"))
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        output.document({"uri": target.uri, "ok": errors == 0, "findings": [finding_document(finding) for finding in findings]})
    else:
        for finding in findings:
            output.line(_finding_line(finding))
        output.line(f"verified {target.uri}: {counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}")
    if errors:
        context.exit(1)


def _finding_line(finding: Finding) -> str:
    shown = f"; shown by {counted(len(finding.commits), 'commit')}" if finding.commits else ""
    on = f", now on {', '.join(finding.branches)}" if finding.branches and finding.commits else ""
    remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.severity.upper()} {finding.code} {finding.where}: {finding.message}{shown}{on}{remedy}"


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch whose tables are looked at.")
@click.option("--confirm", is_flag=True, help="Write the repair. Without it, only say what would be done.")
@click.option("--force", is_flag=True, help="Also publish what another program changed in a table. Needs --confirm.")
@message_flag
@token_flag
@json_flag
@takes(DIRECT)
@global_flags
@click.pass_context
def repair(
    context: click.Context,
    *,
    uri: str | None,
    branch: str,
    confirm: bool,
    force: bool,
    message: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Mend damaged indexes, and tables moved by other programs. Rewrites no row."""
    flags: Flags = context.obj
    target = resolve(flags, "repair", DIRECT, uri=uri)
    if confirm:
        echo_write(target, "repair")
    elif given := [flag for flag, value in (("--force", force or None), ("--message", message), ("--token", token)) if value is not None]:
        raise click.UsageError(f"{' and '.join(given)} of a repair that writes nothing: add --confirm")
    with open_graph(target, mode="rw" if confirm else "r") as graph, Line("repair", quiet=flags.quiet):
        found = graph.repair(branch, confirm=confirm, force=force, message=message, token=token)
    if as_json:
        output.document({"uri": target.uri, **repair_document(found)})
    else:
        for table in found.tables:
            output.line(_repair_line(table, confirm=confirm))
        for finding in found.lost:
            output.line(f"lost: {_finding_line(finding)}")
        done = "repaired" if confirm else "preview of a repair of"
        output.line(f"{done} {target.uri} on branch {branch}: {len(found.refused)} refused, {len(found.lost)} without a remedy")
    if found.refused or found.lost:
        context.exit(1)


def _repair_line(table: TableRepair, *, confirm: bool) -> str:
    line = f"{table.table} version {table.published_version}: {table.classification}"
    if table.operations:
        line += f" ({', '.join(table.operations)} up to version {table.head_version})"
    if table.indexes:
        line += f" ({', '.join(table.indexes)})"
    if table.action == "none":
        return line
    done = "" if confirm or table.action == "refused" else " with --confirm"
    return f"{line}: {table.action}{done}" + (f": {table.error}" if table.error is not None else "")


@click.group(cls=GraphGroup)
@global_flags
def recovery() -> None:
    """Show interrupted writes and how they were resolved."""


@recovery.command("list")
@graph_argument
@takes(LOOK)
@command_flags
def recovery_list(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print the interrupted writes, and how each ended. The newest are first."""
    with open_graph(resolve(flags, "recovery", LOOK, uri=uri), mode="r") as graph:
        found = graph.recoveries()
    if as_json:
        output.document({"recoveries": [recovery_document(one) for one in found]})
        return
    for one in found:
        actor = f" actor={one.actor}" if one.actor is not None else ""
        output.line(
            f"{one.at.isoformat()} {one.outcome} {one.writer} graph_branch={one.branch} "
            f"commit={one.commit_id} operation={one.operation_id}{actor}"
        )
    if not found:
        output.line("(no interrupted writes)")


@click.command(cls=GraphCommand)
@graph_argument
@takes(LOOK)
@command_flags
def info(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print facts about a graph. They are its location and format, and the row counts of main."""
    with open_graph(resolve(flags, "info", LOOK, uri=uri), mode="r") as graph:
        found = graph.info()
    facts = {
        "uri": found.uri,
        "graph_id": found.graph_id,
        "format": found.format,
        "fsync": found.fsync,
        "branches": found.branches,
        "commits": found.commits,
        "python": found.python,
    }
    tables = dict(sorted(found.tables.items()))
    if as_json:
        output.document({**facts, "tables": tables})
        return
    output.fields({**facts, **tables})


DEPENDENCIES = ("pylance", "pyarrow", "obstore", "pyspark")


@click.command(cls=GivenOnce)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with the versions of the dependencies.")
@takes(LOCAL)
@global_flags
@click.pass_obj
def version(flags: Flags, *, as_json: bool) -> None:
    """Print the version."""
    admit(flags, "version", LOCAL)
    if not as_json:
        output.line(f"omnigraph {__version__}")
        return
    packages = {name: found for name in DEPENDENCIES if (found := _installed(name)) is not None}
    output.document({"version": __version__, "python": platform.python_version(), "packages": packages})


def _installed(name: str) -> str | None:
    from importlib import metadata  # 25 ms that only --json needs

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
