"""`omnigraph mutate`: one mutation of a `.gq` text -> one commit."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli import output
from omnigraph.cli.scope import DATA, PATH, Flags, global_flags, json_flag, opened, resolve
from omnigraph.cli.shapes import commit_document
from omnigraph.errors import PreconditionFailed


@click.command()
@click.argument("name", required=False)
@click.option("--query", "query_file", type=PATH, metavar="FILE", help="A file of queries (.gq); NAME says which, if it holds several.")
@click.option("-e", "--query-string", metavar="GQ", help="The text of the mutation itself.")
@click.option("--params", metavar="JSON", help='Parameters: one JSON object, as in {"name": "Ada"}.')
@click.option("--params-file", type=PATH, metavar="FILE", help="The same, from a file.")
@click.option("--branch", default="main", show_default=True, help="The branch to write to.")
@click.option("--if-commit", metavar="ID", help="Write only if this is the branch's newest commit; else exit with 4.")
@json_flag
@global_flags
@click.pass_obj
def mutate(
    flags: Flags,
    *,
    name: str | None,
    query_file: Path | None,
    query_string: str | None,
    params: str | None,
    params_file: Path | None,
    branch: str,
    if_commit: str | None,
    as_json: bool,
) -> None:
    """Change a graph by one mutation, in one commit."""
    from omnigraph.cli.texts import query_named, query_source, read_params, shown_in  # here: the compiler is not needed to print help

    if query_file is not None and query_string is not None:
        raise click.UsageError("--query and --query-string are mutually exclusive")
    if params is not None and params_file is not None:
        raise click.UsageError("--params and --params-file are mutually exclusive")
    target = resolve(flags, "mutate", DATA, spelled=None)
    source = query_source(query_file, query_string, what="mutation")
    query = query_named(source, name)
    given = read_params(params, params_file)
    try:
        with opened(target, mode="rw") as graph, shown_in(source):
            receipt = graph.mutate(source.text, query, given, branch=branch, if_commit=if_commit)
    except PreconditionFailed as lost:
        if as_json:
            facts = {key: lost.facts[key] for key in ("expected", "actual") if lost.facts.get(key) is not None}
            output.document({"error": lost.message, "precondition_failure": facts})
        raise
    if as_json:
        output.document(
            {
                "branch": branch,
                "query_name": query,
                "affected_nodes": receipt.affected_nodes,
                "affected_edges": receipt.affected_edges,
                "actor_id": flags.actor,
                "commit": commit_document(receipt.commit) if receipt.commit is not None else None,
            }
        )
        return
    output.line(f"changed {branch} via {query}: {receipt.affected_nodes} nodes, {receipt.affected_edges} edges")
    if flags.actor is not None:
        output.line(f"actor_id: {flags.actor}")
