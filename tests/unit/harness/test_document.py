"""Spec files: what is read from them, and what a person is told who wrote one wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import Position
from tests.harness import expect
from tests.harness.cases import Accept, Apply, Case, Export, Load, Mutation, Query, Wanted, read_cases, read_fixtures
from tests.harness.document import MalformedSpec
from tests.harness.files import cases_of, spec_files

SCHEMA = "--- schema\nnode A { x: I32 }\n"
QUERY = "--- query\nquery q() { match { $a: A } return { $a.x as x } }\n"


def cases(text: str, path: str = "some.gqt") -> tuple[Case, ...]:
    return read_cases(text, path=path, fixtures={})


def case(text: str, path: str = "some.gqt") -> Case:
    (only,) = cases(text, path)
    return only


def test_a_case_has_a_name_a_title_and_a_line() -> None:
    read = case(f"# about it\n\n=== E01 numbers come back\n{SCHEMA}{QUERY}--- rows\nx\n")
    assert (read.name, read.title, read.path, read.line) == ("E01", "numbers come back", "some.gqt", 3)


def test_line_one_of_a_section_is_the_line_below_its_heading() -> None:
    read = case(
        f"=== a\n{SCHEMA}--- query\n# a comment keeps its line\n\nquery q() {{ match {{ $a: A }} return {{ $a }} }}\n\n--- rows\na\n"
    )
    (step,) = read.steps
    assert isinstance(step.action, Query)
    assert step.action.text.text == "\n\nquery q() { match { $a: A } return { $a } }"
    assert step.action.text.line == 4


def test_steps_come_in_order_with_what_each_expects() -> None:
    text = f"""=== a
{SCHEMA}--- load merge
{{"type":"A","data":{{"x":1}}}}
--- mutation m
query m($x: I32) {{ insert A {{ x: $x }} }}
--- params
{{"x": 2}}
--- affected
nodes: 1
edges: 0
commit: one
--- export A B
--- lines
{{"type":"A"}}
--- apply allow data loss
node B {{ x: I32 }}
--- wanted
node B {{ x: I32 }}
--- steps
"""
    load, mutation, export, apply, wanted = case(text).steps
    assert isinstance(load.action, Load)
    assert (load.action.mode, load.expected) == ("merge", expect.Nothing())
    assert isinstance(mutation.action, Mutation)
    assert (mutation.action.name, mutation.action.params) == ("m", {"x": 2})
    assert mutation.expected == expect.Affected(1, 0, committed=True)
    assert export.action == Export(("A", "B"))
    assert export.expected == expect.Lines(({"type": "A"},))
    assert isinstance(apply.action, Apply)
    assert apply.action.allow_data_loss
    assert isinstance(wanted.action, Wanted)
    assert (wanted.action.allow_data_loss, wanted.expected) == (False, expect.Steps(()))


def test_an_error_has_a_code_parts_of_its_message_a_place_and_a_hint() -> None:
    (step,) = case("=== a\n--- schema\nnode a {}\n--- error S01 at 1:6\nfirst part\nhint: a hint\nsecond part\n", "some.pgt").steps
    assert step.action == Accept()
    assert step.expected == expect.Error("S01", ("first part", "second part"), Position(1, 6), "a hint")


def test_a_fixture_comes_before_what_the_case_adds() -> None:
    text = f"=== fixture base\n{SCHEMA}--- data\n{{}}\n=== fixture more\nuse: base\n--- schema\nnode B {{ }}\n"
    text += f"=== a\nuse: more\n--- schema\nnode C {{ }}\n{QUERY}--- rows\nx\n"
    read = case(text)
    assert [part.text for part in read.schema] == ["node A { x: I32 }", "node B { }", "node C { }"]
    assert [part.text for part in read.data] == ["{}"]


def test_fixtures_are_found_beside_the_file_and_above_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "fixtures.gqt").write_text("=== fixture far\n--- schema\nnode Far { }\n=== fixture both\n--- schema\nnode Old { }\n")
    (inner / "fixtures.gqt").write_text("=== fixture both\n--- schema\nnode New { }\n")
    (inner / "a.pgt").write_text("=== one\nuse: far\n--- catalog\n=== two\nuse: both\n--- catalog\n")
    assert list(spec_files(tmp_path)) == [inner / "a.pgt"]
    one, two = cases_of(inner / "a.pgt", top=tmp_path)
    assert one.schema[0].text == "node Far { }"
    assert two.schema[0].text == "node New { }"


MALFORMED = [
    ("", 1, "no case"),
    ("hello\n", 1, "text outside of a case"),
    ("--- schema\n", 1, "a section belongs to a case"),
    ("=== \n", 1, "a heading is `=== name title`"),
    ("=== fixture\n", 1, "a heading is `=== fixture name`"),
    (f"=== a\n{SCHEMA}--- catalog\n=== a\n{SCHEMA}--- catalog\n", 5, "case `a` is there already, in line 1"),
    (f"=== a\nuse: nothing\n{SCHEMA}--- catalog\n", 1, "no fixture is called `nothing`"),
    (f"=== fixture films\n{SCHEMA}=== a\nuse: film\n--- catalog\n", 4, "did you mean `films`?"),
    ("=== fixture a\nuse: b\n=== fixture b\nuse: a\n=== c\nuse: a\n--- catalog\n", 3, "fixture `a` uses itself"),
    ("=== fixture a\n=== c\nuse: a\n--- catalog\n", 1, "an empty fixture"),
    ("=== fixture a\n--- query\n", 2, "a fixture holds plain `schema` and `data` sections"),
    (f"=== a\nuses: b\n{SCHEMA}--- catalog\n", 2, "expected `use: fixture` or a section"),
    (f"=== a\nuse: b\nuse: c\n{SCHEMA}--- catalog\n", 3, "a case uses one fixture"),
    (f"=== a\n{SCHEMA}---\n", 4, "a section heading is `--- name`"),
    (f"=== a\n{SCHEMA}", 1, "a case without a step expects nothing"),
    (f"=== a\n{QUERY}--- rows\nx\n", 1, "a case needs a schema"),
    (f"=== a\n{SCHEMA}{SCHEMA}--- catalog\n", 4, "a case has one `schema` section"),
    (f"=== a\n{SCHEMA}--- qeury\n", 4, "no section is called `qeury`; did you mean `query`?"),
    (f"=== a\n{SCHEMA}{QUERY}", 4, "`query` needs what it expects below it: `rows` or `error`"),
    (f"=== a\n{SCHEMA}{QUERY}--- affected\nnodes: 1\nedges: 1\n", 4, "`query` needs what it expects below it"),
    (f"=== a\n{SCHEMA}--- rows\nx\n", 4, "`rows` does not belong here: it follows `query`"),
    (f"=== a\n{SCHEMA}--- params\n{{}}\n", 4, "it follows `query`, `mutation` or `explain`"),
    (f"=== a\n{SCHEMA}--- catalog\n--- data\n", 5, "`data` stands before the steps"),
    (f"=== a\n{SCHEMA}{QUERY}--- params\n{{\n--- rows\nx\n", 7, "`params` holds one JSON value"),
    (f"=== a\n{SCHEMA}--- load\n", 4, "`load` says how: `load append`, `load merge`, `load overwrite` or `load upsert`"),
    (f"=== a\n{SCHEMA}--- export A\nsomething\n--- lines\n", 4, "`export` has no text of its own"),
    (f"=== a\n{SCHEMA}--- wanted please\n--- steps\n", 4, "takes `allow data loss` or nothing, not `please`"),
    (f"=== a\n{SCHEMA}--- lint now\n--- report\n{{}}\n", 4, "`lint` takes no argument"),
    (f"=== a\n{SCHEMA}--- query a b\n--- rows\nx\n", 4, "takes the name of one query"),
    (f"=== a\n{SCHEMA}{QUERY}--- rows sorted\nx\n", 6, "`rows` takes `ordered` or nothing"),
    (f"=== a\n{SCHEMA}{QUERY}--- rows\n", 6, "a table needs a line with the names of its columns"),
    (f'=== a\n{SCHEMA}{QUERY}--- rows\n"x"\n', 7, "column names are written bare"),
    (f"=== a\n{SCHEMA}{QUERY}--- rows\nx | y\n1\n", 8, "this row has 1 cells, and the table 2 columns"),
    (f"=== a\n{SCHEMA}{QUERY}--- rows\nx\nheat\n", 8, "`heat` is no cell: write a JSON value (text in quotes)"),
    (f"=== a\n{SCHEMA}{QUERY}--- rows\nx\n1 2\n", 8, "expected `|` or the end of the row before `2`"),
    (f"=== a\n{SCHEMA}{QUERY}--- error\nx\n", 6, "an error is written `--- error T6`"),
    (f"=== a\n{SCHEMA}{QUERY}--- error T6 near 1:2\nx\n", 6, "an error is written `--- error T6`"),
    (f"=== a\n{SCHEMA}{QUERY}--- error oops\nx\n", 6, "`oops` is neither a code of the language reference nor a kind of error"),
    (f"=== a\n{SCHEMA}{QUERY}--- error T6\n", 6, "say what the error's message contains"),
    (f"=== a\n{SCHEMA}{QUERY}--- error T6\nhint: x\n", 6, "say what the error's message contains"),
    (f"=== a\n{SCHEMA}{QUERY}--- error T6\na\nhint: x\nhint: y\n", 6, "an error has one hint"),
    (f"=== a\n{SCHEMA}--- mutation\nx\n--- affected\nnodes: 1\n", 6, "`affected` counts both"),
    (f"=== a\n{SCHEMA}--- mutation\nx\n--- affected\nnode: 1\n", 7, "`node: 1` is neither"),
    (f"=== a\n{SCHEMA}--- load merge\n--- loaded\nPerson: 1\n", 6, "not of the form `node Person: 1`"),
    (f"=== a\n{SCHEMA}--- export\n--- lines\n{{\n", 6, "each line of `lines` is one JSON value"),
    (f"=== a\n{SCHEMA}--- wanted\n--- steps\n1\n", 5, 'an object with its `"kind"`'),
    (f"=== a\n{SCHEMA}--- lint\n--- report\n{{\n", 6, "`report` holds one JSON document"),
    (f"=== a\n{SCHEMA}--- explain\n--- plan\n", 5, "`plan` holds the text of the plan"),
]


@pytest.mark.parametrize(("text", "line", "message"), MALFORMED, ids=[message for _, _, message in MALFORMED])
def test_a_malformed_file_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(MalformedSpec) as caught:
        cases(text)
    assert caught.value.message.startswith(f"some.gqt:{line}: ")
    assert message in caught.value.message
    assert caught.value.facts == {"path": "some.gqt", "line": line}


def test_schema_files_hold_no_data_and_no_queries() -> None:
    with pytest.raises(MalformedSpec, match=r"some\.pgt:4: a \.pgt file speaks of schemas only"):
        cases(f"=== a\n{SCHEMA}--- data\n--- catalog\n", "some.pgt")
    with pytest.raises(MalformedSpec, match=r"some\.pgt:4: `query` belongs in a \.gqt file"):
        cases(f"=== a\n{SCHEMA}{QUERY}--- rows\nx\n", "some.pgt")


def test_a_file_of_fixtures_holds_no_cases() -> None:
    with pytest.raises(MalformedSpec, match=r"fixtures\.gqt:1: a file of fixtures holds no cases"):
        read_fixtures(f"=== a\n{SCHEMA}--- catalog\n", path="fixtures.gqt")


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_bytes(b"=== a\n\xff")
    with pytest.raises(MalformedSpec, match="not UTF-8"):
        cases_of(tmp_path / "a.gqt", top=tmp_path)


def test_windows_line_ends_are_no_part_of_the_text() -> None:
    read = case(f"=== a\n{SCHEMA}--- catalog\nnode A\n".replace("\n", "\r\n"))
    assert read.schema[0].text == "node A { x: I32 }"
    assert read.steps[0].expected == expect.Facts(("node A",), ())
