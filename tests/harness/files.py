"""Paths -> cases: a spec file with the fixtures of its folder and of the folders above it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.harness.cases import SUFFIXES, Case, read_cases, read_fixtures
from tests.harness.document import Block, MalformedSpec

FIXTURES: Final = "fixtures.gqt"


def is_spec_file(path: Path) -> bool:
    """Whether a file holds cases."""
    return path.suffix in SUFFIXES and path.name != FIXTURES


def cases_of(path: Path, *, top: Path) -> tuple[Case, ...]:
    """The cases of a file. Fixtures are looked up in it, then in `fixtures.gqt` beside it and in the folders up to `top`."""
    return read_cases(_text(path), path=str(path), fixtures=_fixtures(path.parent, top))


def spec_files(top: Path) -> Iterator[Path]:
    """Every spec file below a folder, by path."""
    yield from sorted(path for path in top.rglob("*") if is_spec_file(path) and path.is_file())


def _fixtures(folder: Path, top: Path) -> dict[str, Block]:
    above = _fixtures(folder.parent, top) if folder != top and top in folder.parents else {}
    file = folder / FIXTURES
    return {**above, **read_fixtures(_text(file), path=str(file))} if file.is_file() else above


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedSpec(str(path), 1, f"not UTF-8: {error.reason}") from error
