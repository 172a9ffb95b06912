"""Blobs through mutations and out again: which texts are bytes, what is kept, what is refused, and what a part costs."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, NotFound, ResourceLimitExceeded
from omnigraph.exec.blobs import charge_carried
from omnigraph.exec.external_blobs import URI_LIMIT_BYTES
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run, table, values

SCHEMA = """
node Script { code: String @key  body: Blob?  pages: I32? }
node Reel { code: String @key  film: Blob }
edge Uses: Script -> Reel { proof: Blob? }
"""
SCRIPT = "node:Script"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    return og.init(tmp_path / "g", schema=SCHEMA)


def text(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


def put(graph: Graph, code: str, body: str | None, *, branch: str = "main") -> None:
    run(graph, "($c: String, $b: Blob?) insert Script { code: $c, body: $b }", {"c": code, "b": body}, branch=branch)


def test_base64_text_is_stored_as_its_bytes(graph: Graph) -> None:
    """E101; a `String` parameter may carry one, too; nothing after the colon is an empty blob, null is none."""
    put(graph, "s1", "base64:cmVlbA==")
    run(graph, '($b: String) insert Script { code: "s2", body: $b }', {"b": "base64:"})
    put(graph, "s3", None)
    assert values(graph, SCRIPT, "body") == {"s1": b"reel", "s2": b"", "s3": None}
    assert graph.verify() == []


@pytest.mark.parametrize("bad", ["base64:cmVlbA", "base64:cm Vl", "base64:cm\nVl", "base64:é", "base64:c-_l", "base64:===="])
def test_bad_base64_is_refused(graph: Graph, bad: str) -> None:
    before = graph.snapshot()
    with pytest.raises(InvalidInput, match="invalid base64 blob data: ") as caught:
        put(graph, "s1", bad)
    assert (caught.value.kind, caught.value.facts["code"]) == (Kind.VALIDATION, "blob")
    assert graph.snapshot() == before


@pytest.mark.parametrize("uri", ["s3://bucket/reel", "file:///etc/passwd", "reel.bin", "", "BASE64:cmVlbA=="])
def test_a_uri_is_refused_by_policy(graph: Graph, uri: str) -> None:
    """W-40: A blob URI is refused, and the place it names is not accessed."""
    before = graph.snapshot()
    with pytest.raises(InvalidInput) as caught:
        put(graph, "s1", uri)
    assert caught.value.kind is Kind.BLOB_POLICY
    assert caught.value.message.startswith(f"external blob URI '{uri}' is not allowed: ")
    assert graph.snapshot() == before


def test_a_very_long_uri_is_refused_by_its_length(graph: Graph) -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        put(graph, "s1", "s3://" + "x" * URI_LIMIT_BYTES)
    assert caught.value.facts["resource"] == "blob_uri_bytes"


def test_a_uri_that_a_later_statement_replaced_is_not_judged(graph: Graph) -> None:
    """W-39: A blob URI that a later statement of the mutation replaces is not checked.

    Replaced by a whole row, by an update, and by null; what is left at the end is judged.
    """
    head = "($u: Blob, $b: Blob) "
    given = {"u": "s3://nowhere/x", "b": text(b"final")}
    run(graph, head + 'insert Script { code: "a", body: $u } insert Script { code: "a", body: $b }', given)
    run(graph, head + 'insert Script { code: "b", body: $u } update Script set { body: $b } where code = "b"', given)
    run(graph, head + 'insert Script { code: "c", body: $u } insert Script { code: "c" }', given)
    assert values(graph, SCRIPT, "body") == {"a": b"final", "b": b"final", "c": None}
    with pytest.raises(InvalidInput, match="s3://nowhere/x"):
        run(graph, head + 'insert Script { code: "d", body: $b } update Script set { body: $u } where code = "d"', given)


def test_an_update_of_another_property_keeps_the_blob(graph: Graph) -> None:
    """W-38: An update of another property keeps the blob, of committed and of new rows.

    Committed and pending rows alike, with none, an empty, a small and a large one.
    """
    large = os.urandom(200_000)
    for code, body in (("a", None), ("b", b""), ("c", b"small"), ("d", large)):
        put(graph, code, None if body is None else text(body))
    run(graph, 'update Script set { pages: 7 } where code != "z"')
    run(graph, '($b: Blob) insert Script { code: "e", body: $b } update Script set { pages: 8 } where code = "e"', {"b": text(b"new")})
    assert values(graph, SCRIPT, "body") == {"a": None, "b": b"", "c": b"small", "d": large, "e": b"new"}
    assert values(graph, SCRIPT, "pages") == {"a": 7, "b": 7, "c": 7, "d": 7, "e": 8}
    assert graph.verify() == []


def test_setting_a_blob_to_null_sets_it_null(graph: Graph) -> None:
    """And replacing a row whole leaves nothing of the old one."""
    put(graph, "a", text(b"one"))
    put(graph, "b", text(b"two"))
    run(graph, '($n: Blob?) update Script set { body: $n } where code = "a"', {"n": None})
    run(graph, 'insert Script { code: "b" }')
    assert values(graph, SCRIPT, "body") == {"a": None, "b": None}


def test_an_update_that_carries_too_much_is_refused_unread(graph: Graph) -> None:
    """W-37: An update that would carry too many blob bytes is refused by their sizes, without reading them."""
    put(graph, "a", text(bytes(60_000)))
    put(graph, "b", text(bytes(60_000)))
    put(graph, "c", None)
    found = table(graph, SCRIPT)
    found.dataset.io_stats_incremental()
    with pytest.raises(ResourceLimitExceeded) as caught:
        charge_carried(found, ["body"], [None], limit_bytes=100_000)
    assert caught.value.facts == {"resource": "carried_blob_bytes", "limit": 100_000, "actual": 120_000}
    charge_carried(found, ["body"], ["code = 'a'"], limit_bytes=100_000)
    assert found.dataset.io_stats_incremental().read_bytes < 30_000


def test_blobs_of_edges_and_required_ones_are_stored(graph: Graph) -> None:
    put(graph, "s", None)
    run(graph, '($b: Blob) insert Reel { code: "r", film: $b } insert Uses { from: "s", to: "r", proof: $b }', {"b": text(b"35mm")})
    (id_,) = values(graph, "edge:Uses", "proof")
    assert graph.blob("edge", "Uses", id_, "proof").read() == b"35mm"
    assert graph.blob("node", "Reel", "r", "film").read() == b"35mm"
    with pytest.raises(og.LanguageError, match="T12"):
        run(graph, 'insert Reel { code: "none" }')


# -- reading one


def test_a_blob_is_read_whole_or_in_parts(graph: Graph) -> None:
    data = os.urandom(150_000)
    put(graph, "it's", text(data))
    blob = graph.blob("node", "Script", "it's", "body")
    assert blob.size == len(data)
    assert blob.read() == data
    assert blob.read(10, 20) == data[10:20]
    assert blob.read(149_990) == data[-10:]
    assert blob.read(149_990, 999_999) == data[-10:]
    assert blob.read(5, 5) == b""
    assert len(blob.etag) == 32
    assert set(blob.etag) <= set("0123456789abcdef")


def test_a_part_that_is_not_there_is_refused(graph: Graph) -> None:
    put(graph, "a", text(b"abc"))
    put(graph, "empty", text(b""))
    blob = graph.blob("node", "Script", "a", "body")
    for start, end, kind in (
        (3, None, Kind.BLOB_RANGE),
        (4, 9, Kind.BLOB_RANGE),
        (-1, 2, Kind.INVALID_ARGUMENT),
        (2, 1, Kind.INVALID_ARGUMENT),
    ):
        with pytest.raises(InvalidInput) as caught:
            blob.read(start, end)
        assert caught.value.kind is kind
    with pytest.raises(InvalidInput, match=r"`start` of read\(\) takes a whole number, not str: 'a'"):
        blob.read("a")  # type: ignore[arg-type]
    assert graph.blob("node", "Script", "empty", "body").read() == b""


def test_a_blob_keeps_its_bytes_and_its_tag_while_the_branch_goes_on(graph: Graph) -> None:
    """B-23: A blob that was looked up keeps its bytes while the branch moves on; its tag changes only when its bytes may have."""
    put(graph, "a", text(b"old"))
    commit = graph.snapshot().commit_id
    blob = graph.blob("node", "Script", "a", "body")
    put(graph, "b", text(b"other"))
    assert graph.blob("node", "Script", "a", "body").etag == blob.etag
    put(graph, "a", text(b"new"))
    assert graph.blob("node", "Script", "a", "body").etag != blob.etag
    run(graph, 'delete Script where code = "a"')
    assert blob.read() == b"old"
    assert graph.blob("node", "Script", "a", "body", at=commit).read() == b"old"


def test_a_branch_has_blobs_of_its_own(graph: Graph) -> None:
    put(graph, "a", text(b"main"))
    graph.branches.create("draft")
    assert graph.blob("node", "Script", "a", "body", branch="draft").read() == b"main"
    put(graph, "a", text(b"draft"), branch="draft")
    assert graph.blob("node", "Script", "a", "body", branch="draft").read() == b"draft"
    assert graph.blob("node", "Script", "a", "body").read() == b"main"


@pytest.mark.parametrize(
    ("selector", "error", "message"),
    [
        (("node", "Nope", "a", "body"), InvalidInput, "unknown node type 'Nope'"),
        (("edge", "Script", "a", "body"), InvalidInput, "unknown edge type 'Script'"),
        (("thing", "Script", "a", "body"), InvalidInput, "'node' or an 'edge'"),
        (("node", "Script", "a", "pages"), InvalidInput, "no Blob property 'pages'"),
        (("node", "Script", "z", "body"), NotFound, "there is no node Script 'z'"),
        (("node", "Script", "none", "body"), NotFound, "property 'body' of node Script 'none' is null"),
    ],
)
def test_what_is_not_a_blob_is_told_apart(
    graph: Graph, selector: tuple[str, str, str, str], error: type[og.OmniGraphError], message: str
) -> None:
    put(graph, "none", None)
    with pytest.raises(error, match=message):
        graph.blob(*selector)


def test_queries_of_other_columns_read_no_blob(graph: Graph) -> None:
    put(graph, "a", text(bytes(60_000)))
    found = table(graph, SCRIPT)
    found.dataset.io_stats_incremental()
    assert found.scan(["id", "code", "pages"]).read_all().num_rows == 1
    assert found.dataset.io_stats_incremental().read_bytes < 30_000


# -- and schemas that change


def shown(graph: Graph) -> list[dict[str, object]]:
    return [json.loads(line)["data"] for line in graph.export()]


def test_a_blob_property_is_added_renamed_dropped_and_added_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-14: A renamed blob property keeps its bytes; one added again has none of the old one's."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "g", schema="node Doc { name: String @key }")
    large = text(os.urandom(100_000))
    run(graph, 'insert Doc { name: "old" }')
    graph.apply_schema("node Doc { name: String @key  body: Blob? }")
    run(graph, '($b: Blob) insert Doc { name: "new", body: $b }', {"b": large})
    assert [row["body"] for row in shown(graph)] == [large, None]
    graph.apply_schema('node Doc { name: String @key  scan: Blob? @rename_from("body") }')
    run(graph, '($b: Blob) update Doc set { scan: $b } where name = "old"', {"b": "base64:"})
    assert [row["scan"] for row in shown(graph)] == [large, "base64:"]
    assert graph.blob("node", "Doc", "new", "scan").size == 100_000
    graph.apply_schema("node Doc { name: String @key }")
    graph.apply_schema("node Doc { name: String @key  scan: Blob? }")
    assert [row["scan"] for row in shown(graph)] == [None, None]
    assert graph.verify() == []


def test_blobs_survive_a_hard_drop_of_another_property(graph: Graph) -> None:
    """The table is laid down anew, row by row."""
    bodies = {"a": None, "b": b"", "c": b"small", "d": os.urandom(100_000)}
    for code, body in bodies.items():
        put(graph, code, None if body is None else text(body))
    graph.apply_schema(SCHEMA.replace("pages: I32?", ""), allow_data_loss=True)
    assert values(graph, SCRIPT, "body") == bodies
    assert graph.verify() == []
