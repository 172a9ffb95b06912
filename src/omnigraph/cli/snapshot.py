"""`omnigraph snapshot`: what a branch shows, table by table."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import DATA, opened, resolve
from omnigraph.cli.shapes import snapshot_document


@click.command()
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch to look at.")
@json_flag
@global_flags
@click.pass_obj
def snapshot(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print which version of every table a branch shows, and how much is in it."""
    target = resolve(flags, "snapshot", DATA, uri=uri)
    from omnigraph.manifest.model import FORMAT

    with opened(target, mode="r") as graph:
        found = snapshot_document(graph.snapshot(branch), format_number=FORMAT)
    if as_json:
        output.document(found)
        return
    datasets = found.pop("datasets")
    output.fields(found)
    assert isinstance(datasets, list)
    for dataset in datasets:
        output.line(
            f"{dataset['entity_kind']} type '{dataset['type_name']}' published_dataset_version={dataset['published_dataset_version']} "
            f"native_dataset_branch={dataset['native_dataset_branch'] or 'main'} entities={dataset['entity_count']}"
        )
