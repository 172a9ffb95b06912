"""How much a sampled test tries: a usual size, which fits the budget of its suite, or all of it under `./test --all`."""

from __future__ import annotations

import os
from typing import Final

ENVIRONMENT: Final = "OMNIGRAPH_TEST_ALL"


def is_whole() -> bool:
    return os.environ.get(ENVIRONMENT) == "1"


def sample(usual: int, *, whole: int) -> int:
    return whole if is_whole() else usual
