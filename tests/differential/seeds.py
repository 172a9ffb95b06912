"""How much the suite asks for."""

from __future__ import annotations

from typing import Final

from tests.samples import sample

SEEDS: Final = range(sample(60, whole=1000))
LEAST: Final = 100
"""How often every construct and every operator must come, over all graphs."""
WITH_ROWS: Final = 0.6
CHANGES: Final = range(sample(24, whole=400))
FACTS: Final = "omnigraph-differential"
"""The property of a test report that carries what a graph was asked."""
LOADS: Final = range(sample(12, whole=200))
LOADS_PER_GRAPH: Final = 25
