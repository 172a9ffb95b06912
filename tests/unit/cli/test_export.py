"""`export` and `blob` on real graphs: raw bytes, whole files, pipes that break, and refusals."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.unit.cli.calls import Call, run

ADA = '{"type":"Person","data":{"id":"Ada","born":null,"name":"Ada"}}\n'


def test_export_prints_raw_ndjson(graph: str, call: Call) -> None:
    assert call("export", graph) == (0, ADA, "")
    assert call("export", "--store", graph, "--type", "Person", "--type", "Knows") == (0, ADA, "")
    assert call("export", graph, "--type", "Knows") == (0, "", "")


def test_export_is_utf8_whatever_the_terminal_has(graph: str, files: Path, call: Call) -> None:
    call("mutate", "-e", 'query q() { insert Person { name: "Zoë\\u0007" } }'.replace("\\u0007", "漢"), "--store", graph)
    command = [sys.executable, "-m", "omnigraph.cli.main", "export", graph]
    said = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, cwd=files)
    assert json.loads(said.stdout.splitlines()[-1])["data"]["id"] == "Zoë漢"
    assert "Zoë漢".encode() in said.stdout


def test_export_of_a_commit_and_of_a_branch(graph: str, call: Call) -> None:
    then = og.open(graph).snapshot().commit_id
    call("branch", "create", "side", "--uri", graph)
    call("mutate", "add_person", "--query", "people.gq", "--params", '{"name": "Ben"}', "--store", graph)
    assert call("export", graph).out.count("\n") == 2
    assert call("export", graph, "--at", then).out == ADA
    assert call("export", graph, "--branch", "side").out == ADA


def test_export_refuses_an_unknown_type_and_branch(graph: str, call: Call) -> None:
    said = call("export", graph, "--type", "Persn")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("Error: unknown export type 'Persn'\n")
    assert call("export", graph, "--branch", "nope").code == 1


def test_export_writes_a_file_whole(graph: str, files: Path, call: Call) -> None:
    """The old one stays until the new one is there; nothing else is left in the folder."""
    (files / "out.jsonl").write_text("old")
    before = set(os.listdir(files))
    assert call("export", graph, "--output", "out.jsonl", "--type", "Nope").code == 1
    assert (files / "out.jsonl").read_text() == "old"
    said = call("export", graph, "--output", "out.jsonl")
    assert (said.code, said.out, said.err) == (0, "", "exported 1 record to out.jsonl\n")
    assert (files / "out.jsonl").read_text() == ADA
    assert set(os.listdir(files)) == before


@pytest.mark.parametrize(("path", "why"), [("nowhere/out.jsonl", "there is no directory 'nowhere'"), (".", "a directory, not a file")])
def test_export_says_why_a_file_cannot_be_written(graph: str, path: str, why: str, call: Call) -> None:
    said = call("export", graph, "--output", path)
    assert said.code == 1
    assert f"cannot write '{path}': {why}" in said.err


def test_export_into_a_pipe_that_breaks_is_silent(graph: str, files: Path) -> None:
    lines = [json.dumps({"type": "Person", "data": {"name": f"person {n:06}"}}) for n in range(20_000)]
    og.open(graph).load("\n".join(lines).encode())
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli.main", "export", graph], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=files
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == ADA.encode()
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


def test_the_old_flag_is_taken_with_a_warning(graph: str, call: Call) -> None:
    said = call("export", graph, "--jsonl")
    assert (said.code, said.out) == (0, ADA)
    assert "deprecated" in said.err


# -- blobs


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init("album.omni", schema="node Script { code: String @key  body: Blob? }")
    for code, data in (("s1", bytes(range(256))), ("empty", b""), ("none", None)):
        body = None if data is None else "base64:" + base64.b64encode(data).decode()
        graph.mutate("query q($c: String, $b: Blob?) { insert Script { code: $c, body: $b } }", params={"c": code, "b": body})
    return "album.omni"


def raw(*arguments: str) -> bytes:
    return subprocess.run([sys.executable, "-m", "omnigraph.cli.main", *arguments], capture_output=True, check=True).stdout


def test_blob_get_prints_the_bytes(album: str) -> None:
    where = ("blob", "get", "node", "Script", "s1", "body", "--uri", album)
    assert raw(*where) == bytes(range(256))
    assert raw(*where, "--offset", "250", "--length", "100") == bytes(range(250, 256))


def test_blob_get_writes_a_file(album: str, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "s1.bin"
    out.write_bytes(b"old")
    assert call("blob", "get", "node", "Script", "none", "body", "--store", album, "--out", str(out)).code == 1
    assert out.read_bytes() == b"old"
    assert call("blob", "get", "node", "Script", "s1", "body", "--store", album, "--offset", "2", "--out", str(out)) == (0, "", "")
    assert out.read_bytes() == bytes(range(2, 256))
    assert call("blob", "get", "node", "Script", "empty", "body", "--store", album, "--out", str(out)).code == 0
    assert out.read_bytes() == b""


@pytest.mark.parametrize("more", [("--length", "0"), ("--offset", "-1"), ("--offset", str(2**63 - 1), "--length", "2")])
def test_blob_get_refuses_impossible_ranges_before_it_looks(more: tuple[str, ...], call: Call) -> None:
    said = call("blob", "get", "node", "Script", "s1", "body", "--uri", "nowhere.omni", *more)
    assert said.code == 2


def test_blob_get_refuses_a_range_behind_the_end(album: str, call: Call) -> None:
    said = call("blob", "get", "node", "Script", "s1", "body", "--uri", album, "--offset", "256", "--json")
    assert said.code == 2
    said = call("blob", "get", "node", "Script", "s1", "body", "--uri", album, "--offset", "256")
    assert said.code == 1
    assert "the blob has 256 bytes" in said.err


def test_blob_stat_says_what_is_known(album: str, call: Call) -> None:
    commit = og.open(album).snapshot().commit_id
    document = call("blob", "stat", "node", "Script", "s1", "body", "--uri", album, "--json").json()
    assert len(document.pop("etag")) == 32
    assert document == {
        "selector": {"entity": "node", "type": "Script", "id": "s1", "property": "body"},
        "kind": "managed",
        "size": 256,
        "target": {"branch": "main", "resolved_snapshot": commit},
    }
    said = call("blob", "stat", "node", "Script", "empty", "body", "--uri", album, "--snapshot", commit)
    assert "size: 0\n" in said.out
    assert f"snapshot: {commit}\n" in said.out
    assert call("blob", "stat", "node", "Script", "s1", "body", "--uri", album, "--snapshot", commit, "--branch", "main").code == 2


def test_help_names_both(call: Call) -> None:
    assert "--output" in run("export", "--help").stdout
    assert "PROPERTY" in run("blob", "get", "--help").stdout


def test_blobs_are_copied_from_an_allowed_base(album: str, tmp_path: Path, call: Call) -> None:
    (tmp_path / "reel.bin").write_bytes(b"reel")
    line = {"type": "Script", "data": {"code": "s9", "body": str(tmp_path / "reel.bin")}}
    (tmp_path / "scripts.ndjson").write_text(json.dumps(line))
    loading = ("load", album, "--data", "scripts.ndjson", "--mode", "append", "--quiet")
    refused = call(*loading)
    assert refused.code == 1
    assert "is not allowed: no base is allowed" in refused.err
    assert call(*loading, "--external-blobs", str(tmp_path)).code == 0
    assert raw("blob", "get", "node", "Script", "s9", "body", "--uri", album) == b"reel"
    text = 'query q($b: Blob) { update Script set { body: $b } where code = "empty" }'
    changing = ("mutate", "-e", text, "--params", json.dumps({"b": str(tmp_path / "reel.bin")}), "--store", album)
    assert call(*changing, "--external-blobs", str(tmp_path / "other")).code == 1
    assert call(*changing, "--external-blobs", "s3://elsewhere/x", "--external-blobs", str(tmp_path), "--json").code == 0
    assert raw("blob", "get", "node", "Script", "empty", "body", "--uri", album) == b"reel"
