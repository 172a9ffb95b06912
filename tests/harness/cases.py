"""Blocks of a spec file -> cases: a schema, data, and steps, each with what is expected of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

import msgspec

from tests.harness import expect
from tests.harness.document import Block, Section, read_blocks
from tests.harness.expectations import EXPECTATIONS

GRAPH_FILE: Final = ".gqt"
SCHEMA_FILE: Final = ".pgt"
SUFFIXES: Final = (GRAPH_FILE, SCHEMA_FILE)

MODES: Final = ("append", "merge", "overwrite", "upsert")
DATA_LOSS: Final = "allow data loss"


class Accept(msgspec.Struct, frozen=True):
    """Take the case's own schema."""


class Query(msgspec.Struct, frozen=True):
    """Run a read."""

    text: Section
    name: str | None = None
    params: object = None


class Mutation(msgspec.Struct, frozen=True):
    """Run a mutation."""

    text: Section
    name: str | None = None
    params: object = None


class Explain(msgspec.Struct, frozen=True):
    """Plan a read without running it."""

    text: Section
    name: str | None = None
    params: object = None


class Lint(msgspec.Struct, frozen=True):
    """Check a whole query file."""

    text: Section


class Load(msgspec.Struct, frozen=True):
    """Load lines of JSON."""

    text: Section
    mode: str


class Export(msgspec.Struct, frozen=True):
    """Export everything, or only the named types."""

    types: tuple[str, ...]


class Wanted(msgspec.Struct, frozen=True):
    """Plan the way to another schema."""

    text: Section
    allow_data_loss: bool


class Apply(msgspec.Struct, frozen=True):
    """Go to another schema."""

    text: Section
    allow_data_loss: bool


Action = Accept | Query | Mutation | Explain | Lint | Load | Export | Wanted | Apply


class Step(msgspec.Struct, frozen=True):
    """One thing a case does, and what must come of it. `line` is where the expectation (else the action) stands."""

    action: Action
    expected: expect.Expected
    label: str
    line: int


class Case(msgspec.Struct, frozen=True):
    """One named case. `schema` and `data` hold the parts of its fixtures first."""

    name: str
    title: str
    path: str
    line: int
    schema: tuple[Section, ...]
    data: tuple[Section, ...]
    steps: tuple[Step, ...]


class _Kind(NamedTuple):
    """How a step is written: how its heading is read, what may follow, and whether something must."""

    read: Callable[[Section], Action]
    expectations: tuple[str, ...]
    required: bool = True


def read_cases(text: str, *, path: str, fixtures: Mapping[str, Block]) -> tuple[Case, ...]:
    """The cases of a file. `fixtures` are those it may use besides its own."""
    blocks = read_blocks(text, path=path)
    own = {block.name: block for block in blocks if block.fixture}
    known = {**fixtures, **own}
    for block in own.values():
        check_fixture(block)
        list(_chain(block, known))
    return tuple(_case(block, known) for block in blocks if not block.fixture)


def read_fixtures(text: str, *, path: str) -> dict[str, Block]:
    """The fixtures of a file that holds nothing else."""
    blocks = read_blocks(text, path=path)
    for block in blocks:
        if not block.fixture:
            raise block.wrong("a file of fixtures holds no cases")
        check_fixture(block)
    return {block.name: block for block in blocks}


def check_fixture(block: Block) -> None:
    if not block.sections and block.use is None:
        raise block.wrong("an empty fixture: give it a `schema` or `data` section")
    for section in block.sections:
        if section.name not in _SETUP or section.argument:
            raise section.wrong("a fixture holds plain `schema` and `data` sections")


def _chain(block: Block, known: Mapping[str, Block]) -> Iterator[Block]:
    """The fixtures a block stands on, the lowest first."""
    chain: list[Block] = []
    at = block
    while at.use is not None:
        below = known.get(at.use)
        if below is None:
            raise at.wrong(f"no fixture is called `{at.use}`{_near(at.use, known)}")
        if below in chain or below is block:
            raise at.wrong(f"fixture `{at.use}` uses itself")
        chain.append(below)
        at = below
    return reversed(chain)


def _case(block: Block, known: Mapping[str, Block]) -> Case:
    base = [section for fixture in _chain(block, known) for section in fixture.sections]
    sections = _Sections(block)
    own = sections.setup()
    steps = tuple(sections.steps())
    setup = (*base, *own)
    schema = tuple(section for section in setup if section.name == "schema")
    if not schema:
        raise block.wrong("a case needs a schema: a section `--- schema` or a fixture that has one")
    if not steps:
        raise block.wrong("a case without a step expects nothing")
    return Case(block.name, block.title, block.path, block.line, schema, tuple(s for s in setup if s.name == "data"), steps)


