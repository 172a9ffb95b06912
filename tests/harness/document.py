"""The text of a spec file -> its blocks and their sections, each with the line it stands on. Knows no section's meaning."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind

BLOCK: Final = "==="
SECTION: Final = "---"
COMMENT: Final = "#"
FIXTURE: Final = "fixture"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class MalformedSpec(InvalidInput):
    """Mend the spec file: facts `path`, `line`."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(Kind.INVALID_ARGUMENT, f"{path}:{line}: {message}", path=path, line=line)


class Section(msgspec.Struct, frozen=True):
    """`--- name argument` and the lines below it. Comments are blanked and trailing blank lines cut, so that line n of `text`
    is line `line + n` of the file."""

    name: str
    argument: str
    text: str
    path: str
    line: int

    def wrong(self, message: str, *, below: int = 0) -> MalformedSpec:
        """The error for the caller to raise, standing at the heading or at a line of the text."""
        return MalformedSpec(self.path, self.line + below, message)


class Block(msgspec.Struct, frozen=True):
    """`=== name title`, what it uses, and its sections; a fixture is `=== fixture name`."""

    name: str
    title: str
    fixture: bool
    path: str
    line: int
    use: str | None = None
    sections: tuple[Section, ...] = ()

    def wrong(self, message: str) -> MalformedSpec:
        return MalformedSpec(self.path, self.line, message)


def read_blocks(text: str, *, path: str) -> tuple[Block, ...]:
    """Every block of a file, in order. No two cases and no two fixtures share a name."""
    reader = _Reader(path)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.take(number, line.removesuffix("\r"))
    blocks = reader.finish()
    if not blocks:
        raise MalformedSpec(path, 1, f"no case: a case begins with `{BLOCK} name title`")
    _refuse_twice(blocks)
    return blocks


def _refuse_twice(blocks: tuple[Block, ...]) -> None:
    seen: dict[tuple[bool, str], int] = {}
    for block in blocks:
        first = seen.setdefault((block.fixture, block.name), block.line)
        if first != block.line:
            what = "fixture" if block.fixture else "case"
            raise block.wrong(f"{what} `{block.name}` is there already, in line {first}")


class _Reader:
    """Takes one line after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._done: list[Block] = []
        self._block: Block | None = None
        self._sections: list[Section] = []
        self._heading: Section | None = None
        self._body: list[str] = []

    def take(self, number: int, line: str) -> None:
        if line.startswith(BLOCK):
            self._end_block()
            self._block = self._block_heading(number, line)
        elif line.startswith(SECTION):
            self._end_section()
            self._heading = self._section_heading(number, line)
        elif self._heading is not None:
            self._body.append("" if line.startswith(COMMENT) else line)
        elif line.strip() and not line.startswith(COMMENT):
            self._setting(number, line)

    def finish(self) -> tuple[Block, ...]:
        self._end_block()
        return tuple(self._done)

    def _block_heading(self, number: int, line: str) -> Block:
        name, _, title = line.removeprefix(BLOCK).strip().partition(" ")
        fixture = name == FIXTURE
        if fixture:
            name, title = title.strip(), ""
        if _NAME.fullmatch(name) is None:
            form = f"{BLOCK} {FIXTURE} name" if fixture else f"{BLOCK} name title"
            raise MalformedSpec(self._path, number, f"a heading is `{form}`, and a name is letters, digits, `_`, `-` and `.`")
        return Block(name, title.strip(), fixture, self._path, number)

    def _section_heading(self, number: int, line: str) -> Section:
        name, _, argument = line.removeprefix(SECTION).strip().partition(" ")
        if self._block is None:
            raise MalformedSpec(self._path, number, f"a section belongs to a case: begin one with `{BLOCK} name title`")
        if not name:
            raise MalformedSpec(self._path, number, f"a section heading is `{SECTION} name`")
        return Section(name, argument.strip(), "", self._path, number)

    def _setting(self, number: int, line: str) -> None:
        key, colon, value = line.partition(":")
        if self._block is None:
            raise MalformedSpec(self._path, number, f"text outside of a case: begin one with `{BLOCK} name title`, or comment with `#`")
        if (key, colon) != ("use", ":") or _NAME.fullmatch(value.strip()) is None:
            raise MalformedSpec(self._path, number, f"expected `use: fixture` or a section `{SECTION} name` here")
        if self._block.use is not None:
            raise MalformedSpec(self._path, number, "a case uses one fixture; a fixture may use another")
        self._block = msgspec.structs.replace(self._block, use=value.strip())

    def _end_section(self) -> None:
        if self._heading is not None:
            text = "\n".join(self._body).rstrip()
            self._sections.append(msgspec.structs.replace(self._heading, text=text))
        self._heading, self._body = None, []

    def _end_block(self) -> None:
        self._end_section()
        if self._block is not None:
            self._done.append(msgspec.structs.replace(self._block, sections=tuple(self._sections)))
        self._block, self._sections = None, []
