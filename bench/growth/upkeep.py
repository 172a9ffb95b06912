"""Export, copies, checks, schema changes, indexes and recovery of a graph of n rows."""

from __future__ import annotations

from bench.growth import worlds
from bench.growth.operation import Kind, Operation, Place, Preparation

SCHEMA = worlds.SCHEMA
ADDED = SCHEMA.replace("score: F64?", "score: F64?\n  note: String?")
RENAMED = SCHEMA.replace("score: F64?", 'points: F64? @rename_from("score")')
DROPPED = SCHEMA.replace("score: F64?", "")
GROWN = SCHEMA + "node City { name: String @key }\nedge LivesIn: Person -> City"


def _export(place: Place) -> None:
    with (place.folder / "out.ndjson").open("w") as file:
        file.writelines(line + "\n" for line in place.graph.export())


def _copy(place: Place, *, branch: str | None = None) -> None:
    place.graph.copy_to(place.folder / f"copy-{place.turn}.omni", branch=branch)


def _verify(place: Place, *, deep: bool) -> None:
    if found := place.graph.verify(deep=deep):
        raise SystemExit(f"verify found {found[:3]}")


def _repair(place: Place) -> None:
    if not (found := place.graph.repair()).is_sound:
        raise SystemExit(f"repair found {found}")


def _apply(name: str, text: str, *, kind: Kind = Kind.FLAT, hard: bool = False) -> Operation:
    return Operation(
        name=name,
        covers=("Graph.apply_schema", "omnigraph schema"),
        needs=(worlds.people,),
        run=lambda place: place.graph.apply_schema(text, allow_data_loss=hard),
        kind=kind,
        times=1 if kind is Kind.LINEAR else 3,
        changes=True,
    )


def _heal(name: str, world: Preparation, *, rows: bool) -> Operation:
    """Opening a graph after a killed load. The load is completed or rolled back, in a time that does not depend on its rows."""

    def run(place: Place) -> object:
        import omnigraph as og

        found = og.open(place.uri).snapshot().table("Person")
        if found is None or (found.rows > 0) != rows:
            raise SystemExit(f"{name} left {found}")
        return found

    return Operation(
        name=name, covers=("open", "Graph.recoveries"), needs=(world,), run=run, kind=Kind.FLAT, base=3_000, times=3, changes=True
    )


def _indexes(place: Place) -> None:
    built = place.graph.ensure_indices()
    if not built:
        raise SystemExit("no index was built")


def _optimize(place: Place) -> None:
    done = place.graph.optimize()
    if done.commit is None or any(table.fragments_after > 2 for table in done.tables):
        raise SystemExit(f"optimize left {done}")


def _keep_once(place: Place) -> None:
    """One round of a keeper that finds nothing due."""
    keeper = place.graph.keep_tidy()
    keeper.tidy(place.graph.engine)
    if keeper.optimized or keeper.last_error is not None:
        raise SystemExit(f"the keeper did {keeper.optimized}, {keeper.last_error}")


def _embeddings(place: Place) -> None:
    import omnigraph as og

    graph = og.open(place.uri, embedding=og.EmbeddingProvider(kind="mock"))
    if graph.ensure_embeddings().embedded != place.n:
        raise SystemExit("some texts have no vector")


def _embed_file(place: Place) -> None:
    from omnigraph.embed import EmbeddingProvider, embedder_of
    from omnigraph.embed.files import EmbeddedFile, EmbedMode, RecordSelection, decode_spec, embed_lines

    spec = decode_spec({"dimension": 16, "types": {"Person": {"target": "vector", "fields": ["name", "city"]}}})
    mock, done = embedder_of(EmbeddingProvider(kind="mock"), {}), EmbeddedFile()
    with (place.folder / worlds.LINES).open("rb") as lines, (place.folder / "embedded.ndjson").open("wb") as file:
        file.writelines(embed_lines(lines, spec, RecordSelection(EmbedMode.FILL_MISSING), mock, done))
    if not done.embedded:
        raise SystemExit("no record was embedded")


OPERATIONS = (
    Operation(name="export", covers=("Graph.export", "omnigraph export"), needs=(worlds.social,), run=_export, changes=True),
    Operation(name="copy", covers=("Graph.copy_to", "omnigraph copy"), needs=(worlds.social,), run=_copy, changes=True),
    Operation(
        name="copy of a branch",
        covers=("Graph.copy_to", "omnigraph copy"),
        needs=(worlds.social,),
        run=lambda place: _copy(place, branch="main"),
        changes=True,
    ),
    Operation(
        name="verify",
        covers=("Graph.verify", "omnigraph verify"),
        needs=(worlds.indexed_social,),
        run=lambda place: _verify(place, deep=False),
    ),
    Operation(
        name="verify, deep",
        covers=("Graph.verify", "omnigraph verify"),
        needs=(worlds.indexed_social,),
        run=lambda place: _verify(place, deep=True),
    ),
    Operation(
        name="repair, nothing wrong",
        covers=("Graph.repair", "omnigraph repair"),
        needs=(worlds.indexed_social,),
        run=_repair,
    ),
    _apply("schema: add a property", ADDED),
    _apply("schema: rename a property", RENAMED),
    _apply("schema: drop a property", DROPPED),
    _apply("schema: drop a property, hard", DROPPED, kind=Kind.LINEAR, hard=True),
    _apply("schema: add types", GROWN),
    Operation(
        name="schema: plan",
        covers=("Graph.plan_schema", "Graph.schema_of", "Graph.schema", "Graph.catalog"),
        needs=(worlds.people,),
        run=lambda place: place.graph.plan_schema(ADDED),
        kind=Kind.FLAT,
        times=10,
    ),
    Operation(
        name="build indexes",
        covers=("Graph.ensure_indices", "omnigraph ensure-indices"),
        needs=(worlds.social,),
        run=_indexes,
        changes=True,
    ),
    Operation(
        name="build indexes, all present",
        covers=("Graph.ensure_indices", "omnigraph ensure-indices"),
        needs=(worlds.indexed_social,),
        run=lambda place: place.graph.ensure_indices(),
        kind=Kind.FLAT,
        times=10,
        changes=True,
        repeatable=True,
    ),
    Operation(
        name="optimize",
        covers=("Graph.optimize", "omnigraph optimize"),
        needs=(worlds.scattered_people,),
        run=_optimize,
        changes=True,
    ),
    Operation(
        name="optimize, nothing to do",
        covers=("Graph.optimize", "omnigraph optimize"),
        needs=(worlds.optimized_social,),
        run=lambda place: place.graph.optimize(),
        kind=Kind.FLAT,
        times=10,
        changes=True,
        repeatable=True,
    ),
    Operation(
        name="keep tidy, nothing due",
        covers=("Graph.keep_tidy",),
        needs=(worlds.people,),
        run=_keep_once,
        kind=Kind.FLAT,
        times=10,
        changes=True,
        repeatable=True,
    ),
    Operation(
        name="embed missing vectors",
        covers=("Graph.ensure_embeddings", "omnigraph ensure-embeddings"),
        needs=(worlds.documents,),
        run=_embeddings,
        changes=True,
    ),
    Operation(
        name="embed a file",
        covers=("omnigraph embed",),
        needs=(worlds.ndjson,),
        run=_embed_file,
        changes=True,
    ),
    _heal("recovery, finished", worlds.killed_before_publish, rows=True),
    _heal("recovery, undone", worlds.killed_between_tables, rows=False),
)
