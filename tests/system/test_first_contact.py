"""What a new user types first, right and wrong: a table of commands and of Python -> exit code, output and message. No traceback in any."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import polars
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.cli import main
from omnigraph.errors import OmniGraphError

SCHEMA = """node Person {
  name: String @key
  born: I32?
  fond: Bool?
  tags: [String]?
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = """{"type": "Person", "data": {"name": "Ada", "born": 1815, "fond": true, "tags": ["a", "b"]}}
{"type": "Person", "data": {"name": "Zoé"}}
{"edge": "Knows", "from": "Ada", "to": "Zoé"}
"""
ONE_OF_MANY = r"(?<![\d,.])1 (?:\w+ )?(?:\w+\(s\)|errors|warnings|commits|rows|nodes|edges|types|entities|branches|records|queries)\b"
"""A number and a noun that do not agree."""
READ = "match { $p: Person } return { $p.name as name } order { name }"


class Case(NamedTuple):
    """A command line, the code it exits with, and parts of what it prints on stdout and on stderr."""

    command: str
    code: int = 0
    out: str = ""
    err: str = ""


CASES = (
    # a graph, named in every way
    Case(f"query g.omni -e '{READ}'", out="2 rows from branch main\nname"),
    Case(f"query --store g.omni -e '{READ}'", out="Zoé"),
    Case(f"query --uri g.omni -e '{READ}'", out="Zoé"),
    Case(f"--store g.omni query -e '{READ}'", out="Zoé"),
    Case("query g.omni names --query q.gq", out="2 rows from branch main via names"),
    Case("query names --query q.gq --store g.omni", out="via names"),
    Case(f"query -e '{READ}'", 1, err="no graph addressed: name it as the first argument, with --store URI"),
    Case(f"query g.omni --store g.omni -e '{READ}'", 1, err="mutually exclusive"),
    Case(f"query http://host/g -e '{READ}'", 1, err="is the address of a server"),
    Case("info nothing.omni", 1, err="nothing.omni"),
    Case("info s.pg", 1, err="is a file; a graph needs a directory"),
    Case("branch list g.omni", out="main\nwork\n"),
    Case("branch list --store g.omni", out="main\n"),
    Case("branch list", 1, err="no graph addressed"),
    Case("branch list g.omni extra", 2, err="unexpected extra argument"),
    Case("tag list g.omni", out="v1 "),
    Case("commit list g.omni", out="load     2 Person, 1 Knows"),
    Case("commit list --store g.omni --limit 1", out="(main"),
    Case("commit list g.omni --type Knows --json", out='"kind": "load"'),
    Case("commit list g.omni --type Knowz", 1, err="did you mean `Knows`?"),
    Case("commit list g.omni --since yesterday", 1, err="'yesterday' is no time such as 2026-01-31T12:00:00Z"),
    Case("commit show g.omni v1", out="table node:Person: version 1 -> version 2"),
    Case("commit show g.omni main", 1, err="'main' is a branch, and a commit is wanted here: its newest commit is 0"),
    Case("commit changes g.omni work", 1, err="'work' is a branch, and a commit is wanted here: its newest commit is 0"),
    Case("commit revert g.omni work", 1, err="'work' is a branch, and a commit is wanted here"),
    Case(f"query g.omni -e '{READ}' --at work", 1, err="'work' is a branch, and a commit is wanted here"),
    Case("branch create g.omni other --at main", 1, err="'main' is a branch, and a commit is wanted here"),
    Case("tag create g.omni other --at main", 1, err="'main' is a branch, and a commit is wanted here"),
    Case(f"query g.omni -e '{READ}' --at v1", out="Zoé"),
    Case("commit show g.omni nothing", 1, err="there is no commit 'nothing' in the history of any branch, and no such tag"),
    Case("commit graph g.omni", out="* "),
    Case("commit diff g.omni v1 main", out="(no changes)\n"),
    Case("commit changes g.omni v1", out="authored_at: 20"),
    Case("commit changes g.omni v1 --type Person", out='+ fond: true\n  + name: Ada\n  + tags: ["a", "b"]\n'),
    Case("log g.omni Person Nobody", out="(no commits)\n"),
    Case("log g.omni Person Ada", out="insert node Person Ada"),
    Case("snapshot g.omni", out="node type 'Person'"),
    Case("schema show g.omni", out="node Person {"),
    Case("export g.omni --type City"),
    Case("verify g.omni", out="0 errors"),
    Case("recovery list g.omni", out="(no interrupted writes)"),
    Case("ensure-indices g.omni --quiet", out="indexes of g.omni"),
    Case("ensure-embeddings g.omni --quiet", out="0 embedded"),
    # flags that mean nothing
    Case(f"query g.omni -e '{READ}' --yes", 1, err="--yes (consent to a destructive write) does not apply to `query`"),
    Case(f"query g.omni -e '{READ}' --quiet", 1, err="--quiet"),
    Case("branch list g.omni --quiet", 1, err="does not apply"),
    Case("info g.omni --as me", 1, err="--as (the actor of a write) does not apply"),
    Case("version --store g.omni", 1, err="does not address a graph"),
    Case("schema check s.pg --yes", 1, err="does not apply"),
    # wrong usage
    Case("", 2, err="Usage: omnigraph"),
    Case("", 2, err="completion, version\n"),
    Case("nope", 2, err="No such command 'nope'"),
    Case("query g.omni --nope", 2, err="No such option"),
    Case("query g.omni", 1, err="give the query with --query FILE or -e GQ"),
    Case("load g.omni --data p.jsonl", 2, err="Missing option '--mode'"),
    Case("load g.omni --data p.jsonl --mode sideways", 2, err="'sideways' is not one of"),
    Case(f"query g.omni -e '{READ}' --query q.gq", 2, err="mutually exclusive"),
    Case(f"query g.omni -e '{READ}' --format xml", 2, err="'xml' is not one of"),
    Case("branch create g.omni", 1, err="no graph addressed"),
    Case("branch create g.omni", 1, err="'g.omni' was taken for NAME"),
    Case(f"query nowhere -e '{READ}'", 1, err="'nowhere' was taken for NAME"),
    Case(f"query g.omni -e '{READ}' --branch ''", 1, err="'' is not a valid branch name"),
    Case("query g.omni --query ''", 2, err="the path is empty"),
    Case("load g.omni --data '' --mode merge", 1, err="there is no file ''"),
    Case("load g.omni --data p.jsonl --mode merge --errors .", 1, err="cannot write '.': a directory, not a file"),
    Case("load g.omni --data p.jsonl --mode merge --errors nowhere/x", 1, err="cannot write 'nowhere/x': there is no directory 'nowhere'"),
    Case("commit list g.omni --limit 99999999999999999999", out="load"),
    Case("init --schema empty.pg new.omni", 1, err="schema file 'empty.pg' declares no type"),
    Case("schema apply g.omni --schema empty.pg", 1, err="schema file 'empty.pg' declares no type"),
    Case("init --schema binary.pg new.omni", 1, err="cannot read schema file 'binary.pg': not UTF-8 at byte 0"),
    Case("init --schema s.pg 'a?b'", 1, err="has '?' in it, and branches of tables cannot be stored below such a directory; rename it"),
    Case("mutate g.omni -e 'insert City { name: \"x\" }' --token ''", 1, err="the token is empty"),
    Case("mutate g.omni -e 'insert City { name: \"x\" }' --if-commit ''", 1, err="the expected commit is empty; name the commit"),
    Case("log g.omni \x1b[31m x", 1, err="\\x1b[31m"),
    Case("branch create", 2, err="Missing argument 'NAME'"),
    Case("load g.omni --data p.jsonl --mode merge --engine local --master local[2]", 2, err="leave out one of them"),
    Case(f"query g.omni -e '{READ}' -e '{READ}'", 2, err="-e or --query-string is given twice, and takes one value"),
    Case("query g.omni names --query q.gq --query bad.gq", 2, err="--query is given twice"),
    Case(f"query g.omni -e '{READ}' --at v1 --snapshot v1", 2, err="--snapshot or --at is given twice"),
    Case(f"--store g.omni --store h.omni query -e '{READ}'", 2, err="--store or --uri is given twice"),
    Case("repair g.omni --token t", 2, err="--token of a repair that writes nothing: add --confirm"),
    Case("branch merge g.omni work --ours --theirs", 2, err="--ours and --theirs exclude each other"),
    Case("commit revert g.omni v1 --theirs --ours", 2, err="--ours and --theirs exclude each other"),
    Case("load g.omni --data p.jsonl --mode merge --mode append", 2, err="--mode is given twice"),
    Case("init --schema s.pg --schema wider.pg new.omni", 2, err="--schema is given twice"),
    Case("branch list g.omni --json --json", out='"work"'),
    Case("commit changes g.omni v1 --kind vertex", 2, err="'vertex' is not one of 'node', 'edge'"),
    Case("commit diff g.omni v1 main --op add", 2, err="'add' is not one of 'insert', 'update', 'delete'"),
    Case("repair g.omni --force", 2, err="--force of a repair that writes nothing: add --confirm"),
    Case("repair g.omni --force --message m", 2, err="--force and --message of a repair that writes nothing: add --confirm"),
    Case("mutate g.omni -e 'insert City { name: \"x\" }' --as ''", 1, err="the actor is empty; name who writes, or leave the actor out"),
    # numbers
    Case("changes poll g.omni --limit 0", 2, err="Invalid value for '--limit': it takes a whole number, 1 or more, not '0'"),
    Case("changes follow g.omni --wait -1", 2, err="it takes a number of seconds zero or more, not '-1'"),
    Case("changes follow g.omni --wait nan", 2, err="it takes a number of seconds zero or more, not 'nan'"),
    Case(f"query g.omni -e '{READ}' --timeout 0", 2, err="it takes a number of seconds above zero, not '0'"),
    Case(f"query g.omni -e '{READ}' --timeout soon", 2, err="it takes a number of seconds above zero, not 'soon'"),
    Case(f"query g.omni -e '{READ}' --timeout 1e400", 2, err="not '1e400'"),
    Case(f"query g.omni -e '{READ}' --timeout 60", out="Zoé"),
    Case("commit list g.omni --limit 1.5", 2, err="it takes a whole number, 1 or more, not '1.5'"),
    Case("commit graph g.omni --limit ten", 2, err="it takes a whole number, 1 or more, not 'ten'"),
    Case("commit changes g.omni v1 --limit ''", 2, err="it takes a whole number, 1 or more, not ''"),
    Case("cleanup g.omni --keep 0", 2, err="it takes a whole number, 1 or more, not '0'"),
    Case("load g.omni --data p.jsonl --mode merge --report-errors 0", 2, err="it takes a whole number, 1 or more, not '0'"),
    Case("blob get g.omni node Person Ada photo --offset -1", 2, err="it takes a whole number, 0 to 9223372036854775807, not '-1'"),
    # texts
    Case("query g.omni --query q.gq", 1, err="q.gq: the text has 2 queries: names, add; name one of them (NAME, the command's argument)"),
    Case("query g.omni nope --query q.gq", 1, err="query 'nope' not found; the text has 2 queries: names, add"),
    Case("query g.omni add --query q.gq", 1, err="query 'add' is a mutation, and this is a read; run it with `mutate`"),
    Case("mutate g.omni names --query q.gq", 1, err="query 'names' is a read, and this is a mutation; run it with `query`"),
    Case("query g.omni -e 'match { $p: Persn } return { $p }'", 1, err="did you mean `Person`?"),
    Case("query g.omni -e 'select * from Person'", 1, err="hint: a query is `match { .. } return { .. }`, a mutation begins with `insert`"),
    Case("query g.omni -e 'match { $p: Person'", 1, err="--query-string:1:"),
    Case("query g.omni -e ''", 1, err="--query-string must not be empty"),
    Case("query g.omni names --query q.gq --params '{\"n\": 1}'", 1, err="unknown parameter 'n'"),
    Case("query g.omni names --query q.gq --params '{'", 1, err="--params:1:2: invalid JSON"),
    Case("query g.omni --query missing.gq", 1, err="cannot read query file 'missing.gq': no such file"),
    Case(f"query g.omni -e '{READ}' --at 2001-01-31", 1, err="2001-01-31"),
    Case(f"query g.omni -e '{READ}' --at 2999-01-31T12:00:00Z", out="Zoé"),
    Case(f"query g.omni -e '{READ}' --at 2026-13-45", 1, err="such as 2026-01-31T12:00:00Z"),
    Case(f"query g.omni -e '{READ}' --branch nope", 1, err="nope"),
    # formats
    Case(f"query g.omni -e '{READ}' --format csv", out="name\nAda\nZoé\n"),
    Case(f"query g.omni -e '{READ}' --format jsonl", out='{"name":"Ada"}\n{"name":"Zoé"}\n'),
    Case(f"query g.omni -e '{READ}' --json", out='"name": "Zoé"'),
    Case(
        "query g.omni -e 'match { $p: Person { name: $n } } return { $p.born as born }' --params '{\"n\": \"Ada\"}'",
        out="1 row from branch main",
    ),
    Case(f"query g.omni -e '{READ}' --explain", out="scan  of: $p: Person"),
    # loads
    Case("load g.omni --data people.csv --mode merge --dry-run", 1, err="TYPE=people.csv on the command line"),
    Case("load g.omni --data Person=people.csv --mode merge --dry-run", out="1 entity across 1 node type and 0 edge types"),
    Case("load g.omni --data marked.jsonl --mode merge --dry-run", out="with merge: 3 entities across"),
    Case("load g.omni --data Persn=people.csv --mode merge --dry-run", 1, err="did you mean `Person`?"),
    Case("load g.omni --data missing.jsonl --mode merge --dry-run", 1, err="there is no file 'missing.jsonl'"),
    Case(
        "load g.omni --data flat.jsonl --mode merge --dry-run", 1, err="unknown member 'name': a record with 'type' has 'type' and 'data'"
    ),
    Case("load g.omni --data wrong.jsonl --mode merge --dry-run --json", 1, err='"problems": [{"code": "type"'),
    Case("load g.omni --data p.jsonl --mode merge --branch nope --dry-run", 1, err="nope"),
    Case(
        "load g.omni --data Person=p.jsonl --mode merge --dry-run",
        1,
        err="records of a file of NDJSON name their types: give it without one",
    ),
    Case("load g.omni --data Person=latin.csv --mode merge --dry-run", 1, err="latin.csv: it is not UTF-8; save it as UTF-8"),
    # schemas and lint
    Case("schema check s.pg", out="OK    schema s.pg"),
    Case("schema plan g.omni --schema wider.pg", out="supported: yes"),
    Case("schema plan g.omni --schema other.pg", 1, out="supported: no"),
    Case("lint g.omni --query q.gq", out="OK    query `names` (read)"),
    Case("lint g.omni --query one.gq", out="Lint complete: 1 query processed (0 errors, 0 warnings, 0 info items)"),
    Case("query g.omni --query one.gq --explain", out="(~1 row)"),
    Case("query g.omni --query one.gq --analyze", out="1 row in "),
    Case("lint --schema s.pg --query q.gq", out="Lint complete: 2 queries"),
    Case("lint --schema s.pg --query q.gq --query bad.gq", 1, out="FILE  bad.gq"),
    Case("lint --schema s.pg --query bad.gq --query q.gq", 1, out="FILE  q.gq"),
    Case("lint --query q.gq", 1, err="name its file with --schema FILE, or a graph"),
    Case("init --schema s.pg g.omni", 1, err="g.omni"),
    Case("init --schema missing.pg new.omni", 1, err="cannot read schema file 'missing.pg'"),
    # names that are not there
    Case("branch delete g.omni nope", 1, err="nope"),
    Case("branch merge g.omni nope", 1, err="nope"),
    Case("branch merge g.omni main", 1, err="cannot be merged into itself"),
    Case("commit show g.omni nope", 1, err="nope"),
    Case("tag delete g.omni nope", 1, err="nope"),
    Case("log g.omni Persn Ada", 1, err="Persn"),
    Case("export g.omni --type Persn", 1, err="unknown export type 'Persn'"),
    Case("blob get g.omni node Person Ada photo", 1, err="has no Blob property 'photo'"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files and a small graph. The cases read, or fail, so that all share it."""
    place = tmp_path_factory.mktemp("contact")
    files = {
        "s.pg": SCHEMA,
        "wider.pg": SCHEMA.replace("born: I32?", "born: I32?  email: String?"),
        "other.pg": SCHEMA.replace("born: I32?", "born: Date?"),
        "q.gq": f"query names() {{ {READ} }}\nquery add($n: String) {{ insert Person {{ name: $n }} }}\n",
        "bad.gq": "query bad() { match { $p: Person } return { $q.name } }\n",
        "one.gq": 'match { $p: Person { name: "Ada" } } return { $p.born as born }',
        "p.jsonl": PEOPLE,
        "empty.pg": "// nothing yet\n",
        "flat.jsonl": '{"type": "Person", "name": "Ada"}\n',
        "wrong.jsonl": '{"type": "Person", "data": {"name": "Bo", "born": "x"}}\n',
        "people.csv": "name,born\nBo,1900\n",
    }
    for name, text in files.items():
        (place / name).write_text(text)
    (place / "latin.csv").write_bytes(b"name\nBj\xf6rn\n")
    (place / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + PEOPLE.encode())
    (place / "binary.pg").write_bytes(b"\xff\x00\x01")
    graph = og.init(place / "g.omni", schema=SCHEMA)
    graph.load(place / "p.jsonl", message="the first")
    graph.tags.create("v1")
    graph.branches.create("work")
    return place


@pytest.mark.parametrize("case", CASES, ids=[case.command.replace("\x1b", "_") for case in CASES])
def test_a_command(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder))
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    code = main.run(shlex.split(case.command))
    said = capsys.readouterr()
    assert (code, case.out in said.out, case.err in said.err) == (case.code, True, True), f"{code}\n{said.out}\n{said.err}"
    assert "Traceback" not in said.err
    assert "unexpected" not in said.err or "unexpected extra argument" in said.err
    assert code == 0 or case.out or not said.out, "an error prints no result"
    assert re.findall(ONE_OF_MANY, said.out + said.err) == []


PYTHON = (
    ("g.query(READ)[0]", "{'name': 'Ada'}"),
    ("len(g.query(READ)[:1])", "1"),
    ("g.query('query q($n: I32) { match { $p: Person { born: $n } } return { $p.name as n } }', {'n': 1815}).rows", "[{'n': 'Ada'}]"),
    ("g.query(READ, at='2999-01-31T12:00:00Z').row_count", "2"),
    ("len(list(g.export(types='Person')))", "2"),
    ("g.branches.list()", "['main', 'work']"),
    ("og.open('g.omni').close()", "None"),
    ("g.query(READ, 3)", "InvalidInput: the name of a query is text, not int; parameters are given as `params={...}`"),
    ("g.query(READ, None, [1])", "InvalidInput: params takes a mapping of names to values, not list"),
    ("g.query(b'x')", "InvalidInput: a query is passed as text, not as bytes"),
    ("g.query('q.gq')", "InvalidInput: a query is passed as text, and 'q.gq' is a path; read the file: Path(...).read_text()"),
    ("g.query(Path('q.gq'))", "InvalidInput: a query is passed as text, and 'q.gq' is a path"),
    ("og.memory(schema='s.pg')", "InvalidInput: a schema is passed as text, and 's.pg' is a path"),
    ("g.plan_schema(None)", "InvalidInput: a schema is passed as text, not as NoneType"),
    ("g.apply_schema('')", "InvalidInput: the schema declares no type, and would drop every type of the branch"),
    ("g.plan_schema('// nothing')", "InvalidInput: the schema declares no type"),
    ("g.load([None])", "InvalidInput: cannot load from an iterable of NoneType; give lines of text, "),
    ("g.load({3: 'people.csv'})", "InvalidInput: a table is loaded under the name of its type, not under 3"),
    ("g.load({'type': 'City', 'data': {'name': 'x'}})", "InvalidInput: this is a record, not a mapping of types to tables; put records"),
    (
        "g.load({'City': [{'name': 'x'}]})",
        "InvalidInput: cannot load City from list; give a table, a frame or a path; records name their type themselves: "
        "[{'type': 'City', 'data': {...}}]",
    ),
    (
        "g.load({'City': polars.LazyFrame({'name': ['x']})})",
        "InvalidInput: cannot load City from LazyFrame; give a table, a frame or a path; `collect()` it first",
    ),
    (
        "g.load({'Knows': pa.table({'from': ['Ada'], 'to': ['Ada'], 'since': pa.array([1], pa.timestamp('s'))})})",
        "InvalidInput: <Knows>, record 1: property 'since' value is a time of day other than midnight, and a Date has none; turn",
    ),
    (
        "g.load({'Knows': pa.table({'from': ['Ada'], 'to': ['Ada'], 'since': pa.array([0], pa.timestamp('s', 'UTC'))})})",
        "InvalidInput: <Knows>: strict property 'since' expects Date32, got a column of timestamp[s, tz=UTC]; which day a time",
    ),
    ("g.branches", "Branches of Graph('"),
    ("g.tags", "Tags of Graph('"),
    ("g.changes", "Changes of Graph('"),
    ("g.tags.list()", "[Tag(v1 at 01"),
    ("g.transaction()", "Transaction(main, not begun)"),
    ("next(g.commit_changes('v1', types=['Person']))", "EntityChange(insert node Person 'Ada')"),
    ("g.plan_schema(g.schema)", "SchemaPlan(no schema changes)"),
    ("g.plan_schema(g.schema.replace('I32', 'Date'))", "SchemaPlan(not supported: "),
    ("g.cleanup(keep=9, dry_run=True)", "Cleanup(would remove 0 versions, 0 bytes)"),
    ("g.query('insert Person { name: \"x\" }')", "InvalidInput: the text is a mutation, and this is a read; run it with `mutate`"),
    ("g.mutate(READ)", "InvalidInput: the text is a read, and this is a mutation; run it with `query`"),
    (
        "g.query(READ, at='2026-13-45')",
        "InvalidInput: '2026-13-45' is no commit id, tag, manifest version or time such as 2026-01-31T12:00:00Z",
    ),
    ("g.query(READ, at=1.5)", "InvalidInput: `at` takes a commit id, a manifest version or a time, not 1.5"),
    ("g.query(READ, timeout=-1)", "InvalidInput: timeout must be a number of seconds above zero, not -1"),
    ("g.query(READ)['name']", "InvalidInput: a row of a result has a number, not 'name'; a column is `result.to_arrow()[name]`"),
    ("g.load('people.csv')", "InvalidInput: 'people.csv' is a CSV file, which has the rows of one type; name the type: "),
    ("g.load(3)", "InvalidInput: cannot load from int; give a path, bytes, a file, lines, records or tables"),
    ("g.load([], mode='sideways')", "InvalidInput: mode must be one of "),
    ("g.export(types='Persn')", "InvalidInput: unknown export type 'Persn'"),
    ("g.commits(types='Persn')", "InvalidInput: unknown type 'Persn'; did you mean `Person`?"),
    ("g.commits(limit=-1)", "InvalidInput: limit must be zero or more, not -1"),
    ("og.open(':memory:')", "InvalidInput: a graph in memory has no location to open; make one with `omnigraph.memory(schema=...)`"),
    ("og.open('g.omni', actor='')", "InvalidInput: the actor is empty; name who writes, or leave the actor out"),
    ("og.init('new.omni', schema=g.schema, actor='')", "InvalidInput: the actor is empty"),
    ("og.memory(schema=g.schema, actor='')", "InvalidInput: the actor is empty"),
    ("g.transaction(actor='')", "InvalidInput: the actor is empty"),
    ("Path('new.omni').exists()", "False"),
    ("og.open('nothing.omni')", "NotFound: "),
    ("og.open('g.omni', mode='w')", "InvalidInput: mode must be 'r' or 'rw', not 'w'"),
    ("og.open('g.omni', mode='r').mutate('insert City { name: \"x\" }')", "Unsupported: "),
    ("g.merge('nope')", "NotFound: there is no branch 'nope'; branches: 'main', 'work'"),
    ("g.branches.create('b' * 5000)", "InvalidInput: "),
    ("g.merge('work', into=3)", "InvalidInput: `into` of merge() takes text, not int: 3"),
    ("g.mutate('x', branch=None)", "InvalidInput: `branch` of mutate() takes text, not None"),
    ("g.repair(confirm='no')", "InvalidInput: `confirm` of repair() takes True or False, not str: 'no'"),
    ("g.commits(limit='3')", "InvalidInput: `limit` of commits() takes a whole number or None, not str: '3'"),
    ("g.commits(types=3)", "InvalidInput: `types` of commits() takes text, a list of texts or None, not int: 3"),
    ("g.verify(on_progress=3)", "InvalidInput: `on_progress` of verify() takes a function or None, not int: 3"),
    ("og.open(3)", "InvalidInput: `uri` of open() takes text or a path, not int: 3"),
    (
        "og.open('g.omni', storage_options={'a': 1})",
        "InvalidInput: `storage_options` of open() takes a mapping of texts to texts or None, ",
    ),
    ("g.branches.create('\\ud800')", "InvalidInput: `name` of create() is not text that UTF-8 can hold: '\\ud800'"),
    ("g.transaction().load", "<bound method Transaction.load"),
    ("g.transaction().merge", "Unsupported: a transaction has no 'merge', only query, explain, mutate and load"),
)


@pytest.mark.parametrize(("code", "shown"), PYTHON, ids=[code.replace("\\", "_") for code, _ in PYTHON])
def test_an_expression(code: str, shown: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value begins like this, or an error of ours has this class and this message; and no message is long."""
    monkeypatch.chdir(folder)
    with og.open("g.omni") as graph:
        try:
            found = repr(eval(code, {"og": og, "g": graph, "READ": READ, "Path": Path, "pa": pa, "polars": polars}))
        except OmniGraphError as error:
            found = f"{type(error).__name__}: {error.message}"
    assert found.startswith(shown), found
    assert len(found) < 500


@pytest.mark.parametrize("name", [name for name in dir(og) if name != "__version__"])
def test_help_says_what_every_public_name_is_for(name: str) -> None:
    found = getattr(og, name)
    parts = {f"{name}.{part}": getattr(found, part) for part in dir(found) if not part.startswith("_")} if inspect.isclass(found) else {}
    described = [each for each in parts.values() if callable(each) or isinstance(each, property)]
    assert [each for each in (found, *described) if not (inspect.getdoc(each) or "").strip()] == []


def test_the_table_is_long() -> None:
    assert len(CASES) + len(PYTHON) >= 120
