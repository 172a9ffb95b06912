"""How much a sampled test tries: a usual size, which fits the budget of its suite, or all of it under `./test --all`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

ENVIRONMENT: Final = "OMNIGRAPH_TEST_ALL"


def is_whole() -> bool:
    return os.environ.get(ENVIRONMENT) == "1"


def sample(usual: int, *, whole: int) -> int:
    return whole if is_whole() else usual


def every_other(cases: Sequence[T], *, first: int = 0) -> Sequence[T]:
    """Half of the cases, from the first or from the second one on; or all."""
    return cases if is_whole() else cases[first::2]
