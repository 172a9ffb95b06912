"""Schema apply: planned on the snapshot it lands on, one commit, the tables exactly what the schema says, on any branch."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.catalog.evolve import describe
from omnigraph.catalog.layout import PROPERTY_MARK, table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import Kind, LanguageError, NotFound, Outcome, StorageError, Unsupported
from omnigraph.faults import Fault, armed
from omnigraph.manifest.model import CommitKind, TableRow
from omnigraph.store import index
from omnigraph.store.tables import PRIMARY_KEY, Table
from tests.crasher import asleep

STUDIOS = """
node Film { slug: String @key  year: I32  plot: String? }
node Studio { name: String @key  city: String? }
edge MadeBy: Film -> Studio @card(0..1) { since: I32? }
"""
DATA = """
query fill() {
  insert Studio { name: "Fox", city: "LA" }
  insert Studio { name: "Warner" }
  insert Film { slug: "alien", year: 1979, plot: "hush-hush" }
  insert MadeBy { from: "alien", to: "Fox", since: 1978 }
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g", schema=STUDIOS, actor="act-ada")
    made.mutate(DATA)
    return made


def row_of(graph: og.Graph, alias: str, *, branch: str = "main", at: str | None = None) -> TableRow:
    row = graph.engine.manifest.snapshot(branch, at=at).state.table(alias)  # type: ignore[arg-type]  # plain text is a branch's name here
    assert row is not None
    return row


def table_of(graph: og.Graph, alias: str, *, branch: str = "main", at: str | None = None) -> Table:
    return graph.engine.tables.open(row_of(graph, alias, branch=branch, at=at).ref)


def rows_of(graph: og.Graph, alias: str, *, branch: str = "main", at: str | None = None) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table_of(graph, alias, branch=branch, at=at).scan().read_all().to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def tables_fit(graph: og.Graph, branch: str = "main") -> None:
    """Every table has exactly the columns of its type, marked, and its key annotated; and no table is without a type."""
    snapshot = graph.engine.manifest.snapshot(branch)  # type: ignore[arg-type]
    catalog = graph.engine.catalog(snapshot)
    live = {row.alias for row in snapshot.state.tables.values() if not row.dropped}
    entities: tuple[EntityType, ...] = (*catalog.nodes, *catalog.edges)
    assert live == {f"{entity.kind}:{entity.name}" for entity in entities}
    for entity in entities:
        wanted = table_schema(entity)
        keyed = pa.schema([wanted.field("id").with_metadata(PRIMARY_KEY), *(wanted.field(at) for at in range(1, len(wanted)))])
        assert table_of(graph, f"{entity.kind}:{entity.name}", branch=branch).schema.equals(keyed, check_metadata=True)
    assert graph.verify() == []


# -- what a plan does


def test_a_schema_that_is_accepted_already_changes_nothing(graph: og.Graph) -> None:
    """S-01: An equal schema changes nothing; comments, layout and order of declarations are no change."""
    before = graph.commits()
    done = graph.apply_schema("// the same\n" + STUDIOS)
    assert (done.supported, done.applied, done.steps, done.commit) == (True, False, (), None)
    assert done.manifest_version == graph.snapshot().manifest_version
    assert graph.commits() == before
    assert graph.schema == STUDIOS


def test_a_new_nullable_property_is_null_in_every_row(graph: og.Graph) -> None:
    """E103, S-03"""
    done = graph.apply_schema(STUDIOS.replace("city: String?", "city: String?  country: String?  born: DateTime?  spot: Vector(2)?"))
    assert done.applied
    assert [describe(step) for step in done.steps] == [f"add property node:Studio.{name}" for name in ("born", "country", "spot")]
    assert rows_of(graph, "node:Studio")[0] == {"id": "Fox", "born": None, "city": "LA", "country": None, "name": "Fox", "spot": None}
    tables_fit(graph)
    graph.mutate(
        'query q() { insert Studio { name: "New", country: "US", spot: [1, 2] } update Studio set { country: "US" } where name = "Fox" }'
    )
    assert [row["country"] for row in rows_of(graph, "node:Studio")] == ["US", "US", None]


REFUSED = {
    "[OG-MF-103] adding required property 'Studio.country'": STUDIOS.replace("city: String?", "city: String?  country: String"),
    "[OG-MF-106] changing property type for 'Film.year'": STUDIOS.replace("year: I32", "year: I64"),
    "changing the cardinality of 'MadeBy'": STUDIOS.replace("0..1", "0..3"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_unsupported_change_refuses_the_whole_plan(graph: og.Graph, message: str) -> None:
    """S-04: One unsupported change refuses the whole plan; nothing moves, and the graph accepts writes.

    Also E104, E105, E112, S-01.
    """
    wanted = REFUSED[message] + "\nnode Added { x: I32 }"
    before = graph.snapshot()
    assert graph.plan_schema(wanted).supported is False
    with pytest.raises(Unsupported) as refused:
        graph.apply_schema(wanted)
    assert refused.value.message == f"{message} is not supported in schema migration v1"
    assert graph.snapshot() == before
    assert sum(1 for _ in (Path(graph.uri) / "nodes").iterdir()) == 2
    graph.mutate('query q() { insert Studio { name: "MGM" } }')


def test_a_text_without_meaning_is_drawn_where_it_is_wrong(graph: og.Graph) -> None:
    for call in (graph.plan_schema, graph.apply_schema):
        with pytest.raises(LanguageError) as wrong:
            call('node A @rename_from("Nothing") { x: I32 }')
        assert wrong.value.position == (1, 8)


WORDS_ONLY = {
    "index": STUDIOS.replace("plot: String?", "plot: String? @index"),
    "interface": STUDIOS + "interface Named { name: String? }",
    "description": STUDIOS.replace("node Film {", 'node Film @description("a film") {'),
    "pure rename": STUDIOS.replace("node Studio", 'node Company @rename_from("Studio")').replace("-> Studio", "-> Company"),
}


@pytest.mark.parametrize("what", WORDS_ONLY)
def test_what_is_in_the_schema_alone_moves_no_table_and_is_one_commit(graph: og.Graph, what: str) -> None:
    """S-03: A change that concerns the schema alone moves no table and is one commit."""
    before = {table.path: table.version for table in graph.snapshot().tables}
    done = graph.apply_schema(WORDS_ONLY[what])
    assert done.commit is not None
    assert (done.commit.kind, done.commit.actor, done.commit.id) == (CommitKind.SCHEMA, "act-ada", graph.commits()[0].id)
    assert done.manifest_version == done.commit.manifest_version == graph.snapshot().manifest_version
    assert {table.path: table.version for table in graph.snapshot().tables} == before
    assert graph.schema == (Path(graph.uri) / "_schema.pg").read_text() == WORDS_ONLY[what]
    tables_fit(graph)


def test_an_enum_takes_its_new_value_at_once(tmp_path: Path) -> None:
    """E106, E107"""
    graph = og.init(tmp_path / "g", schema="node Film { slug: String @key  status: enum(draft, released) }")
    graph.apply_schema("node Film { slug: String @key  status: enum(draft, released, cut) }")
    graph.mutate('query q() { insert Film { slug: "a", status: "cut" } }')
    with pytest.raises(Unsupported, match="OG-MF-106"):
        graph.apply_schema("node Film { slug: String @key  status: enum(draft, released) }")


def test_a_renamed_type_and_property_keep_everything(graph: og.Graph) -> None:
    """S-06: A rename keeps identity, path and rows; a type dropped and added again is a new one.

    Also E108, E109.
    """
    before = row_of(graph, "node:Studio")
    wanted = STUDIOS.replace("-> Studio", "-> Company").replace(
        "node Studio { name: String @key  city: String? }",
        'node Company @rename_from("Studio") { name: String @key  town: String? @rename_from("city") }',
    )
    graph.apply_schema(wanted)
    after = row_of(graph, "node:Company")
    assert (after.id, after.path, after.version) == (before.id, before.path, before.version + 1)
    assert graph.snapshot().table("Studio") is None
    assert [row["town"] for row in rows_of(graph, "node:Company")] == ["LA", None]
    tables_fit(graph)
    with pytest.raises(LanguageError):
        graph.mutate('query q() { insert Studio { name: "MGM" } }')


def test_a_dropped_and_readded_type_is_a_new_one(graph: og.Graph) -> None:
    """S-06: another table, at version 1, without the rows of old; no incarnation is used twice."""
    before = row_of(graph, "edge:MadeBy")
    graph.apply_schema(STUDIOS.partition("edge")[0])
    assert graph.snapshot().table("MadeBy", kind="edge") is None
    graph.apply_schema(STUDIOS)
    after = row_of(graph, "edge:MadeBy")
    assert (after.version, after.rows) == (1, 0)
    assert before.id != after.id
    assert before.path != after.path
    tables_fit(graph)


def test_a_dropped_and_readded_property_is_empty(graph: og.Graph) -> None:
    """S-06, S-14: not even where data files still hold the values of old."""
    graph.apply_schema(STUDIOS.replace("plot: String?", ""))
    graph.apply_schema(STUDIOS)
    assert rows_of(graph, "node:Film")[0]["plot"] is None
    tables_fit(graph)


def test_what_was_dropped_softly_is_still_read_at_older_commits(graph: og.Graph) -> None:
    """E110, S-05, T-05: with the schema of their day."""
    before = graph.commits()[0].id
    graph.apply_schema("node Film { slug: String @key  year: I32 }")
    assert [table.type_name for table in graph.snapshot().tables] == ["Film"]
    assert rows_of(graph, "node:Film", at=before)[0]["plot"] == "hush-hush"
    assert len(rows_of(graph, "node:Studio", at=before)) == 2
    past = graph.engine.manifest.snapshot(at=before)
    assert graph.engine.catalog(past).node("Studio") is not None
    assert graph.verify() == []


def test_a_composite_key_keeps_its_order_through_crossing_renames(tmp_path: Path) -> None:
    """S-07: A key of several columns keeps its order through renames: ids stay, and the same values spell the same id."""
    graph = og.init(tmp_path / "g", schema="node P { a: String  b: String  @key(a, b) }")
    graph.mutate('query q() { insert P { a: "x", b: "y" } }')
    assert [row["id"] for row in rows_of(graph, "node:P")] == ['["x","y"]']
    graph.apply_schema('node P { t: String @rename_from("a")  b: String  @key(t, b) }')
    graph.apply_schema('node P { t: String  a: String @rename_from("b")  @key(t, a) }')
    graph.apply_schema('node P { b: String @rename_from("t")  a: String  @key(a, b) }')
    assert rows_of(graph, "node:P") == [{"id": '["x","y"]', "a": "y", "b": "x"}]
    graph.mutate('query q() { insert P { b: "x", a: "y" } }')
    assert row_of(graph, "node:P").rows == 1
    tables_fit(graph)


def test_an_empty_table_may_be_promised_a_vector_index(tmp_path: Path) -> None:
    """S-09: A vector index may be declared on an empty table; nothing is built."""
    graph = og.init(tmp_path / "g", schema="node A { x: I32 }")
    assert graph.apply_schema("node A { x: I32 }  node B { v: Vector(4) @index  t: String? @index }").applied
    assert graph.apply_schema("node A { x: I32  w: Vector(4)? @index }  node B { v: Vector(4) @index  t: String? @index }").applied
    tables_fit(graph)


def test_indexes_follow_a_renamed_property_and_are_built_again_after_a_rewrite(graph: og.Graph) -> None:
    """A rename costs no build; a hard drop forgets the indexes of the tables it rewrites, and only those."""
    indexed = STUDIOS.replace("plot: String?", "plot: String? @index").replace("city: String?", "city: String? @index  code: I32?")
    graph.apply_schema(indexed)
    assert graph.ensure_indices().commit is not None
    renamed = indexed.replace("plot: String?", 'story: String? @rename_from("plot")')
    graph.apply_schema(renamed)
    assert graph.ensure_indices().commit is None
    film = table_of(graph, "node:Film")
    assert "ScalarIndexQuery" in film.dataset.scanner(filter="story = 'hush-hush'").explain_plan()
    graph.apply_schema(renamed.replace("code: I32?", ""), allow_data_loss=True)
    assert index.existing(table_of(graph, "node:Studio")) == ()
    assert index.existing(table_of(graph, "node:Film")) == index.existing(film)
    assert graph.ensure_indices().commit is not None
    assert table_of(graph, "node:Studio").count("city = 'LA'") == 1


# -- branches, handles, races


def test_a_branch_has_a_schema_of_its_own(graph: og.Graph) -> None:
    """Main keeps its schema, its tables, its copy for people."""
    graph.branches.create("work")
    main = graph.snapshot()
    wanted = STUDIOS.replace("city: String?", 'town: String? @rename_from("city")  country: String?') + "node Award { name: String @key }"
    graph.apply_schema(wanted, branch="work")
    assert (graph.schema_of("work"), graph.schema) == (wanted, STUDIOS)
    assert (Path(graph.uri) / "_schema.pg").read_text() == STUDIOS
    assert graph.snapshot() == main
    tables_fit(graph)
    tables_fit(graph, "work")
    assert rows_of(graph, "node:Studio", branch="work")[0]["town"] == "LA"
    graph.mutate('query q() { insert Award { name: "Oscar" } insert Studio { name: "A24", country: "US" } }', branch="work")
    graph.mutate('query q() { insert Studio { name: "MGM", city: "LA" } }')
    assert len(rows_of(graph, "node:Studio", branch="work")) == len(rows_of(graph, "node:Studio")) == 3
    graph.branches.create("deeper", from_="work")
    graph.apply_schema(wanted.replace("country: String?", ""), branch="deeper")
    tables_fit(graph, "deeper")
    graph.branches.delete("deeper")
    graph.branches.delete("work")
    assert graph.verify() == []


def test_a_handle_opened_before_works_from_the_schema_of_now(graph: og.Graph) -> None:
    """S-10: A handle opened before a schema change works with the new schema."""
    other = og.open(graph.uri)
    assert other.catalog.node("Award") is None
    graph.apply_schema(STUDIOS + "node Award { name: String @key }")
    other.mutate('query q() { insert Award { name: "Oscar" } }')
    assert other.apply_schema(STUDIOS).applied
    assert [describe(step) for step in graph.apply_schema(STUDIOS).steps] == []


def test_a_write_prepared_before_an_apply_prepares_again(graph: og.Graph) -> None:
    """S-11: A write prepared before a schema change is prepared again on the new schema.

    Also S-10.
    """
    insert = 'query q() { insert Studio { name: "Late" } }'
    with asleep(f"mutate {insert}", graph.uri, Fault.WRITE_PREPARED) as sleeper:
        graph.apply_schema(STUDIOS.replace("city: String?", "country: String?"))
        assert sleeper.wake() == "done"
    assert [row["id"] for row in rows_of(graph, "node:Studio")] == ["Fox", "Late", "Warner"]
    tables_fit(graph)


def test_a_write_that_means_nothing_after_an_apply_is_refused(graph: og.Graph) -> None:
    with asleep('mutate query q() { insert Studio { name: "L", city: "X" } }', graph.uri, Fault.WRITE_PREPARED) as sleeper:
        graph.apply_schema(STUDIOS.replace("city: String?", ""))
        assert sleeper.wake() == "type"
    assert row_of(graph, "node:Studio").rows == 2


def test_an_apply_prepared_before_another_is_planned_anew(graph: og.Graph) -> None:
    """Two applies of one schema in two processes: both succeed, one does nothing."""
    wanted = STUDIOS + "node Award { name: String @key }"
    with asleep(f"apply {wanted}", graph.uri, Fault.WRITE_PREPARED) as sleeper:
        assert graph.apply_schema(wanted).applied
        assert sleeper.wake() == "done"
    assert [commit.kind for commit in graph.commits()].count(CommitKind.SCHEMA) == 1
    tables_fit(graph)


def test_applies_from_many_threads_land_one_after_another(graph: og.Graph) -> None:
    """Each wants one property more than STUDIOS: whoever is last decides, and every step between was a whole schema."""
    wanted = [STUDIOS.replace("city: String?", f"city: String?  p{at}: I32?") for at in range(4)]
    threads = [threading.Thread(target=og.open(graph.uri).apply_schema, args=(text,)) for text in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert graph.schema in wanted
    assert [commit.kind for commit in graph.commits()].count(CommitKind.SCHEMA) == 4
    tables_fit(graph)


def test_reading_only_may_plan_but_not_apply(graph: og.Graph) -> None:
    reader = og.open(graph.uri, mode="r")
    assert reader.plan_schema(STUDIOS + "node A { x: I32 }").supported
    with pytest.raises(Unsupported) as refused:
        reader.apply_schema(STUDIOS)
    assert refused.value.kind is Kind.READ_ONLY


# -- hard drops


LESS = "node Film { slug: String @key  year: I32 }"


def spoken_of(graph: og.Graph, text: bytes) -> list[str]:
    return [str(path) for path in Path(graph.uri).rglob("*") if path.is_file() and text in path.read_bytes()]


def test_a_hard_drop_leaves_nothing_of_what_it_drops(graph: og.Graph) -> None:
    """S-05: A hard drop leaves nothing at older commits or on disk; a soft drop stays readable there.

    E110: not now, not at older commits, not on the disk. Tables it does not drop from keep their past.
    """
    before = graph.commits()[0].id
    graph.mutate('query q() { update Film set { plot: "hush-again" } where slug = "alien" }')
    assert spoken_of(graph, b"hush-")
    assert spoken_of(graph, b"Warner")
    done = graph.apply_schema(LESS, allow_data_loss=True)
    assert {describe(step) for step in done.steps} == {
        "drop property node:Film.plot (hard)",
        "drop node Studio (hard)",
        "drop edge MadeBy (hard)",
    }
    assert spoken_of(graph, b"hush-") + spoken_of(graph, b"Warner") == []
    assert rows_of(graph, "node:Film") == [{"id": "alien", "slug": "alien", "year": 1979}]
    for alias in ("node:Film", "node:Studio"):
        for handle in (graph, og.open(graph.uri)):
            with pytest.raises(NotFound) as gone:
                rows_of(handle, alias, at=before)
            assert gone.value.kind is Kind.VERSION_RECLAIMED
    tables_fit(graph)
    graph.mutate('query q() { insert Film { slug: "heat", year: 1995 } }')


def test_a_hard_drop_keeps_what_another_branch_shows(graph: og.Graph) -> None:
    """The past that only main showed goes; once the branch is gone, so does its."""
    graph.mutate('query q() { insert Film { slug: "first", year: 1, plot: "main-only" } }')
    graph.mutate('query q() { delete Film where slug = "first" }')
    graph.branches.create("work")
    graph.branches.create("touched")
    graph.mutate('query q() { insert Film { slug: "own", year: 2, plot: "branch-only" } }', branch="touched")
    older = [commit.id for commit in graph.commits()]
    graph.apply_schema(LESS, allow_data_loss=True)
    for branch in ("work", "touched"):
        assert rows_of(graph, "node:Film", branch=branch)[0]["plot"] == "hush-hush"
        assert len(rows_of(graph, "node:Studio", branch=branch)) == 2
    with pytest.raises(NotFound):
        rows_of(graph, "node:Film", at=older[1])
    assert graph.verify() == []
    graph.branches.delete("work")
    graph.branches.delete("touched")
    assert graph.apply_schema(LESS, allow_data_loss=True).applied is False
    assert spoken_of(graph, b"hush-") == []


def test_a_hard_drop_of_what_a_branch_inherits_is_its_parents_to_keep(graph: og.Graph) -> None:
    graph.branches.create("work")
    graph.apply_schema(LESS, branch="work", allow_data_loss=True)
    assert rows_of(graph, "node:Film", branch="work") == [{"id": "alien", "slug": "alien", "year": 1979}]
    assert rows_of(graph, "node:Film")[0]["plot"] == "hush-hush"
    assert len(rows_of(graph, "node:Studio")) == 2
    tables_fit(graph)
    tables_fit(graph, "work")


def test_a_hard_drop_whose_removal_fails_says_that_it_has_happened(graph: og.Graph) -> None:
    """The commit stands; applied again, the removal goes on."""
    failure = StorageError(Kind.STORAGE_UNAVAILABLE, "the store went away for a moment")
    with armed(Fault.RECLAIM_BEFORE, failure=failure), pytest.raises(StorageError) as told:
        graph.apply_schema(LESS, allow_data_loss=True)
    assert (told.value.outcome, told.value.facts["commit"]) == (Outcome.HAPPENED, graph.commits()[0].id)
    assert graph.schema == LESS
    assert graph.apply_schema(LESS, allow_data_loss=True).applied is False
    assert spoken_of(graph, b"hush-") == []


def test_the_marks_of_columns_outlive_a_hard_drop(graph: og.Graph) -> None:
    """S-08: the rewritten table is told apart by the same properties."""
    before = {field.name: (field.metadata or {}).get(PROPERTY_MARK) for field in table_of(graph, "node:Film").schema}
    graph.apply_schema(STUDIOS.replace("plot: String?", ""), allow_data_loss=True)
    after = {field.name: (field.metadata or {}).get(PROPERTY_MARK) for field in table_of(graph, "node:Film").schema}
    assert after == {name: mark for name, mark in before.items() if name != "plot"}
    graph.apply_schema(STUDIOS.replace("plot: String?", "about: String?").replace("year: I32", 'made: I32 @rename_from("year")'))
    assert rows_of(graph, "node:Film") == [{"id": "alien", "about": None, "made": 1979, "slug": "alien"}]
    tables_fit(graph)


def test_a_schema_with_more_properties_than_a_type_may_have_is_refused_at_birth_and_later(graph: og.Graph, tmp_path: Path) -> None:
    many = " ".join(f"p{number}: I32?" for number in range(20_000))
    wide = f"node Wide {{ {many} }}"
    before = graph.commits()
    for attempt in (lambda: og.init(tmp_path / "wide", schema=wide), lambda: graph.apply_schema(wide), lambda: graph.plan_schema(wide)):
        with pytest.raises(LanguageError) as caught:
            attempt()
        error = caught.value
        assert (error.code, error.facts) == ("S33", {"resource": "properties", "limit": 1000, "actual": 20_000})
        assert error.position == (1, 6)
    assert graph.commits() == before
    assert not (tmp_path / "wide").exists()
