"""`omnigraph init` and `schema`: a schema file -> a new graph, a check, a plan, or a changed schema; a graph -> its schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.engine import without_pandas
from omnigraph.cli.files import draw_errors, read_source
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DATA,
    INIT,
    LOCAL,
    LOOK,
    PATH,
    READ,
    Flags,
    GraphCommand,
    GraphGroup,
    admit,
    command_flags,
    confirm,
    echo_write,
    global_flags,
    graph_argument,
    json_flag,
    message_flag,
    open_graph,
    resolve,
    takes,
    token_flag,
)
from omnigraph.errors import InvalidInput, Kind
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.catalog.evolve import Step
    from omnigraph.lang import Source

_file = click.option("--schema", "schema_file", type=PATH, metavar="FILE", required=True, help="The new schema (.pg).")
_loss = click.option("--allow-data-loss", is_flag=True, help="Delete dropped data at once. It cannot be read at older commits.")
_branch = click.option("--branch", default="main", show_default=True, help="The branch that has the schema.")


@click.group(cls=GraphGroup)
@global_flags
def schema() -> None:
    """Show, check and change schemas."""


@schema.command("check")
@click.argument("file", type=PATH)
@takes(LOCAL)
@command_flags
def schema_check(flags: Flags, *, file: Path, as_json: bool) -> None:
    """Check a schema file, and print the position of an error."""
    admit(flags, "schema check", LOCAL)
    catalog = catalog_of(file)
    counts = {"interfaces": len(catalog.interfaces), "nodes": len(catalog.nodes), "edges": len(catalog.edges)}
    if as_json:
        output.document({"status": "ok", "schema_source": {"kind": "file", "path": str(file)}, **counts})
    else:
        output.line(f"OK    schema {file}: {', '.join(counted(count, what[:-1]) for what, count in counts.items())}")


@schema.command("show")
@graph_argument
@_branch
@takes(READ)
@command_flags
def schema_show(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print the schema of a branch, as it was written."""
    with open_graph(resolve(flags, "schema show", READ, uri=uri), mode="r") as graph:
        text = graph.schema_of(branch)
    if as_json:
        output.document({"schema_source": text})
        return
    for line in text.splitlines():
        output.line(line)


schema.add_command(schema_show, "get")


@schema.command("draw")
@graph_argument
@click.option("--output", "path", type=PATH, metavar="FILE", required=True, help="The file to write: .svg or .html.")
@_branch
@takes(READ)
@command_flags
def schema_draw(flags: Flags, *, uri: str | None, path: Path, branch: str, as_json: bool) -> None:
    """Draw the types of a schema. Nodes are shown with their properties, with edges and interfaces."""
    from omnigraph.cli.draw import check_path, schema_drawing, write_drawing

    target = resolve(flags, "schema draw", READ, uri=uri)
    check_path(path)
    with open_graph(target, mode="r") as graph:
        catalog = graph.engine.catalog(graph.engine.snapshot(branch))
    drawing = schema_drawing(catalog, f"schema of {target.uri}, branch {branch}")
    write_drawing(drawing, path)
    if as_json:
        output.document({"path": str(path), "nodes": len(drawing.nodes), "edges": len(drawing.edges)})


@schema.command("plan")
@graph_argument
@_file
@_loss
@_branch
@json_flag
@takes(LOOK)
@global_flags
@click.pass_context
def schema_plan(context: click.Context, *, uri: str | None, schema_file: Path, allow_data_loss: bool, branch: str, as_json: bool) -> None:
    """Print the steps that lead to a new schema. Changes nothing. Exits with 1 if a step is not supported."""
    flags: Flags = context.obj
    target = resolve(flags, "schema plan", LOOK, uri=uri)
    wanted = _schema_text(schema_file)
    with open_graph(target, mode="r") as graph, draw_errors(wanted):
        planned = graph.plan_schema(wanted.text, branch, allow_data_loss=allow_data_loss)
    if as_json:
        output.document({"uri": target.uri, "supported": planned.supported, **_step_documents(planned.steps)})
    else:
        output.line(f"schema plan for {target.uri}")
        output.fields({"supported": planned.supported})
        _print_steps(planned.steps)
    if not planned.supported:
        context.exit(1)


@schema.command("apply")
@graph_argument
@_file
@_loss
@_branch
@message_flag
@token_flag
@takes(DATA)
@command_flags
def schema_apply(
    flags: Flags,
    *,
    uri: str | None,
    schema_file: Path,
    allow_data_loss: bool,
    branch: str,
    message: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Change the schema of a branch, in one commit. An unsupported change is refused."""
    target = resolve(flags, "schema apply", DATA, uri=uri)
    wanted = _schema_text(schema_file)
    echo_write(target, "schema apply")
    if allow_data_loss:
        confirm(target, "schema apply --allow-data-loss", as_json=as_json)
    with open_graph(target, mode="rw") as graph, draw_errors(wanted), Line("schema apply", quiet=flags.quiet):
        done = graph.apply_schema(wanted.text, branch, allow_data_loss=allow_data_loss, message=message, token=token)
    if as_json:
        facts = {"uri": target.uri, "supported": done.supported, "applied": done.applied}
        output.document({**facts, "graph_manifest_version": done.manifest_version, **_step_documents(done.steps)})
        return
    output.line(f"schema apply for {target.uri}")
    output.fields({"supported": done.supported, "applied": done.applied, "graph_manifest_version": done.manifest_version})
    _print_steps(done.steps)


def catalog_of(file: Path) -> Catalog:
    """Compile a schema file. Errors are drawn with their position."""
    from omnigraph.catalog import build_catalog  # here and below: `--help` must not load the compiler
    from omnigraph.ids import new_hex16
    from omnigraph.lang import located, parse_schema

    source = read_source(file, what="schema file")
    tree = parse_schema(source.text, name=source.name)
    with located(source):
        return build_catalog(tree, mint=new_hex16)


def _schema_text(file: Path) -> Source:
    """Read a schema file. One that declares nothing is refused: it is a wrong file rather than the wish to drop every type."""
    from omnigraph.lang import parse_schema

    source = read_source(file, what="schema file")
    if not parse_schema(source.text, name=source.name).declarations:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"schema file '{file}' declares no type", path=str(file))
    return source


def _step_documents(steps: tuple[Step, ...]) -> dict[str, object]:
    import msgspec

    return {"step_count": len(steps), "steps": msgspec.to_builtins(steps)}


def _print_steps(steps: tuple[Step, ...]) -> None:
    from omnigraph.catalog.evolve import describe

    for step in steps:
        output.line(f"- {describe(step)}")
    if not steps:
        output.line("no schema changes")


@click.command(cls=GraphCommand)
@click.argument("uri")
@click.option("--schema", "schema_file", type=PATH, metavar="FILE", required=True, help="The graph's schema (.pg).")
@message_flag
@takes(INIT)
@command_flags
def init(flags: Flags, *, uri: str, schema_file: Path, message: str | None, as_json: bool) -> None:
    """Create a graph at URI, a new or empty location."""
    target = resolve(flags, "init", INIT, uri=uri)
    schema = _schema_text(schema_file)
    with without_pandas():
        from omnigraph.graph import init as make  # after the cheap checks

    with draw_errors(schema):
        graph = make(target.uri, schema=schema.text, message=message, storage_options=flags.storage_options)
    if as_json:
        output.document({"uri": target.uri, "graph_id": graph.info().graph_id})
    else:
        output.line(f"initialized {target.uri}")
