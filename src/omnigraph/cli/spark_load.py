"""`omnigraph spark load`: files that Spark's executors read -> one commit, or a list of what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.loading import Wanted, land, loading_flags
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
@loading_flags
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
