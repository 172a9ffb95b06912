"""`omnigraph spark load`: files that Spark's executors read -> one commit, or a list of what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.flags import PATH, Flags, global_flags, json_flag
from omnigraph.cli.loading import Wanted, land
from omnigraph.cli.scope import DATA, resolve


@click.command()
@click.argument("uri", required=False)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd), as often as there are files, or TYPE=FILE for one type's Parquet or CSV, as often as there are "
    "types. All executors must see them under these paths.",
)
@click.option(
    "--mode",
    required=True,
    type=click.Choice(["overwrite", "append", "merge"]),
    help="What becomes of rows whose ids are there: replaced with their whole type, refused, or replaced one by one.",
)
@click.option("--branch", default="main", show_default=True, help="The branch to load into.")
@click.option("--from", "from_", metavar="BRANCH", help="Make the branch from this one if it is not there.")
@click.option("--token", help="A name for this load: run again with the same one, it answers with the first commit and writes nothing.")
@click.option("--errors", "errors_file", type=PATH, metavar="FILE", help="Where to write what is wrong with the records, as NDJSON.")
@click.option("--report-errors", type=click.IntRange(min=1), default=100, show_default=True, help="How many problems to report.")
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. By default local[*].")
@json_flag
@global_flags
@click.pass_obj
def load(
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
