"""`omnigraph spark`: work that outgrows one process, on Apache Spark."""

from __future__ import annotations

import click

from omnigraph.cli.flags import global_flags
from omnigraph.cli.spark_export import export
from omnigraph.cli.spark_load import load


@click.group()
@global_flags
def spark() -> None:
    """Bulk work on Apache Spark. Needs the extra `spark` and Java 17 or newer."""


spark.add_command(export)
spark.add_command(load)
