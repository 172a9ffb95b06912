"""The drawing of a commit graph: every commit once, in its order, and lines that lead from each to its parents."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.cli.commit_graph import Node, draw
from tests.unit.cli.calls import Call

DRAWINGS = {
    "a line": ("c:b b:a a:", ["* c", "* b", "* a"]),
    "a branch": ("w2:w1 m3:m2 w1:m2 m2:m1 m1:", ["* w2", "| * m3", "* | w1", "|/", "* m2", "* m1"]),
    "a merge": ("M:m2,w1 m2:m1 w1:m1 m1:", ["* M", "|\\", "* | m2", "| * w1", "|/", "* m1"]),
    "two merges of one branch": (
        "N:M,w2 w2:w1 M:m1,w1 w1:m0 m1:m0 m0:",
        ["* N", "|\\", "| * w2", "* | M", "|\\|", "| * w1", "* | m1", "|/", "* m0"],
    ),
    "three branches of one commit": (
        "x:a y:a z:a a:",
        ["* x", "| * y", "| | * z", "|/  |", "|--/", "* a"],
    ),
    "three parents": ("p:q,r,s q:t r:t s:t t:", ["* p", "|\\", "|-|\\", "* | | q", "| * | r", "| | * s", "|/  |", "|--/", "* t"]),
    "a column that is free again": (
        "d:a e:b f:b g:a b:a a:",
        ["* d", "| * e", "| | * f", "| | | * g", "| |/  |", "| *   | b", "|/    |", "|----/", "* a"],
    ),
}


def nodes(text: str) -> list[Node]:
    pairs = [one.partition(":") for one in text.split()]
    return [Node(name, [parent for parent in parents.split(",") if parent], name) for name, _, parents in pairs]


@pytest.mark.parametrize("what", DRAWINGS)
def test_a_drawing(what: str) -> None:
    text, lines = DRAWINGS[what]
    assert list(draw(nodes(text))) == lines


@given(st.lists(st.sets(st.integers(1, 6), max_size=3), max_size=30))
def test_every_commit_is_drawn_once_in_its_order_in_a_column_of_its_own(steps: list[set[int]]) -> None:
    """Law: the starred lines are the commits, and a commit without a child begins a column, so no line is lost or invented."""
    last = len(steps)
    commits = [Node(str(at), [str(at + step) for step in sorted(steps[at]) if at + step < last], f"c{at}") for at in range(last)]
    drawn = list(draw(commits))
    starred = [line for line in drawn if "*" in line]
    assert [line.rpartition(" ")[2] for line in starred] == [f"c{at}" for at in range(last)]
    assert all(line.count("*") == 1 for line in starred)
    assert all(line == line.rstrip() and re.fullmatch(r"[|/\\ -]+", line) for line in drawn if "*" not in line)


def test_the_command_draws_branches_tags_times_actors_and_messages(graph: str, call: Call) -> None:
    opened = og.open(graph, actor="act-bob")
    opened.branches.create("review")
    insert = "query q($n: String) { insert Person { name: $n } }"
    opened.mutate(insert, params={"n": "x"}, branch="review", message="first line\nsecond line")
    opened.mutate(insert, params={"n": "y"})
    opened.tags.create("v1")
    shown = call("commit", "graph", graph)
    assert (shown.code, shown.err) == (0, "")
    lines = [re.sub(r"[0-9A-Z]{8,26} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "ID TIME", line) for line in shown.out.splitlines()]
    assert lines == [
        "* ID TIME act-bob (main, tag: v1) [mutate]",
        "| * ID TIME act-bob (review) first line",
        "|/",
        "* ID TIME act-ada [mutate]",
        "* ID TIME [genesis]",
    ]
    ids = re.findall(r"\* (\w+) ", shown.out)
    assert [call("commit", "show", one, "--uri", graph, "--json").code for one in ids] == [0] * 4
    document = call("commit", "graph", graph, "--json").json()
    assert [one["message"] for one in document["commits"]] == [None, "first line\nsecond line", None, None]
    assert [one["kind"] for one in document["commits"]] == ["mutate", "mutate", "mutate", "genesis"]
    assert document["branches"] == {"main": opened.commits()[0].id, "review": opened.commits("review")[0].id}
    assert document["tags"] == {"v1": opened.commits()[0].id}
    assert len(call("commit", "graph", graph, "--branch", "review").out.splitlines()) == 3
    assert len(call("commit", "graph", graph, "--limit", "1").out.splitlines()) == 1
    assert '"kind": "branch_not_found"' in call("commit", "graph", graph, "--branch", "nope", "--json").err
    assert "message: first line" in call("commit", "show", ids[1], "--uri", graph).out
