"""The text cases of this folder are tests; here the engine that runs them is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.harness.collector import SpecPlugin
from tests.harness.files import cases_of, spec_files
from tests.harness.graphs import RealEngine

FOLDER: Final = Path(__file__).parent
EXAMPLES: Final = FOLDER / "examples"

AWAITED: Final[Mapping[str, str]] = {}
"""Cases that the engine cannot pass yet, and what they wait for. One that passes fails until it is taken off this list."""


def pytest_configure(config: pytest.Config) -> None:
    examples = [case.name for path in spec_files(EXAMPLES) for case in cases_of(path, top=FOLDER)]
    plugin = SpecPlugin(FOLDER, engine=RealEngine(), pending_allowed=False, must_execute=examples, awaited=AWAITED)
    config.pluginmanager.register(plugin, "omnigraph-spec")
