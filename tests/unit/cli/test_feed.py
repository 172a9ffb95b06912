"""`omnigraph changes`: polls, followers and baselines, in both forms, with cursors in files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from tests.unit.cli.calls import Call


def add(graph: str, *names: str) -> None:
    og.open(graph).load([{"type": "Person", "data": {"name": name, "born": 1}} for name in names])


def test_poll_prints_blocks_and_a_cursor(graph: str, call: Call) -> None:
    first = call("changes", "poll", "--uri", graph, "--json").json()
    assert (first["blocks"], first["caught_up"]) == ([], True)
    said = call("changes", "poll", "--uri", graph, "--cursor", first["cursor"])
    assert said.out.splitlines() == ["(no new commits)", "", f"cursor: {first['cursor']}", "caught_up: yes"]
    add(graph, "Mary", "Percy", "Zoe")
    og.open(graph).ensure_indices()
    found = call("changes", "poll", "--uri", graph, "--cursor", first["cursor"], "--limit", "2", "--json").json()
    block, index = found["blocks"]
    assert [change["id"] for change in block["changes"]] == ["Mary", "Percy", "Zoe"], "the parts of a commit are put together"
    assert (found["caught_up"], list(found)) == (True, ["blocks", "cursor", "caught_up"])
    assert block["cause"]["authored_branch"] == "main"
    assert (list(index), index["changes"]) == (["cause", "changes"], [])
    exact = call("changes", "poll", "--uri", graph, "--cursor", first["cursor"], "--limit", "3", "--json").json()
    assert (len(exact["blocks"]), exact["caught_up"]) == (1, False)
    lines = call("changes", "poll", "--uri", graph, "--start", "beginning", "--type", "Person", "--op", "insert").out.split("\n\n")
    assert len(lines) == 4
    assert lines[0].startswith("commit: 01")
    assert "actor: act-ada" in lines[0]
    assert "insert node Person Ada" in lines[0]
    assert lines[-1].startswith("cursor: ")


def test_a_schema_change_is_in_its_block(graph: str, call: Call) -> None:
    cursor = call("changes", "poll", "--uri", graph, "--json").json()["cursor"]
    wanted = og.open(graph).schema.replace("born: I32?", "born: I32?  died: I32?")
    og.open(graph).apply_schema(wanted)
    (block,) = call("changes", "poll", "--uri", graph, "--cursor", cursor, "--json").json()["blocks"]
    assert (block["schema_source"], block["changes"]) == (wanted, [])


def test_refusals(graph: str, call: Call) -> None:
    said = call("changes", "poll", "--uri", graph, "--cursor", "rubbish", "--json")
    assert (said.code, said.out) == (1, "")
    assert json.loads(said.err.splitlines()[-1])["kind"] == "change_cursor_rejected"
    assert "Error: change cursor rejected: " in said.err
    assert call("changes", "poll", "--uri", graph, "--cursor", "x", "--start", "now").code == 1
    assert call("changes", "poll", "--uri", graph, "--cursor", "x", "--cursor-file", "c").code == 2
    assert call("changes", "poll", "--uri", graph, "--limit", "0").code == 2
    assert call("changes", "poll", "--uri", graph, "--limit", "8193").code == 1
    assert call("changes", "poll", "--uri", graph, "--branch", "nowhere").code == 1
    assert "--as" in call("changes", "poll", "--uri", graph, "--as", "act-ada").err


def test_a_cursor_file_is_read_and_replaced(graph: str, call: Call, files: Path) -> None:
    for names in (["a"], ["b", "c"]):
        call("changes", "poll", "--uri", graph, "--cursor-file", "cursor")
        add(graph, *names)
        found = call("changes", "poll", "--uri", graph, "--cursor-file", "cursor", "--json").json()
        assert [change["id"] for block in found["blocks"] for change in block["changes"]] == names
        assert (files / "cursor").read_text().strip() == found["cursor"]
    (files / "cursor").write_text("rubbish")
    assert call("changes", "poll", "--uri", graph, "--cursor-file", "cursor").code == 1
    assert (files / "cursor").read_text() == "rubbish"


def test_a_baseline_is_a_file_and_a_cursor(graph: str, call: Call, files: Path) -> None:
    add(graph, "Mary")
    said = call("changes", "baseline", "--uri", graph, "--out", "rows.ndjson", "--cursor-file", "cursor", "--json")
    assert said.code == 0, said.err
    found = said.json()
    opened = og.open(graph, mode="r")
    assert (files / "rows.ndjson").read_text().splitlines() == list(opened.export())
    assert found == {"snapshot_commit_id": opened.snapshot().commit_id, "resume_cursor": (files / "cursor").read_text().strip()}
    add(graph, "Percy")
    blocks = call("changes", "poll", "--uri", graph, "--cursor-file", "cursor", "--json").json()["blocks"]
    assert [change["id"] for block in blocks for change in block["changes"]] == ["Percy"]
    human = call("changes", "baseline", "--uri", graph, "--out", "rows.ndjson", "--kind", "edge").out.splitlines()
    assert [line.partition(":")[0] for line in human] == ["snapshot", "snapshot_commit_id", "resume_cursor"]
    assert (files / "rows.ndjson").read_text() == ""
    (files / "rows.ndjson").write_text("before")
    assert call("changes", "baseline", "--uri", graph, "--out", "rows.ndjson", "--type", "Nobody").code == 1
    assert (files / "rows.ndjson").read_text() == "before"


def test_follow_prints_pages_until_it_is_idle(graph: str, call: Call, files: Path) -> None:
    add(graph, "Mary", "Percy")
    said = call("changes", "follow", "--uri", graph, "--start", "beginning", "--limit", "2", "--wait", "0.05", "--json")
    pages = [json.loads(line) for line in said.out.splitlines()]
    assert [change["id"] for page in pages for block in page["blocks"] for change in block["changes"]] == ["Ada", "Mary", "Percy"]
    assert [sorted(page) for page in pages] == [["blocks", "next_page_token"], ["blocks", "caught_up", "cursor"]]
    call("changes", "follow", "--uri", graph, "--start", "beginning", "--wait", "0", "--cursor-file", "cursor")
    assert (files / "cursor").read_text().strip() == pages[-1]["cursor"]
    assert call("changes", "follow", "--uri", graph, "--wait", "-1").code == 2


def test_follow_is_interrupted(graph: str) -> None:
    command = [sys.executable, "-m", "omnigraph.cli.main", "changes", "follow", "--uri", graph, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["caught_up"]
        add(graph, "Mary")
        (block,) = json.loads(running.stdout.readline())["blocks"]
        assert [change["id"] for change in block["changes"]] == ["Mary"]
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130


def test_a_page_of_a_commit_by_its_token(graph: str, call: Call) -> None:
    add(graph, "a", "b", "c", "d")
    opened = og.open(graph, mode="r")
    commit = opened.snapshot().commit_id
    token = opened.changes.commit(commit, limit=1).next_page
    assert token is not None
    page = call("commit", "changes", commit, "--uri", graph, "--page-token", token, "--limit", "2", "--json").json()
    assert ([change["id"] for change in page["changes"]], list(page)) == (["b", "c"], ["cause", "changes", "next_page_token"])
    last = call("commit", "changes", commit, "--uri", graph, "--page-token", page["next_page_token"], "--json").json()
    assert ([change["id"] for change in last["changes"]], list(last)) == (["d"], ["cause", "changes"])
    assert "next_page_token: " in call("commit", "changes", commit, "--uri", graph, "--page-token", token, "--limit", "1").out
