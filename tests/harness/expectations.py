"""The text of an expectation's section -> what is expected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from omnigraph.catalog.model import TypeKind
from omnigraph.errors import Kind, Position
from tests.harness import expect
from tests.harness.document import Section
from tests.harness.tables import read_table

NOT: Final = "not "
HINT: Final = "hint: "

_CODE: Final = re.compile(r"S[0-9]{2}|T[0-9]{1,2}|D2|Q000")
_ERROR: Final = re.compile(r"(?P<code>\S+)(?: at (?P<line>[0-9]+):(?P<column>[0-9]+))?")
_LOADED: Final = re.compile(r"(?P<kind>node|edge) (?P<name>\w+): (?P<count>[0-9]+)")
_COUNTS: Final = re.compile(r"(?P<what>nodes|edges): (?P<count>[0-9]+)")
_COMMITS: Final = {"commit: one": True, "commit: none": False}


def _plain(section: Section) -> Section:
    if section.argument:
        raise section.wrong(f"`{section.name}` takes no argument")
    return section


def _lines(section: Section) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(section.text.split("\n"), start=1):
        if line.strip():
            yield number, line.strip()


def _affected(section: Section) -> expect.Affected:
    counts: dict[str, int] = {}
    committed: bool | None = None
    for number, line in _lines(_plain(section)):
        if line in _COMMITS:
            committed = _COMMITS[line]
        elif (found := _COUNTS.fullmatch(line)) is not None:
            counts[found["what"]] = int(found["count"])
        else:
            raise section.wrong(f"`{line}` is neither `nodes: 1`, `edges: 1`, `commit: one` nor `commit: none`", below=number)
    if counts.keys() != {"nodes", "edges"}:
        raise section.wrong("`affected` counts both: a line `nodes: 1` and a line `edges: 0`")
    return expect.Affected(counts["nodes"], counts["edges"], committed)


def _loaded(section: Section) -> expect.Loaded:
    counts = []
    for number, line in _lines(_plain(section)):
        found = _LOADED.fullmatch(line)
        if found is None:
            raise section.wrong(f"`{line}` is not of the form `node Person: 1`", below=number)
        counts.append((TypeKind(found["kind"]), found["name"], int(found["count"])))
    return expect.Loaded(tuple(sorted(counts)))


def _json_lines(section: Section) -> tuple[object, ...]:
    values: list[object] = []
    for number, line in _lines(_plain(section)):
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise section.wrong(f"each line of `{section.name}` is one JSON value: {error.msg}", below=number) from None
    return tuple(values)


def _steps(section: Section) -> expect.Steps:
    values = _json_lines(section)
    for value in values:
        if not isinstance(value, dict) or "kind" not in value:
            raise section.wrong('each line of `steps` is an object with its `"kind"`')
    return expect.Steps(values)


def _report(section: Section) -> expect.Report:
    try:
        return expect.Report(json.loads(_plain(section).text))
    except json.JSONDecodeError as error:
        raise section.wrong(f"`report` holds one JSON document: {error.msg}", below=error.lineno) from None


def _facts(section: Section) -> expect.Facts:
    lines = [line for _, line in _lines(_plain(section))]
    present = tuple(line for line in lines if not line.startswith(NOT))
    return expect.Facts(present, tuple(line.removeprefix(NOT) for line in lines if line.startswith(NOT)))


def _plan(section: Section) -> expect.PlanText:
    if not _plain(section).text.strip():
        raise section.wrong("`plan` holds the text of the plan")
    return expect.PlanText(section.text.strip("\n"))


def _error(section: Section) -> expect.Error:
    found = _ERROR.fullmatch(section.argument)
    if found is None:
        raise section.wrong("an error is written `--- error T6`, `--- error T6 at 1:40` or `--- error validation`")
    code = found["code"]
    if _CODE.fullmatch(code) is None and code not in set(Kind):
        raise section.wrong(f"`{code}` is neither a code of the language reference nor a kind of error")
    lines = [line for _, line in _lines(section)]
    hints = [line.removeprefix(HINT) for line in lines if line.startswith(HINT)]
    if len(hints) > 1:
        raise section.wrong("an error has one hint")
    messages = tuple(line for line in lines if not line.startswith(HINT))
    if not messages:
        raise section.wrong("say what the error's message contains, one part in each line")
    at = None if found["line"] is None else Position(int(found["line"]), int(found["column"]))
    return expect.Error(code, messages, at, hints[0] if hints else None)


EXPECTATIONS: Final[Mapping[str, Callable[[Section], expect.Expected]]] = {
    "rows": read_table,
    "affected": _affected,
    "loaded": _loaded,
    "lines": lambda section: expect.Lines(_json_lines(section)),
    "report": _report,
    "steps": _steps,
    "catalog": _facts,
    "plan": _plan,
    "error": _error,
}
