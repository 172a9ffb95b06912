"""URIs of blobs outside the graph: refused unless their base is allowed, copied if it is."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, ResourceLimitExceeded
from omnigraph.exec import external_blobs
from omnigraph.exec.external_blobs import ENVIRONMENT, BlobPolicy, ExternalBlobs, checked_bases
from omnigraph.graph import Graph
from omnigraph.spark.intake import FilesIntake, TablesIntake
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.unit.spark.here import Here, loaded

SCHEMA = "node Script { code: String @key  body: Blob?  note: Blob? }"
INSERT = "($c: String, $b: Blob?) { insert Script { code: $c, body: $b } }"


@pytest.fixture(autouse=True)
def _setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def reels(tmp_path: Path) -> Path:
    """A directory with objects, and things beside and below it that must not be read."""
    base = tmp_path / "reels"
    (base / "deep").mkdir(parents=True)
    (base / "a b.bin").write_bytes(b"one")
    (base / "deep" / "two.bin").write_bytes(b"two" * 1000)
    (base / "empty").write_bytes(b"")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "reels-too").write_bytes(b"secret")
    (base / "out").symlink_to(tmp_path / "secret")
    (base / "in").symlink_to(base / "a b.bin")
    os.mkfifo(base / "pipe")
    return base


@pytest.fixture
def graph(tmp_path: Path, reels: Path) -> Graph:
    return og.init(tmp_path / "g", schema=SCHEMA, external_blobs=[str(reels)])


def put(graph: Graph, code: str, uri: str) -> None:
    graph.mutate(f"query q{INSERT}", params={"c": code, "b": uri})


def record(code: str, uri: str) -> dict[str, object]:
    return {"type": "Script", "data": {"code": code, "body": uri}}


def body(graph: Graph, code: str) -> bytes:
    return graph.blob("node", "Script", code, "body").read()


def test_an_allowed_blob_is_copied_by_mutations_and_loads_in_every_mode(graph: Graph, reels: Path, tmp_path: Path) -> None:
    """W-43: The bytes of an allowed URI are copied, and the graph owns them: the source may change or go, and an export is whole."""
    put(graph, "m", f"{reels}/a b.bin")
    for mode in ("append", "merge", "upsert"):
        graph.load(
            [record(mode, f"file://{reels}/deep/two.bin"), record(f"{mode}-2", "base64:"), record(f"{mode}-3", f"{reels}/empty")], mode
        )
    graph.load({"Script": pa.table({"code": ["t"], "body": [f"file://{reels}/a%20b.bin"]})})
    (tmp_path / "scripts.csv").write_text(f"code,body\nc,{reels}/in\n")
    graph.load({"Script": str(tmp_path / "scripts.csv")})
    for file in (reels / "a b.bin", reels / "deep" / "two.bin"):
        file.write_bytes(b"changed")
    assert {code: body(graph, code) for code in ("m", "t", "c")} == {"m": b"one", "t": b"one", "c": b"one"}
    for mode in ("append", "merge", "upsert"):
        assert body(graph, mode) == b"two" * 1000
        assert body(graph, f"{mode}-2") == body(graph, f"{mode}-3") == b""
    assert all("file:" not in line for line in graph.export())
    copied = graph.copy_to(tmp_path / "copy")
    assert body(copied, "m") == b"one"
    put(copied, "again", f"{reels}/in")  # a copy is written under the same settings
    lines = list(graph.export())
    other = og.init(tmp_path / "other", schema=SCHEMA)
    other.load(lines, "overwrite")
    assert list(other.export()) == lines
    graph.load([record("only", f"{reels}/in")], "overwrite")
    assert [json.loads(line)["data"]["body"] for line in graph.export()] == ["base64:Y2hhbmdlZA=="]
    assert graph.verify() == []


@pytest.mark.parametrize(
    "uri",
    [
        "{base}/../secret",
        "file://{base}/../secret",
        "file://{base}/%2e%2e/secret",
        "{base}/out",
        "{base}-too",
        "{base}",
        "{base}/",
        "reels/in",
        "/etc/hostname",
        "s3://bucket/reel",
        "https://example.com/reel",
        "memory://reels/in",
        "file://elsewhere{base}/in",
        "file:in",
        "{base}/a\0b",
        "",
        "BASE64:cmVlbA==",
    ],
)
def test_what_is_below_no_base_is_refused_unread(graph: Graph, reels: Path, uri: str) -> None:
    """A URI that is below no allowed base is refused by policy; dot segments and symlinks do not lead out of one."""
    before, wanted = graph.snapshot(), uri.format(base=reels)
    with pytest.raises(InvalidInput, match="is not allowed: ") as caught:
        put(graph, "x", wanted)
    assert caught.value.kind is Kind.BLOB_POLICY
    with pytest.raises(InvalidInput, match="is not allowed: ") as caught:
        graph.load([record("fine", "base64:"), record("x", wanted)])
    assert (caught.value.kind, caught.value.facts["code"], caught.value.facts["record"]) == (Kind.VALIDATION, "blob", 2)
    assert graph.snapshot() == before


@pytest.mark.parametrize("name", ["missing", "deep", "pipe", "deep/two.bin/below"])
def test_an_allowed_source_that_cannot_be_read_is_told(graph: Graph, reels: Path, name: str) -> None:
    """An allowed source that is missing or no file is a typed error, and nothing is written."""
    before = graph.snapshot()
    with pytest.raises(InvalidInput, match="cannot be read: ") as caught:
        put(graph, "x", f"{reels}/{name}")
    assert (caught.value.kind, caught.value.facts["uri"]) == (Kind.BLOB_SOURCE, f"{reels}/{name}")
    with pytest.raises(InvalidInput, match="cannot be read: "):
        graph.load([record("x", f"{reels}/{name}")])
    assert graph.snapshot() == before


def test_the_environment_allows_bases_and_an_argument_replaces_it(tmp_path: Path, reels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, f" s3://elsewhere/x , {reels} ,")
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    put(graph, "a", f"{reels}/in")
    for none in (og.open(tmp_path / "g", external_blobs=[]), og.open(tmp_path / "g", external_blobs=["s3://elsewhere/x"])):
        with pytest.raises(InvalidInput, match="is not allowed: "):
            put(none, "b", f"{reels}/in")
    monkeypatch.setenv(ENVIRONMENT, "relative/directory")
    opened = og.open(tmp_path / "g")  # reads and other writes do not ask
    put(opened, "c", "base64:")
    assert body(opened, "a") == b"one"
    with pytest.raises(InvalidInput, match="absolute directory") as caught:
        opened.load([record("d", f"{reels}/in")])
    assert caught.value.kind is Kind.INVALID_ARGUMENT


@pytest.mark.parametrize("bases", ["/reels", ["relative"], ["memory://x"], ["https://example.com/"], ["s3://bucket/../x"], [7]])
def test_a_wrong_base_is_refused_at_once(tmp_path: Path, bases: list[str]) -> None:
    with pytest.raises(og.OmniGraphError) as caught:
        og.init(tmp_path / "g", schema=SCHEMA, external_blobs=bases)
    assert caught.value.kind in (Kind.INVALID_ARGUMENT, Kind.UNSUPPORTED)
    assert not (tmp_path / "g").exists()


def test_a_uri_that_a_later_statement_replaces_is_neither_checked_nor_read(graph: Graph, reels: Path) -> None:
    """A URI that is replaced in the same mutation causes no check and no read."""
    text = 'query q($a: Blob, $b: Blob) { insert Script { code: "x", body: $a } update Script set { body: $b } where code = "x" }'
    graph.mutate(text, params={"a": "/etc/shadow", "b": f"{reels}/in"})
    assert body(graph, "x") == b"one"
    graph.mutate(text, params={"a": f"{reels}/missing", "b": "base64:"})
    assert body(graph, "x") == b""


def test_a_place_is_read_once_whatever_its_spelling(graph: Graph, reels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-42: Equivalent spellings of one URI are read once by a write; every property is charged."""
    reads: list[str] = []
    fetch = ExternalBlobs._fetch

    def counted(self: ExternalBlobs, place: Any, uri: str, cells: int) -> bytes:
        reads.append(uri)
        return fetch(self, place, uri, cells)

    monkeypatch.setattr(ExternalBlobs, "_fetch", counted)
    spellings = [f"{reels}/a b.bin", f"file://{reels}/a%20b.bin", f"{reels}//deep/../a b.bin", f"{reels}/in"]
    graph.load([record(str(n), uri) for n, uri in enumerate(spellings)])
    assert len(reads) == 1
    graph.mutate('query q($b: Blob) { update Script set { body: $b, note: $b } where code != "" }', params={"b": spellings[1]})
    assert len(reads) == 2
    assert graph.blob("node", "Script", "3", "note").read() == b"one"


