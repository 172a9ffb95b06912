"""`omnigraph version`: which release this is, and which versions of what it stands on."""

from __future__ import annotations

import platform

import click

from omnigraph import __version__
from omnigraph.cli import output

STANDS_ON = ("pylance", "pyarrow", "obstore", "pyspark")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with the versions of what omnigraph stands on.")
def version(*, as_json: bool) -> None:
    """Print the version."""
    if not as_json:
        output.line(f"omnigraph {__version__}")
        return
    packages = {name: found for name in STANDS_ON if (found := _installed(name)) is not None}
    output.document({"version": __version__, "python": platform.python_version(), "packages": packages})


def _installed(name: str) -> str | None:
    from importlib import metadata  # 25 ms that only --json needs

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