class _Sections:
    """The sections of one case, taken from the front."""

    def __init__(self, block: Block) -> None:
        self._left = list(block.sections)
        self._kinds = _SCHEMA_KINDS if block.path.endswith(SCHEMA_FILE) else _KINDS

    def setup(self) -> Sequence[Section]:
        taken: list[Section] = []
        while self._left and self._left[0].name in _SETUP:
            section = self._left.pop(0)
            if section.argument:
                raise section.wrong(f"`{section.name}` takes no argument")
            if section.name in [other.name for other in taken]:
                raise section.wrong(f"a case has one `{section.name}` section")
            if section.name == "data" and self._kinds is _SCHEMA_KINDS:
                raise section.wrong(f"a {SCHEMA_FILE} file speaks of schemas only; data belongs in a {GRAPH_FILE} file")
            taken.append(section)
        return taken

    def steps(self) -> Iterator[Step]:
        if self._left and self._left[0].name in ("catalog", "error"):
            yield self._step(Accept(), "schema", self._left[0].line)
        while self._left:
            heading = self._left.pop(0)
            kind = self._kinds.get(heading.name)
            if kind is None:
                raise heading.wrong(self._unexpected(heading))
            yield self._step(kind.read(heading), heading.name, heading.line, heading)

    def _step(self, action: Action, label: str, line: int, heading: Section | None = None) -> Step:
        kind = _ACCEPT if heading is None else self._kinds[label]
        if self._left and self._left[0].name == "params" and isinstance(action, Query | Mutation | Explain):
            action = msgspec.structs.replace(action, params=_json(self._left.pop(0)))
        if self._left and self._left[0].name in kind.expectations:
            section = self._left.pop(0)
            return Step(action, EXPECTATIONS[section.name](section), label, section.line)
        if kind.required and heading is not None:
            raise heading.wrong(f"`{label}` needs what it expects below it: {_alternatives(kind.expectations)}")
        return Step(action, expect.Nothing(), label, line)

    def _unexpected(self, section: Section) -> str:
        if section.name in EXPECTATIONS or section.name == "params":
            return f"`{section.name}` does not belong here: it follows {_alternatives(self._followed(section.name))}"
        if section.name in _SETUP:
            return f"`{section.name}` stands before the steps"
        if section.name in _KINDS:
            return f"`{section.name}` belongs in a {GRAPH_FILE} file"
        names = (*_SETUP, "params", *self._kinds, *EXPECTATIONS)
        return f"no section is called `{section.name}`{_near(section.name, names)}"

    def _followed(self, name: str) -> tuple[str, ...]:
        if name == "params":
            return ("query", "mutation", "explain")
        first = ("schema",) if name in _ACCEPT.expectations else ()
        return (*first, *(action for action, kind in _KINDS.items() if name in kind.expectations))


# how each heading is read


def _named(section: Section) -> str | None:
    if " " in section.argument:
        raise section.wrong(f"`{section.name}` takes the name of one query, not `{section.argument}`")
    return section.argument or None


def _query(section: Section) -> Query:
    return Query(section, _named(section))


def _mutation(section: Section) -> Mutation:
    return Mutation(section, _named(section))


def _explain(section: Section) -> Explain:
    return Explain(section, _named(section))


def _lint(section: Section) -> Lint:
    if section.argument:
        raise section.wrong("`lint` takes no argument")
    return Lint(section)


def _load(section: Section) -> Load:
    if section.argument not in MODES:
        raise section.wrong(f"`load` says how: {_alternatives(tuple(f'load {mode}' for mode in MODES))}")
    return Load(section, section.argument)


def _export(section: Section) -> Export:
    if section.text.strip():
        raise section.wrong("`export` has no text of its own; name types behind it and what comes out under `--- lines`")
    return Export(tuple(section.argument.split()))


def _data_loss(section: Section) -> bool:
    if section.argument not in ("", DATA_LOSS):
        raise section.wrong(f"`{section.name}` takes `{DATA_LOSS}` or nothing, not `{section.argument}`")
    return section.argument == DATA_LOSS


def _wanted(section: Section) -> Wanted:
    return Wanted(section, _data_loss(section))


def _apply(section: Section) -> Apply:
    return Apply(section, _data_loss(section))


def _json(section: Section) -> object:
    try:
        return json.loads(section.text)
    except json.JSONDecodeError as error:
        raise section.wrong(f"`{section.name}` holds one JSON value: {error.msg}", below=error.lineno) from None


def _alternatives(names: tuple[str, ...]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _near(word: str, names: Sequence[str] | Mapping[str, object]) -> str:
    found = get_close_matches(word, list(names), n=1)
    return f"; did you mean `{found[0]}`?" if found else ""


_SETUP: Final = ("schema", "data")
_ACCEPT: Final = _Kind(lambda _: Accept(), ("catalog", "error"))
_KINDS: Final[Mapping[str, _Kind]] = {
    "query": _Kind(_query, ("rows", "error")),
    "mutation": _Kind(_mutation, ("affected", "error"), required=False),
    "load": _Kind(_load, ("loaded", "error"), required=False),
    "export": _Kind(_export, ("lines", "error")),
    "lint": _Kind(_lint, ("report",)),
    "explain": _Kind(_explain, ("plan", "error")),
    "wanted": _Kind(_wanted, ("steps", "catalog", "error")),
    "apply": _Kind(_apply, ("steps", "error"), required=False),
}
_SCHEMA_KINDS: Final[Mapping[str, _Kind]] = {"wanted": _KINDS["wanted"]}
