"""`omnigraph shell`: when a text is whole, what Tab offers, every command, and the shell at the end of a pipe."""

from __future__ import annotations

import io

import pytest

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.cli.shell import HELP, is_whole, statements
from omnigraph.cli.words import COMMANDS, KEYWORDS, KnownNames, words
from omnigraph.lang import parse_schema
from omnigraph.lang.query import AggregateFunction, Containment
from omnigraph.plan.functions import Function
from tests.unit.cli.calls import Call, Said

FILMS = """interface Titled { title: String }
node Film implements Titled { slug: String @key  year: I32 }
node Person { name: String @key  born: I32? }
edge ActedIn: Person -> Film { role: String? }
edge Knows: Person -> Person
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\\branch review",
        "\\explain",
        "\\explain match { $p: Person } return { $p }",
        "match { $p: Person } return { $p }",
        "match { $p: Person } delete $p",
        'insert Person { name: "Ada" }',
        'insert Person { name: "{" }',
        "match { $p: Person }\nreturn { $p }\n",
        "match { $p: Person }\nreturn { $p };",
        "query q() {\n  match { $p: Person }\n\n  return { $p }\n}",
        "nonsense",
        "match { $p: Person } } return",
    ],
)
def test_a_text_is_whole(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person }",
        "match {",
        "match {\n",
        "match { $p: Person }\nreturn { $p }",
        'match { $p: Person { name: "}" } // }',
        "query q() {\n  match { $p: Person }\n",
        "query q()",
        "\\explain match { $p: Person }",
        "\\explain match { $p: Person }\nreturn { $p }",
        'insert Person {\n  name: "Ada",',
    ],
)
def test_a_text_goes_on(text: str) -> None:
    assert not is_whole(text)


def test_lines_become_statements() -> None:
    lines = "\\help\n\nmatch { $p: Person }\nreturn { $p }\n\nquery q() {\n\n}\nmatch { $p: Person }\nreturn { $q }".splitlines(
        keepends=True
    )
    assert [text.strip() for text in statements(lines) if text.strip()] == [
        "\\help",
        "match { $p: Person }\nreturn { $p }",
        "query q() {\n\n}",
        "match { $p: Person }\nreturn { $q }",
    ]


def catalog() -> Catalog:
    ids = iter(range(1_000))
    return build_catalog(parse_schema(FILMS), mint=lambda: f"{next(ids):016x}")


@pytest.mark.parametrize(
    ("before", "begun", "found"),
    [
        ("", "", sorted(KEYWORDS)),
        ("mat", "mat", ["match", "match_text"]),
        ("match { $p: ", "", ["Film", "Person", "Titled", "actedIn", "knows"]),
        ("match { $p: Pe", "Pe", ["Person"]),
        ("match { $p: pe", "pe", ["Person"]),
        ("match { $p: Person { ", "", ["born", "name"]),
        ('match { $p: Person { name: "x", b', "b", ["born"]),
        ("match { $p: Person  $p kn", "kn", ["knows"]),
        ("match { $p: Person  $p $r:act", "act", ["actedIn"]),
        ("match { $p: Person } return { $p.", "", ["born", "name"]),
        ("match { $p: Person  $p $r:actedIn $f } return { $r.", "", ["role"]),
        ("match { $p: Person  $p actedIn $f } return { $f.", "", ["slug", "title", "year"]),
        ("match { $p: Person  $p knows $q } return { $q.n", "n", ["name"]),
        ("match { $x: Titled } return { $x.", "", ["title"]),
        ("return { $unknown.ro", "ro", ["role"]),
        ("match { $p: Person  $f: Film } return { $", "$", ["$f", "$p"]),
        ("insert F", "F", ["Film"]),
        ("insert ActedIn { ", "", ["from", "role", "to"]),
        ("\\", "\\", sorted(COMMANDS)),
        ("\\br", "\\br", ["\\branch"]),
        ("\\branch ", "", ["main", "review"]),
        ("\\at v", "v", ["v1"]),
        ("\\schema A", "A", ["ActedIn"]),
        ("\\timing o", "o", ["off", "on"]),
        ("\\explain match { $f: Fi", "Fi", ["Film"]),
        ("\\quit ", "", []),
    ],
)
def test_what_tab_offers(before: str, begun: str, found: list[str]) -> None:
    assert words(before, KnownNames(catalog(), ["main", "review"], ["v1"])) == (begun, found)


@pytest.mark.parametrize(
    ("before", "begun", "found"),
    [("\\set m", "m", ["most"]), ("\\unset ", "", ["most", "n"]), ("match { $p: Person { name: $", "$", ["$most", "$n", "$p"])],
)
def test_tab_offers_the_parameters_that_are_set(before: str, begun: str, found: list[str]) -> None:
    assert words(before, KnownNames(catalog(), parameters=["n", "most"])) == (begun, found)


def test_tab_offers_the_functions_and_operators_that_exist() -> None:
    for words_of in (Function, AggregateFunction, Containment):
        assert {each.value for each in words_of} <= set(KEYWORDS)
    assert "like" not in KEYWORDS, "a word of SQL"


def test_help_fits_a_terminal_of_80_columns() -> None:
    assert max(map(len, HELP.splitlines())) < 80


# -- at the end of a pipe


@pytest.fixture
def typed(graph: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    def typing(text: str, *arguments: str) -> Said:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return call("shell", graph, *arguments)

    return typing


PEOPLE = "match { $p: Person } return { $p.name as name } order { name }\n"
NAMED = "match { $p: Person { name: $who } } return { $p.born as b }\n"
TABLE = "name\n--------\nAda\n"


def test_a_pipe_gets_plain_lines(typed: Call) -> None:
    assert typed(PEOPLE) == (0, f"1 row from branch main\n{TABLE}", "")
    assert typed("") == (0, "", "")


def test_a_mutation_is_one_commit_and_the_next_query_sees_it(typed: Call) -> None:
    said = typed('insert Person { name: "Zoe" }\n' + PEOPLE, "--as", "act-zoe")
    assert said == (0, f"changed main: 1 node, 0 edges\n2 rows from branch main\n{TABLE}Zoe\n", "")


def test_branches_and_the_past(typed: Call, graph: str, call: Call) -> None:
    call("branch", "create", "review", "--uri", graph)
    said = typed(
        f'\\branch\n\\branch review\ninsert Person {{ name: "Zoe" }}\n{PEOPLE}\\at 1\n\\at\n{PEOPLE}\\at now\n\\at\n\\branch main\n{PEOPLE}'
    )
    assert said == (
        0,
        "* main\n  review\nchanged review: 1 node, 0 edges\n"
        f"2 rows from branch review\n{TABLE}Zoe\n1\n0 rows from snapshot 1\nname\n--------\nnow\n1 row from branch main\n{TABLE}",
        "",
    )


def test_the_plan_of_a_query_and_of_the_last_one(typed: Call) -> None:
    once, again = typed(f"\\explain {PEOPLE}"), typed(f"{PEOPLE}\\explain\n")
    assert once.out.startswith("query -> name\n  project")
    assert again.out.endswith(once.out)


def test_the_schema_and_one_type_of_it(typed: Call) -> None:
    assert typed("\\schema\n").out.startswith("node Person {\n  name: String @key\n")
    assert typed("\\schema Knows").out == "edge Knows: Person -> Person\n"


def test_help_names_every_command_and_quit_leaves(typed: Call) -> None:
    said = typed("\\help\n\\quit\nnonsense\n")
    assert (said.code, said.err) == (0, "")
    assert all(command in said.out for command in COMMANDS)


@pytest.mark.parametrize("leaving", ["quit", "exit", "quit;", "\\q", "\\exit"])
def test_the_words_of_other_shells_are_understood(typed: Call, leaving: str) -> None:
    said = typed(f"help\n{leaving}\nnonsense\n")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{HELP}\n"


def test_timing_alone_says_how_it_stands(typed: Call) -> None:
    assert typed("\\timing\n\\timing on\n\\timing\n").out == "off\non\n"


def test_a_parameter_that_is_set_goes_to_the_queries_that_have_it(typed: Call) -> None:
    said = typed(
        '\\set who "Ada"\n\\set $born 1815;\n\\set\n'
        "query add($who: String, $born: I32) { insert Person { name: $who, born: $born } }\n"
        f"{NAMED}{PEOPLE}\\branch main\n\\explain {NAMED}\\set who null\n\\set\n\\unset who\n\\set\n"
    )
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith('born = 1815\nwho = "Ada"\nchanged main via add: 1 node, 0 edges\n1 row from branch main\n')
    assert 'pushed_down: $p.name = "Ada"' in said.out
    assert said.out.endswith("born = 1815\nwho = null\nborn = 1815\n")


def test_times_are_printed_when_asked_for(typed: Call) -> None:
    said = typed(f"\\timing on\n{PEOPLE}\\timing off\n{PEOPLE}")
    assert said.code == 0
    assert said.err.count(" ms\n") == 1


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("match { $p: Persn } return { $p }", "  1 | match { $p: Persn } return { $p }\n    |             ^^^^^\n"),
        ("\\nope at all", "Error: there is no command \\nope; \\help lists the commands"),
        ("\\branch nope", "nope"),
        ("\\at 99", "no manifest version 99"),
        ("\\schema Nope", "the schema has no type 'Nope'"),
        ("\\explain", "no query has been run yet"),
        ('\\at 1\ninsert Person { name: "x" }', "the past (1) cannot be changed"),
        ("\\timing perhaps", "Error: \\timing takes on or off, not perhaps"),
        ("\\schema Persn", "did you mean `Person`?"),
        (f"{NAMED}", "Error: parameter 'who' not provided\n  \\set who VALUE sets a parameter\n"),
        (f"\\explain {NAMED}", "\\set who VALUE sets a parameter\n"),
        ("query q($w: String) { insert Person { name: $w } }", "\\set w VALUE sets a parameter\n"),
        (f"\\set who 3\n{NAMED}", "Error: param 'who': expected string, got number\n"),
        ("\\set who Ada", 'invalid JSON: Expecting value; a value is JSON, such as "Ada", 1815 or ["a"]'),
        ("\\set who", 'a value is JSON, such as "Ada"'),
        ("\\set who NaN", "NaN is not a JSON number"),
        ('\\set 1st "Ada"', '1st is no name of a parameter; write \\set NAME VALUE, such as \\set n "Ada"'),
        ("\\unset who", "no parameter who is set; \\set lists what is set"),
        ("\\unset", "\\unset takes the name of a parameter"),
    ],
)
def test_the_first_error_ends_a_pipe(typed: Call, text: str, part: str) -> None:
    said = typed(f"{text}\n\n{PEOPLE}")
    assert (said.code, said.out) == (1, "")
    assert part in said.err


def test_it_begins_where_it_is_told_to(typed: Call) -> None:
    assert typed(PEOPLE, "--at", "1").out.startswith("0 rows from snapshot 1")
    assert typed(PEOPLE, "--branch", "nope").code == 1
