"""`omnigraph spark`: loads and exports on Apache Spark. Spark logs to a file, which is named if Spark fails."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli import output
from omnigraph.cli.load import LoadRequest, loading_flags, run_load, spark_session
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, READ, Flags, GraphGroup, command_flags, global_flags, graph_argument, open_graph, resolve, takes
from omnigraph.grid import counted


@click.group(cls=GraphGroup)
@global_flags
def spark() -> None:
    """Load and export on Apache Spark. Needs the extra `spark` and Java 17 or newer."""


@spark.command("load")
@graph_argument
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd), or TYPE=FILE for Parquet or CSV of one type. May be repeated. All executors must have access "
    "to these paths.",
)
@loading_flags
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. By default local[*].")
@takes(DATA)
@command_flags
def spark_load(
    flags: Flags,
    *,
    uri: str | None,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    from_: str | None,
    token: str | None,
    message: str | None,
    external_blobs: tuple[str, ...],
    errors_file: Path | None,
    report_errors: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Load files into a branch with Spark, in one commit."""
    target = resolve(flags, "spark load", DATA, uri=uri)
    request = LoadRequest(
        data, mode, branch, from_, token, message, errors_file, report_errors, as_json, external_blobs, engine="spark", master=master
    )
    run_load(flags, target, "spark load", request)


@spark.command("export")
@graph_argument
@click.option("--output", "folder", required=True, metavar="FOLDER", help="A new or empty directory. All executors must have access to it.")
@click.option("--format", "format_", type=click.Choice(["ndjson", "parquet"]), default="ndjson", show_default=True, help="The file format.")
@click.option("--branch", default="main", show_default=True, help="The branch to export.")
@click.option("--at", metavar="COMMIT_ID", help="The commit to export, of any branch. The default is the newest commit of the branch.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Export only this node or edge type. May be repeated.")
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, yarn. By default local[*].")
@takes(READ)
@command_flags
def spark_export(
    flags: Flags,
    *,
    uri: str | None,
    folder: str,
    format_: str,
    branch: str,
    at: str | None,
    types: tuple[str, ...],
    master: str | None,
    as_json: bool,
) -> None:
    """Write one snapshot to a directory. It gets one subdirectory for each type."""
    target = resolve(flags, "spark export", READ, uri=uri)
    with open_graph(target, mode="r", for_spark=True) as graph, spark_session(master) as running, Line("export", quiet=flags.quiet):
        from omnigraph.spark import export as export_files

        options = flags.storage_options
        done = export_files(running, graph, folder, format=format_, branch=branch, at=at, types=types or None, storage_options=options)
    if as_json:
        output.document(
            {"folder": done.folder, "format": done.format.value, "branch": done.branch, "commit_id": done.commit_id}
            | {"rows": done.rows, "files": len(done.files)}
        )
    else:
        records = f"{counted(sum(done.rows.values()), 'record')} of {counted(len(done.rows), 'type')}"
        output.line(f"exported {records} to {done.folder} in {counted(len(done.files), 'file')}")
