"""The user's page about schemas is true and complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from omnigraph.catalog.evolve import SchemaPlan, Step, describe, plan_schema
from omnigraph.catalog.evolve.steps import MigrationCode
from omnigraph.catalog.schema_codes import SchemaCode
from omnigraph.lang import parse_schema
from tests.unit.catalog.schemas import catalog_of, counting

PAGE = (Path(__file__).parents[3] / "docs/user/schema.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_schema_has_a_meaning() -> None:
    assert len([catalog_of(text) for text in blocks("pg")]) == 2


@pytest.mark.parametrize("code", [*SchemaCode, *MigrationCode])
def test_every_code_is_listed(code: str) -> None:
    assert f"\n- `{code}`: " in PAGE or f" (`{code}`)\n" in PAGE


@pytest.mark.parametrize("kind", [kind.__struct_config__.tag for kind in get_args(Step)])
def test_every_kind_of_step_is_listed(kind: str) -> None:
    assert f"| `{kind}` |" in PAGE


def test_the_plan_looks_as_shown() -> None:
    accepted = catalog_of("node Person { name: String }")
    plan, _ = plan_schema(accepted, parse_schema("node Person { name: String city: String? }"), mint=counting())
    (shown,) = blocks("json")
    assert msgspec.json.decode(shown, type=SchemaPlan) == plan


def test_the_renaming_keeps_everything() -> None:
    accepted = catalog_of("node Person { name: String @key born: I32? }")
    plan, _ = plan_schema(accepted, parse_schema(blocks("pg")[1]), mint=counting())
    assert [describe(step) for step in plan.steps] == ["rename node Person to Human", "rename property node:Human.born to birth_year"]
