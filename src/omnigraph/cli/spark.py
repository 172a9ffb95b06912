"""`omnigraph spark`: loads and exports on Apache Spark. Messages of Spark itself go to a file, which is named when Spark fails."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli import output
from omnigraph.cli.load import Wanted, land, loading_flags
from omnigraph.cli.scope import DATA, Flags, global_flags, json_flag, opened, resolve
from omnigraph.cli.spark_session import spark_session


@click.group()
@global_flags
def spark() -> None:
    """Bulk work on Apache Spark. Needs the extra `spark` and Java 17 or newer."""


@spark.command("load")
@click.argument("uri", required=False)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd), as often as there are files, or TYPE=FILE for one type's Parquet or CSV, as often as there are "
    "types. All executors must see them under these paths.",
)
@loading_flags
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. By default local[*].")
@json_flag
@global_flags
@click.pass_obj
def spark_load(
    flags: Flags,
    *,
    uri: str | None,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    from_: str | None,
    token: str | None,
    errors_file: Path | None,
    report_errors: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Load files into a branch with Spark, in one commit."""
    target = resolve(flags, "spark load", DATA, uri=uri)
    wanted = Wanted(data, mode, branch, from_, token, errors_file, report_errors, as_json, engine="spark", master=master)
    land(flags, target, "spark load", wanted)


@spark.command("export")
@click.argument("uri", required=False)
@click.option(
    "--output", "folder", required=True, metavar="FOLDER", help="Where to write: empty, or not there yet; all executors reach it."
)
@click.option("--format", "format_", type=click.Choice(["ndjson", "parquet"]), default="ndjson", show_default=True, help="What to write.")
@click.option("--branch", default="main", show_default=True, help="The branch to export.")
@click.option("--at", metavar="COMMIT_ID", help="This commit, of whatever branch, instead of the newest.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only the node and edge type of this name. May be given many times.")
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, yarn. By default local[*].")
@json_flag
@global_flags
@click.pass_obj
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
    """Write one snapshot as a folder of files, one folder a type."""
    target = resolve(flags, "spark export", DATA, uri=uri)
    with opened(target, mode="r", for_spark=True) as graph, spark_session(master) as running:
        from omnigraph.spark import export as export_files

        options = flags.storage_options
        done = export_files(running, graph, folder, format=format_, branch=branch, at=at, types=types or None, storage_options=options)
    if as_json:
        output.document(
            {"folder": done.folder, "format": done.format.value, "branch": done.branch, "commit_id": done.commit_id}
            | {"rows": done.rows, "files": len(done.files)}
        )
    else:
        output.line(f"exported {sum(done.rows.values())} records of {len(done.rows)} types to {done.folder} in {len(done.files)} files")
