"""`omnigraph embed`: a file of records, with vectors in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.embedding_server import answer, embedding_server, failing
from tests.unit.cli.calls import Call

SPEC = {"dimension": 2, "types": {"Doc": {"target": "vec", "fields": ["title", "text", "tags"]}}}
LINES = [
    '{"type": "Doc", "data": {"slug": "a", "title": "One", "text": "first", "tags": ["x"]}}',
    '{"type":"Doc","data":{"slug":"b","title":"Two","vec":[1.0,0.0]}}',
    '{"type": "Doc",  "data": {"slug": "c", "title": " ", "text": null, "tags": []}}',
    '{"type": "Doc", "data": {"slug": "d", "text": "ünï", "vec": []}}',
    '{"type": "Other",   "data": {"title": "One"}}',
    '{"edge": "Cites", "from": "a", "to": "b"}',
    "",
    "[1, 2]",
]


@pytest.fixture
def folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (files / "docs.jsonl").write_text("\n".join(LINES))
    (files / "spec.json").write_text(json.dumps(SPEC))
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m")
    return files


def embedded(path: Path) -> dict[str, Any]:
    """The vector of each document."""
    records = [json.loads(line) for line in path.read_text().splitlines() if line.startswith('{"type"') and '"Doc"' in line]
    return {record["data"]["slug"]: record["data"].get("vec") for record in records}


def test_missing_vectors_are_filled_and_other_lines_stay_as_they_are(folder: Path, call: Call) -> None:
    said = call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--json")
    assert said.json() == {
        "input": "docs.jsonl",
        "output": "docs.embedded.jsonl",
        "records": 7,
        "selected_records": 4,
        "embedded_records": 2,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 2,
        "model": "m",
    }
    written = (folder / "docs.embedded.jsonl").read_text().splitlines()
    assert [line for number, line in enumerate(written) if number not in (0, 3)] == [LINES[number] for number in (1, 2, 4, 5, 6, 7)]
    vectors = embedded(folder / "docs.embedded.jsonl")
    assert (vectors["b"], vectors["c"]) == ([1.0, 0.0], None)
    assert all(sum(number**2 for number in vectors[slug]) == pytest.approx(1) for slug in "ad")
    assert sorted(path.name for path in folder.glob("*.embedded*")) == ["docs.embedded.jsonl"]


def test_the_text_names_the_type_and_the_fields(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedding_server() as server:
        monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "openai-compatible")
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", server.url)
        assert call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--output", "out.jsonl").code == 0
        assert server.texts == ['type: Doc\ntitle: One\ntext: first\ntags: ["x"]', "type: Doc\ntext: ünï"]
    assert set(embedded(folder / "out.jsonl")) == set("abcd")


@pytest.mark.parametrize(
    ("options", "mode", "selected", "done"),
    [
        (["--reembed-all"], "reembed_all", 4, 3),
        (["--select", "slug=b"], "reembed_selected", 1, 1),
        (["--select", "Doc:slug=b", "--select", "title=One"], "reembed_selected", 2, 2),
        (["--select", "Other:slug=b"], "reembed_selected", 0, 0),
        (["--type", "Other"], "fill_missing", 0, 0),
        (["--type", "Doc"], "fill_missing", 4, 2),
    ],
)
def test_records_are_selected(folder: Path, call: Call, options: list[str], mode: str, selected: int, done: int) -> None:
    said = call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--json", *options).json()
    assert (said["mode"], said["selected_records"], said["embedded_records"]) == (mode, selected, done)


def test_clean_removes_vectors_and_needs_no_provider(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    monkeypatch.delenv("OMNIGRAPH_EMBED_MODEL")
    said = call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--clean", "--json").json()
    assert (said["mode"], said["cleaned_records"], said["model"]) == ("clean", 2, None)
    assert set(embedded(folder / "docs.embedded.jsonl").values()) == {None}
    refused = call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--output", "none.jsonl", "--json")
    assert (refused.code, json.loads(refused.err.splitlines()[-1])["kind"]) == (1, "embedding_provider_missing")
    assert not (folder / "none.jsonl").exists()


def test_a_manifest_names_the_files(folder: Path, call: Call) -> None:
    (folder / "seed").mkdir()
    manifest = folder / "seed" / "seed.yaml"
    manifest.write_text(f"sources:\n  raw_seed: ../docs.jsonl\nembeddings: {json.dumps(SPEC)}\n")
    assert call("embed", "--seed", "seed/seed.yaml").out == (
        "wrote seed/build/seed.embedded.jsonl: 7 records, 2 embedded, 0 cleaned (fill_missing)\n"
    )
    manifest.write_text(f"sources: {{raw_seed: ../docs.jsonl}}\nartifacts: {{embedded_seed: out.jsonl}}\nembeddings: {json.dumps(SPEC)}\n")
    assert call("embed", "--seed", "seed/seed.yaml", "--json").json()["output"] == "seed/out.jsonl"


def test_many_records_are_embedded_in_order(folder: Path, call: Call) -> None:
    lines = [json.dumps({"type": "Doc", "data": {"slug": str(number), "text": str(number)}}) for number in range(3_000)]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    assert call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--json").json()["embedded_records"] == 3_000
    assert list(embedded(folder / "docs.embedded.jsonl")) == [str(number) for number in range(3_000)]


def test_a_provider_that_fails_in_the_middle_leaves_the_old_file(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"type": "Doc", "data": {"slug": str(number), "text": f"t{number}"}}) for number in range(2_000)]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    (folder / "out.jsonl").write_text("old")
    with embedding_server() as server:
        server.otherwise = lambda sent: failing(400)(sent) if "type: Doc\ntext: t1900" in sent.texts else answer(sent)
        monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "openai-compatible")
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", server.url)
        said = call("embed", "--input", "docs.jsonl", "--spec", "spec.json", "--output", "out.jsonl")
    assert said.code == 1
    assert (folder / "out.jsonl").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp")) == []


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ((), 2, "give --seed, or --input and --spec"),
        (("--input", "docs.jsonl"), 2, "give --seed, or --input and --spec"),
        (("--seed", "s.yaml", "--input", "docs.jsonl"), 2, "give --seed, or --input and --spec"),
        (("--input", "docs.jsonl", "--spec", "spec.json", "--clean", "--reembed-all"), 2, "exclude each other"),
        (("--input", "nowhere.jsonl", "--spec", "spec.json"), 1, "no such file"),
        (("--input", "docs.jsonl", "--spec", "nowhere.json"), 1, "no such file"),
        (("--input", "docs.jsonl", "--spec", "docs.jsonl"), 1, "is not JSON"),
        (("--input", "bad.jsonl", "--spec", "spec.json"), 1, "line 2: invalid JSON"),
        (("--input", "odd.jsonl", "--spec", "spec.json"), 1, "line 1: 'data' must be an object"),
        (("--input", "docs.jsonl", "--spec", "wrong.json"), 1, "the specification of embeddings is invalid"),
        (("--input", "docs.jsonl", "--spec", "empty.json"), 1, "needs a dimension above 0"),
        (("--input", "docs.jsonl", "--spec", "spec.json", "--select", "slug"), 1, "[Type:]field=value"),
        (("--seed", "bad.yaml"), 1, "is not YAML"),
        (("--seed", "empty.yaml"), 1, "sources.raw_seed"),
        (("--input", "docs.jsonl", "--spec", "spec.json", "--store", "g"), 1, "does not apply to `embed`"),
    ],
)
def test_wrong_input_is_refused(folder: Path, call: Call, arguments: tuple[str, ...], code: int, part: str) -> None:
    (folder / "bad.jsonl").write_text('{"type": "Doc"}\n{')
    (folder / "odd.jsonl").write_text('{"type": "Doc", "data": 1}')
    (folder / "wrong.json").write_text('{"dimension": "2", "types": {}}')
    (folder / "empty.json").write_text('{"dimension": 0, "types": {}}')
    (folder / "bad.yaml").write_text("a: [")
    (folder / "empty.yaml").write_text("")
    before = sorted(folder.rglob("*"))
    said = call("embed", *arguments)
    assert said.code == code
    assert part in said.err
    assert sorted(folder.rglob("*")) == before
