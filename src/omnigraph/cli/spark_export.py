"""`omnigraph spark export`: one snapshot of a graph -> a folder of files that Spark's executors write."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import DATA, opened, resolve
from omnigraph.cli.spark_session import spark_session


@click.command()
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
def export(
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
    with opened(target, mode="r", for_spark=True) as graph, spark_session(master) as spark:
        from omnigraph.spark import export as export_files

        options = flags.storage_options
        done = export_files(spark, graph, folder, format=format_, branch=branch, at=at, types=types or None, storage_options=options)
    if as_json:
        output.document(
            {"folder": done.folder, "format": done.format.value, "branch": done.branch, "commit_id": done.commit_id}
            | {"rows": done.rows, "files": len(done.files)}
        )
    else:
        output.line(f"exported {sum(done.rows.values())} records of {len(done.rows)} types to {done.folder} in {len(done.files)} files")
