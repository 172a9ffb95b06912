"""`omnigraph load`: files -> one commit, or a list of what is wrong with them."""

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
    help="NDJSON (plain, gzip or zstd; - is stdin), or TYPE=FILE for one type's Parquet or CSV. TYPE=FILE may be given many times.",
)
@loading_flags
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Who does the work: this process, or Spark. auto: Spark past 1 GB of input, if it is installed.",
)
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. Means --engine spark.")
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
    dry_run: bool,
    errors_file: Path | None,
    report_errors: int,
    engine: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Load files into a branch, in one commit."""
    target = resolve(flags, "load", DATA, uri=uri)
    wanted = Wanted(data, mode, branch, from_, token, errors_file, report_errors, as_json, dry_run, engine, master)
    land(flags, target, "load", wanted)
