"""The text cases of this folder are tests; here the engine that runs them is named."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from omnigraph.testing.collector import SpecPlugin
from omnigraph.testing.graphs import RealEngine
from omnigraph.testing.files import cases_of, spec_files

FOLDER: Final = Path(__file__).parent
EXAMPLES: Final = FOLDER / "examples"

PENDING_ALLOWED: Final = True
"""Until an engine is named below. Then this becomes False: no case may be pending, and every worked example must execute."""


def pytest_configure(config: pytest.Config) -> None:
    examples = () if PENDING_ALLOWED else [case.name for path in spec_files(EXAMPLES) for case in cases_of(path, top=FOLDER)]
    plugin = SpecPlugin(FOLDER, engine=RealEngine(), pending_allowed=PENDING_ALLOWED, must_execute=examples)
    config.pluginmanager.register(plugin, "omnigraph-spec")
