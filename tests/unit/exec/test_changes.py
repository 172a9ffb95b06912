"""Conditions, computed values, `create`, `upsert` and changes of what a match binds, on real graphs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, LanguageError, OmniGraphError
from omnigraph.exec.read.run import stream
from omnigraph.exec.write import image, matches
from omnigraph.graph import Graph, Receipt
from omnigraph.plan.ops import Route
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import edges, fill, rows, run, values, versions

SCHEMA = """
node Person { name: String @key  born: I32?  score: F64?  small: F32?  tags: [String]?  seen: DateTime?  photo: Blob? }
node Film { slug: String @key  title: String  year: I32 }
node Note { text: String  about: String?  n: I64? }
node Seat { hall: I32  row: I32  taken: Bool?  @key(hall, row) }
edge Knows: Person -> Person { since: I32?  note: String? }
edge Likes: Person -> Film { stars: I32?  why: String? @unique(src, dst) }
edge Rated: Person -> Film { stars: I32 @unique(src, dst) }
"""

PEOPLE = " ".join(
    f'insert Person {{ name: "{name}", {rest} }}'
    for name, rest in (("Ada", "born: 1950, score: 1.5"), ("Ben", "born: 1960"), ("Cy", "score: 2.5"), ("Dee", "born: 1970, score: -3.0"))
)
FILMS = " ".join(
    f'insert Film {{ slug: "{slug}", title: "{slug.title()}", year: {year} }}' for slug, year in (("alien", 1979), ("heat", 1995))
)
KNOWN = " ".join(
    f'insert Knows {{ from: "{a}", to: "{b}", since: {n} }}' for a, b, n in (("Ada", "Ben", 1), ("Ben", "Cy", 2), ("Cy", "Ada", 3))
)


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    run(graph, f"{PEOPLE} {FILMS} {KNOWN}")
    return graph


def counts(receipt: Receipt) -> tuple[int, int]:
    return receipt.affected_nodes, receipt.affected_edges


def born(graph: Graph) -> dict[str, object]:
    return values(graph, "node:Person", "born")


def refused(graph: Graph, text: str, params: dict[str, object] | None = None) -> OmniGraphError:
    """The error of a mutation that writes nothing."""
    before = versions(graph)
    with pytest.raises(OmniGraphError) as caught:
        run(graph, text, params)
    assert versions(graph) == before
    return caught.value


# -- where


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("born > 1950 and score is null", "Ben"),
        ("born < 1955 or score > 2", "Ada Cy"),
        ("not (born = 1950)", "Ben Dee"),
        ("not (born = 1950 and score > 100)", "Ada Ben Cy Dee"),
        ('name in ["Ada", "Cy", "nobody"]', "Ada Cy"),
        ('name not in ["Ada"] and born is not null', "Ben Dee"),
        ('id = "Ada" or id starts_with "C"', "Ada Cy"),
        ("born + 10 > 1965", "Ben Dee"),
        ("(born - 1950) * 2 = 20", "Ben"),
        ('lower(name) contains "e" and coalesce(score, 0) < 0', "Dee"),
        ("born % 20 = 10", "Ada Dee"),
        ("score = -3", "Dee"),
        ("score >= abs(score) and length(name) = 3", "Ada"),
    ],
)
def test_where_is_any_condition_about_the_row(graph: Graph, where: str, names: str) -> None:
    """L2-20: what the storage engine cannot evaluate is evaluated on the rows it returns; unknown is not true."""
    receipt = run(graph, f"update Person set {{ born: 1 }} where {where}")
    assert sorted(name for name, year in born(graph).items() if year == 1) == names.split()
    assert counts(receipt) == (len(names.split()), 0)
    # The same about rows of an earlier statement.
    again = run(graph, f'{PEOPLE} insert Person {{ name: "Eve" }} update Person set {{ small: 2.0 }} where {where}')
    assert sorted(name for name, small in values(graph, "node:Person", "small").items() if small == 2.0) == names.split()
    assert counts(again) == (5 + len(names.split()), 0)
    assert counts(run(graph, f"{PEOPLE.replace('insert', 'upsert')}")) == (4, 0)
    deleted = run(graph, f"delete Person where {where}")
    assert sorted({"Ada", "Ben", "Cy", "Dee", "Eve"} - set(born(graph))) == names.split()
    assert deleted.affected_nodes == len(names.split())


def test_edges_are_updated_and_deleted_by_their_ends_and_ids(graph: Graph) -> None:
    assert counts(run(graph, 'update Knows set { since: since + 10, note: from + ">" + to } where from = "Ada" or since >= 3')) == (0, 2)
    found = rows(graph, "edge:Knows")
    assert sorted((row["since"], row["note"]) for row in found.values()) == [(2, None), (11, "Ada>Ben"), (13, "Cy>Ada")]
    (id_,) = (id_ for id_, row in found.items() if row["since"] == 11)
    assert counts(run(graph, "($id: String) update Knows set { since: since % 0 } where id = $id", {"id": id_})) == (0, 1)
    assert rows(graph, "edge:Knows")[id_]["since"] is None
    assert counts(run(graph, "($id: String) delete Knows where id = $id", {"id": id_})) == (0, 1)
    assert edges(graph, "Knows") == [("Ben", "Cy"), ("Cy", "Ada")]
    assert graph.verify() == []


def test_an_end_of_an_edge_cannot_be_set(graph: Graph) -> None:
    error = refused(graph, 'update Knows set { from: "Ben" } where since = 1')
    assert isinstance(error, LanguageError)


# -- values


def test_values_see_the_row_before_the_change(graph: Graph) -> None:
    """L2-22"""
    run(graph, "update Person set { born: born + 1, score: born, small: score / 2, seen: now() } where born < 1965")
    found = rows(graph, "node:Person")
    assert {name: (row["born"], row["score"], row["small"]) for name, row in found.items()} == {
        "Ada": (1951, 1950.0, 0.75),
        "Ben": (1961, 1960.0, None),
        "Cy": (None, 2.5, None),
        "Dee": (1970, -3.0, None),
    }
    assert [row["seen"] is not None for _, row in sorted(found.items())] == [True, True, False, False]


def test_values_of_inserts_are_computed(graph: Graph) -> None:
    run(graph, '($n: I64) insert Person { name: lower("EVE") + "!", born: abs($n) * 2, score: $n / 4, tags: ["a"] }', {"n": -6})
    assert rows(graph, "node:Person")["eve!"] | {"photo": None} == {
        "name": "eve!",
        "born": 12,
        "score": -1.5,
        "small": None,
        "tags": ["a"],
        "seen": None,
        "photo": None,
    }


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("update Person set { born: born * 2000000 } where born > 0", Kind.VALIDATION, "exceeds Int32 range (property 'born')"),
        ("update Person set { born: 0 - 2147483649 } where born > 0", Kind.VALIDATION, "integer value -2147483649 exceeds Int32 range"),
        ("update Person set { born: born * 9000000000000000000 } where born > 0", Kind.NUMERIC_OVERFLOW, "1950 * 9000000000000000000"),
        (
            "($big: F64) update Person set { small: score * $big } where score > 0",
            Kind.VALIDATION,
            "exceeds Float32 range (property 'small')",
        ),
        ("($big: F64) update Person set { score: score * $big * $big } where score > 0", Kind.VALIDATION, "must be finite"),
        ("update Film set { year: year % 0 } where year > 0", Kind.VALIDATION, "non-nullable property 'year'"),
        ('insert Film { slug: "x", title: lower("T"), year: 2000000000 + 2000000000 }', Kind.VALIDATION, "exceeds Int32 range"),
    ],
)
def test_values_that_do_not_fit(graph: Graph, text: str, kind: Kind, message: str) -> None:
    error = refused(graph, text, {"big": 1e300} if "$big" in text else None)
    assert isinstance(error, InvalidInput)
    assert (error.kind, message in error.message) == (kind, True), error.message


def test_a_float_is_no_integer(graph: Graph) -> None:
    assert isinstance(refused(graph, "update Person set { born: born / 2 } where born > 0"), LanguageError)


# -- create


def test_create_refuses_what_is_there(graph: Graph) -> None:
    """L2-21"""
    assert counts(run(graph, 'create Person { name: "Eve", born: 1 } create Seat { hall: 1, row: 2 }')) == (2, 0)
    for text, id_ in (
        ('create Person { name: "Ada" }', "Ada"),
        ('insert Film { slug: "x", title: "X", year: 1 } create Film { slug: "x", title: "Y", year: 2 }', "x"),
        ("create Seat { row: 2, hall: 1 }", '["1","2"]'),
    ):
        error = refused(graph, text)
        assert isinstance(error, ConflictError)
        assert (error.kind, error.facts["id"]) == (Kind.KEY_CONFLICT, id_)
    assert born(graph)["Ada"] == 1950


def test_ids_may_be_given(graph: Graph) -> None:
    run(graph, 'create Note { id: "n1", text: "a" } create Knows { id: "k1", from: "Ada", to: "Dee" }')
    assert rows(graph, "node:Note") == {"n1": {"text": "a", "about": None, "n": None}}
    for text in ('create Note { id: "n1", text: "b" }', 'create Knows { id: "k1", from: "Ada", to: "Dee" }'):
        assert refused(graph, text).kind is Kind.KEY_CONFLICT
    assert counts(
        run(
            graph,
            'upsert Note { id: "n1", n: 5 } upsert Note { id: "n2", text: "c" }'
            ' upsert Knows { id: "k1", from: "Ada", to: "Dee", since: 4 }',
        )
    ) == (2, 1)
    assert rows(graph, "node:Note") == {"n1": {"text": "a", "about": None, "n": 5}, "n2": {"text": "c", "about": None, "n": None}}
    assert rows(graph, "edge:Knows")["k1"] == {"src": "Ada", "dst": "Dee", "since": 4, "note": None}
    error = refused(graph, 'upsert Knows { id: "k1", from: "Ben", to: "Dee" }')
    assert "endpoint 'from'" in error.message
    assert refused(graph, '($id: String?) create Note { id: $id, text: "a" }', {"id": None}).kind is Kind.VALIDATION
    run(graph, 'update Note set { about: id } where id = "n2"')
    assert rows(graph, "node:Note")["n2"]["about"] == "n2"
    run(graph, 'create Note { text: "minted" } upsert Note { text: "minted too" }')
    assert len(rows(graph, "node:Note")) == 4


# -- upsert


def test_upsert_keeps_what_it_does_not_name(graph: Graph) -> None:
    assert counts(run(graph, 'upsert Person { name: "Ada", born: born + 1 } upsert Person { name: "Eve", born: coalesce(born, 7) }')) == (
        2,
        0,
    )
    found = rows(graph, "node:Person")
    assert (found["Ada"]["born"], found["Ada"]["score"]) == (1951, 1.5)
    assert (found["Eve"]["born"], found["Eve"]["score"]) == (7, None)
    assert counts(run(graph, 'upsert Film { slug: "heat", year: 1996 }')) == (1, 0)
    assert rows(graph, "node:Film")["heat"] == {"slug": "heat", "title": "Heat", "year": 1996}
    error = refused(graph, 'upsert Film { slug: "heat", year: 1 } upsert Film { slug: "dune" }')
    assert error.kind is Kind.VALIDATION
    assert "'title', 'year'" in error.message
    # Earlier statements are seen.
    run(
        graph,
        'insert Film { slug: "dune", title: "Dune", year: 1 } upsert Film { slug: "dune", year: year + 1 }'
        ' upsert Film { slug: "dune", year: year + 1 }',
    )
    assert rows(graph, "node:Film")["dune"] == {"slug": "dune", "title": "Dune", "year": 3}


def test_upsert_finds_an_edge_by_its_ends_if_they_are_unique(graph: Graph) -> None:
    run(graph, 'upsert Likes { from: "Ada", to: "heat", stars: 3, why: "x" } upsert Knows { from: "Ada", to: "Ben" }')
    (id_,) = rows(graph, "edge:Likes")
    assert counts(run(graph, 'upsert Likes { from: "Ada", to: "heat", stars: stars + 1 } upsert Likes { from: "Ben", to: "heat" }')) == (
        0,
        2,
    )
    found = rows(graph, "edge:Likes")
    assert found[id_] == {"src": "Ada", "dst": "heat", "stars": 4, "why": "x"}
    assert len(found) == 2
    assert len(rows(graph, "edge:Knows")) == 4, "without @unique(src, dst) an edge has no identity but its id"
    run(graph, 'upsert Likes { from: "Cy", to: "alien" } upsert Likes { from: "Cy", to: "alien", stars: 1 }')
    assert len(rows(graph, "edge:Likes")) == 3
    assert "'stars'" in refused(graph, 'upsert Rated { from: "Ada", to: "heat" }').message
    assert "dst 'nope' not found in Film" in refused(graph, 'upsert Likes { from: "Ada", to: "nope" }').message


# -- matches


def test_a_match_updates_what_it_binds(graph: Graph) -> None:
    """L2-23"""
    assert counts(run(graph, "match { $p: Person  $p.born < 1965 } update $p set { born: $p.born + 1, small: born }")) == (2, 0)
    assert born(graph) == {"Ada": 1951, "Ben": 1961, "Cy": None, "Dee": 1970}
    assert counts(
        run(graph, "match { $p: Person  $p $k:knows $q } update $k set { note: $p.name + $q.name } update $q set { score: 0.5 }")
    ) == (3, 3)
    assert sorted(row["note"] for row in rows(graph, "edge:Knows").values()) == ["AdaBen", "BenCy", "CyAda"]  # type: ignore[type-var]
    assert counts(run(graph, 'match { $p: Person { name: "nobody" } } update $p set { born: 1 }')) == (0, 0)


def test_a_change_sees_what_the_changes_before_it_did(graph: Graph) -> None:
    """The block runs once, and each change sees the row as it is before the change."""
    text = "match { $p: Person  $p.born < 1955  $p knows $q } update $p set { born: born + 1 } update $q set { score: $p.born }"
    assert counts(run(graph, f'{text} update Film set {{ year: $p.born }} where slug = "heat"')) == (3, 0)
    assert (born(graph)["Ada"], rows(graph, "node:Person")["Ben"]["score"]) == (1951, 1951.0)
    assert rows(graph, "node:Film")["heat"]["year"] == 1951
    run(graph, 'insert Note { text: "Ada" } insert Note { text: "Ben" }')
    assert counts(run(graph, 'match { $p: Person { name: "Ada" } } delete $p delete Note where text = $p.name')) == (2, 2)


def test_a_match_inserts_for_each_combination(graph: Graph) -> None:
    text = "match { $p: Person  $f: Film  $p.born is not null } insert Likes { from: $p, to: $f, stars: $p.born - 1950 }"
    assert counts(run(graph, text)) == (0, 6)
    assert sorted((row["src"], row["dst"], row["stars"]) for row in rows(graph, "edge:Likes").values()) == [
        ("Ada", "alien", 0),
        ("Ada", "heat", 0),
        ("Ben", "alien", 10),
        ("Ben", "heat", 10),
        ("Dee", "alien", 20),
        ("Dee", "heat", 20),
    ]
    # A change that uses fewer variables than the match binds is applied once for each of its own.
    assert counts(run(graph, 'match { $p: Person  $p likes $f } insert Note { text: $f.title } insert Note { text: "once" }')) == (3, 0)
    assert sorted(str(row["text"]) for row in rows(graph, "node:Note").values()) == ["Alien", "Heat", "once"]
    assert counts(run(graph, 'match { $p: Person { name: "nobody" } } insert Note { text: "never" }')) == (0, 0)
    assert counts(run(graph, "match { $f: Film } upsert Film { slug: $f.slug, year: year + 1 } create Seat { hall: $f.year, row: 1 }")) == (
        4,
        0,
    )
    assert values(graph, "node:Film", "year") == {"alien": 1980, "heat": 1996}
    assert sorted(rows(graph, "node:Seat")) == ['["1980","1"]', '["1996","1"]'], "the second change sees what the first did"


def test_a_match_deletes_what_it_binds_and_its_edges(graph: Graph) -> None:
    assert counts(run(graph, "match { $p: Person  $p $k:knows $q  $k.since > 2 } delete $k")) == (0, 1)
    assert counts(run(graph, 'match { $p: Person { name: "Ada" }  $p knows $q } delete $p, $q')) == (2, 2)
    assert sorted(rows(graph, "node:Person")) == ["Cy", "Dee"]
    assert edges(graph, "Knows") == []
    assert graph.verify() == []


def test_an_entity_gets_one_value(graph: Graph) -> None:
    """L2-23: equal values are fine, different ones are refused and the entity is named."""
    run(graph, 'insert Knows { from: "Ada", to: "Dee" } insert Likes { from: "Ada", to: "heat" }')
    error = refused(graph, "match { $p: Person  $p knows $q } update $p set { born: $q.born }")
    assert isinstance(error, InvalidInput)
    assert (error.kind, error.facts["type"], error.facts["id"], error.facts["property"]) == (
        Kind.AMBIGUOUS_UPDATE,
        "node:Person",
        "Ada",
        "born",
    )
    assert counts(run(graph, "match { $p: Person  $p knows $q } update $p set { tags: $q.tags, score: length($p.name) }")) == (3, 0)
    for text in ("insert", "create", "upsert"):
        error = refused(graph, f'match {{ $p: Person }} {text} Person {{ name: "new", born: $p.born }}')
        assert (error.kind, error.facts["id"]) == (Kind.AMBIGUOUS_UPDATE, "new")
    assert counts(run(graph, 'match { $p: Person } insert Person { name: "new", tags: $p.tags }')) == (1, 0)
    assert refused(graph, 'match { $p: Person } upsert Likes { from: "Ada", to: "heat", stars: $p.born }').kind is Kind.AMBIGUOUS_UPDATE
    assert refused(graph, 'match { $p: Person } update Film set { year: $p.born } where slug = "heat"').kind is Kind.AMBIGUOUS_UPDATE


def test_a_condition_beside_a_match_may_use_both(graph: Graph) -> None:
    run(graph, 'insert Note { text: "Ada" } insert Note { text: "Dee" } insert Note { text: "nobody" }')
    assert counts(run(graph, "match { $p: Person } update Note set { n: $p.born, about: text + $p.name } where text = $p.name")) == (2, 0)
    assert sorted((str(row["text"]), row["n"], row["about"]) for row in rows(graph, "node:Note").values()) == [
        ("Ada", 1950, "AdaAda"),
        ("Dee", 1970, "DeeDee"),
        ("nobody", None, None),
    ]
    assert counts(run(graph, "match { $p: Person  $p.born < 1960 } delete Note where n < $p.born + 100")) == (2, 0)
    assert [row["text"] for row in rows(graph, "node:Note").values()] == ["nobody"]
    assert counts(run(graph, 'match { $p: Person { name: "Ada" } } delete Knows where from = $p.id')) == (0, 1)


def test_a_match_sees_the_earlier_statements(graph: Graph) -> None:
    """L2-23: new nodes, changed rows and new edges, in scans and in traversals."""
    receipt = run(
        graph,
        'insert Person { name: "Eve", born: 1 } insert Knows { from: "Eve", to: "Ada", since: 9 }'
        ' update Person set { born: 2 } where name = "Ada"'
        " match { $p: Person  $p.born < 10  $p $k:knows $q } update $q set { born: $p.born + 100 } update $k set { note: $q.name }"
        " match { $p: Person  $p.born > 100  $p.born < 200 } insert Note { text: $p.name, n: $p.born }",
    )
    assert counts(receipt) == (1 + 1 + 2 + 2, 1 + 2)
    assert born(graph) == {"Ada": 101, "Ben": 102, "Cy": None, "Dee": 1970, "Eve": 1}
    assert sorted((row["since"], row["note"]) for row in rows(graph, "edge:Knows").values()) == [
        (1, "Ben"),
        (2, None),
        (3, None),
        (9, "Ada"),
    ]
    assert sorted((row["text"], row["n"]) for row in rows(graph, "node:Note").values()) == [("Ada", 101), ("Ben", 102)]


def test_a_match_does_not_see_what_earlier_statements_deleted(graph: Graph) -> None:
    receipt = run(
        graph, 'delete Knows where from = "Ada" match { $p: Person  $p knows $q } delete $q match { $p: Person { name: "Ben" } } delete $p'
    )
    assert counts(receipt) == (3, 3)
    assert sorted(rows(graph, "node:Person")) == ["Dee"]


@pytest.mark.parametrize("route", list(Route))
def test_every_route_follows_pending_edges_between_pending_nodes(graph: Graph, monkeypatch: pytest.MonkeyPatch, route: Route) -> None:
    """The numbers of pending rows are others than in the snapshot, whichever way their edges are found."""
    monkeypatch.setattr(matches, "stream", partial(stream, route=route))
    receipt = run(
        graph,
        'insert Person { name: "Aaron" } insert Knows { from: "Aaron", to: "Dee", since: 9 } insert Knows { from: "Dee", to: "Aaron" }'
        " match { $p: Person  $p knows $q } insert Note { text: $p.name, about: $q.name }"
        " match { $p: Person  exists { $p knows $_ } } insert Note { text: $p.name }",
    )
    known = set(edges(graph, "Knows"))
    assert counts(receipt) == (1 + 5 + 5, 2)
    found = {(row["text"], row["about"]) for row in rows(graph, "node:Note").values()}
    assert found == known | {(source, None) for source, _ in known}


def test_interfaces_and_paths_see_the_earlier_statements(tmp_path: Path) -> None:
    graph = og.init(
        tmp_path / "works",
        schema="interface Work { title: String }\nnode Book implements Work { isbn: String @key }\n"
        "node Song implements Work { no: I32 @key }\nnode Note { text: String }\nedge After: Book -> Book",
    )
    run(graph, 'insert Book { isbn: "1", title: "Emma" } insert Song { no: 1, title: "Layla" } insert Book { isbn: "2", title: "Ulysses" }')
    receipt = run(
        graph,
        'insert Song { no: 2, title: "Hush" } update Book set { title: title + "!" } where isbn = "1" insert After { from: "1", to: "2" }'
        ' match { $w: Work } insert Note { text: type($w) + " " + $w.title }'
        " match { $a: Book  $b: Book  path $p = $a after{1,3} $b } insert Note { text: $a.title + $b.title }",
    )
    assert counts(receipt) == (1 + 1 + 4 + 1, 1)
    texts = sorted(str(row["text"]) for row in rows(graph, "node:Note").values())
    assert texts == ["Book Emma!", "Book Ulysses", "Emma!Ulysses", "Song Hush", "Song Layla"]
    # The entities of an interface are told apart by type and id, and a later change sees what an earlier one did.
    text = 'match { $w: Work  $w.id = "1" } upsert Song { no: 1, title: "Again" } insert Note { text: "- " + type($w) + " " + $w.title }'
    assert counts(run(graph, text)) == (3, 0)
    texts = sorted(str(row["text"]) for row in rows(graph, "node:Note").values() if str(row["text"]).startswith("-"))
    assert texts == ["- Book Emma!", "- Song Again"]


def test_new_edges_may_name_new_nodes_of_the_same_match(graph: Graph) -> None:
    film, likes = "insert Film { slug: $p.name, title: $p.name, year: $p.born }", "insert Likes { from: $p, to: $p.name }"
    text = f"match {{ $p: Person  $p.born > 1955 }} {film} {likes}"
    assert counts(run(graph, text)) == (2, 2)
    assert edges(graph, "Likes") == [("Ben", "Ben"), ("Dee", "Dee")]
    backwards = f"match {{ $p: Person  $p.born < 1955 }} {likes} {film}"
    assert "dst 'Ada' not found in Film" in refused(graph, backwards).message


def test_blobs_are_carried(graph: Graph) -> None:
    run(graph, "update Person set { photo: $b } where born > 0".join(("($b: Blob) ", "")), {"b": "base64:AAEC"})
    run(graph, "match { $p: Person  $p.born < 1965 } update $p set { born: 1 } upsert Person { name: $p.name, score: 9 }")
    run(graph, "update Person set { score: born } where born + 0 = 1970")
    run(graph, 'upsert Person { name: "Dee", tags: ["x"] }')
    photos = values(graph, "node:Person", "photo")
    assert photos == {"Ada": b"\0\1\2", "Ben": b"\0\1\2", "Cy": None, "Dee": b"\0\1\2"}


# -- many rows


def test_many_rows_are_written_to_files(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "HELD_BYTES", 100)
    fill(graph, {"node:Note": _notes(graph, 3000)})
    assert counts(run(graph, "match { $n: Note } update $n set { n: n + 1 }")) == (3000, 0)
    assert sum(value for value in values(graph, "node:Note", "n").values() if isinstance(value, int)) == sum(range(1, 3001))
    # A later statement takes them back; values that it replaces are not checked.
    run(
        graph,
        'match { $n: Note } update $n set { about: text } update $n set { n: 0 } update Note set { about: "x" } where n = 0 and text = "7"',
    )
    found = rows(graph, "node:Note")
    assert (len(found), sum(row["about"] == row["text"] for row in found.values())) == (3000, 2999)
    assert counts(run(graph, "match { $n: Note } insert Film { slug: $n.text, title: $n.text, year: $n.n }")) == (3000, 0)
    assert len(rows(graph, "node:Film")) == 3002
    before = _files(graph)
    assert (
        refused(graph, "match { $n: Note } update $n set { n: n + 1 } update Film set { year: year % 0 } where year > 0").kind
        is Kind.VALIDATION
    )
    assert (
        refused(graph, 'match { $n: Note } update $n set { text: "x", about: $n.text } insert Film { slug: "x", title: "x", year: n }').kind
        is Kind.TYPE
    )
    assert _files(graph) == before, "files that no commit names are removed"
    graph.branches.create("work")
    assert run(graph, "match { $n: Note } update $n set { n: 5 }", branch="work").affected_nodes == 3000
    assert set(values(graph, "node:Note", "n", branch="work").values()) == {5}
    assert set(values(graph, "node:Note", "n").values()) == {0}
    assert graph.verify() == []


def _files(graph: Graph) -> set[str]:
    return {str(path) for path in Path(graph.uri).rglob("*.lance") if "data" in path.parts}


def _notes(graph: Graph, count: int) -> pa.Table:
    schema = pa.schema([("id", pa.string()), ("about", pa.string()), ("n", pa.int64()), ("text", pa.string())])
    names = [str(number) for number in range(count)]
    return pa.table([names, pa.nulls(count, pa.string()), range(count), names], schema=schema)