def test_too_many_or_too_large_are_refused_before_they_are_read(graph: Graph, reels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-41: The blobs that one write reads from outside are limited in number and in bytes, by their sizes."""
    monkeypatch.setattr(external_blobs, "MAX_CELLS", 3)
    graph.load([record(str(n), f"{reels}/in") for n in range(3)])
    before = graph.snapshot()
    with pytest.raises(ResourceLimitExceeded) as caught:
        graph.load([record(str(n), f"{reels}/in") for n in range(4)])
    assert caught.value.facts == {"resource": "external_blobs", "limit": 3, "actual": 4}
    with pytest.raises(ResourceLimitExceeded):
        graph.mutate('query q($b: Blob) { update Script set { body: $b, note: $b } where code != "" }', params={"b": f"{reels}/in"})
    monkeypatch.setattr(external_blobs, "MAX_BYTES", 2999)
    with pytest.raises(ResourceLimitExceeded) as caught:
        put(graph, "x", f"{reels}/deep/two.bin")
    assert caught.value.facts == {"resource": "external_blob_bytes", "limit": 2999, "actual": 3000}
    assert graph.snapshot() == before


def test_a_mutation_holds_no_lock_while_it_reads(graph: Graph, reels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits while the first one waits for its source."""
    fetch, done = ExternalBlobs._fetch, threading.Event()

    def other() -> None:
        put(graph, "other", "base64:")
        done.set()

    def slow(self: ExternalBlobs, place: Any, uri: str, cells: int) -> bytes:
        threading.Thread(target=other).start()
        assert done.wait(30)
        return fetch(self, place, uri, cells)

    monkeypatch.setattr(ExternalBlobs, "_fetch", slow)
    put(graph, "slow", f"{reels}/in")
    assert body(graph, "slow") == b"one"
    assert body(graph, "other") == b""


def test_the_tasks_of_a_spark_load_copy_them_too(graph: Graph, reels: Path, tmp_path: Path) -> None:
    """Files and tables, read by tasks that run here one by one: the same bytes and the same problems as in one process."""
    file, table = str(tmp_path / "scripts.ndjson"), str(tmp_path / "scripts.parquet")
    lines = [json.dumps(record(str(n), f"{reels}/in" if n % 2 else "base64:")) for n in range(200)]
    Path(file).write_text("\n".join(lines))
    files = FilesIntake(Here(), graph.engine, [file], part_bytes=2000)
    loaded(graph, files, "append", branch="main", report_errors=10)
    assert (body(graph, "7"), body(graph, "8")) == (b"one", b"")
    assert not files.rereadable
    pq.write_table(pa.table({"code": ["p", "q"], "body": [f"{reels}/in", None]}), table)
    loaded(graph, TablesIntake(Here(), graph.engine, {"Script": table}), "merge", branch="main", report_errors=10)
    assert body(graph, "p") == b"one"
    Path(file).write_text("\n".join([*lines, json.dumps(record("x", f"{reels}/missing"))]))
    with pytest.raises(InvalidInput, match="cannot be read: ") as here:
        graph.load(file)
    with pytest.raises(InvalidInput, match="cannot be read: ") as there:
        loaded(graph, FilesIntake(Here(), graph.engine, [file]), "merge", branch="main", report_errors=10)
    assert here.value.facts["problems"] == there.value.facts["problems"]
    assert here.value.facts["line"] == 201


def test_bases_on_s3_match_whole_segments_of_keys() -> None:
    policy = BlobPolicy(checked_bases(["s3://assets/k/", "s3://whole"]))
    for allowed in ("s3://assets/k/a", "s3://assets/k/b/c", "s3://assets/%6b/a", "s3://whole/x"):
        assert policy.place(allowed).path in ("a", "b/c", "x")
    assert policy.place("s3://assets/%6b/a") == policy.place("s3://assets/k/a")
    for refused in (
        "s3://assets/kitten",
        "s3://assets/k",
        "s3://assets/k/../x",
        "s3://asset/k/a",
        "s3://assets/other/a",
        "s3://user:pw@whole/x",
    ):
        with pytest.raises(InvalidInput) as caught:
            policy.place(refused)
        assert caught.value.kind is Kind.BLOB_POLICY
        assert "pw" not in str(caught.value)
