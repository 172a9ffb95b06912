"""`python -m bench.scenario NAME`: run one scenario. Without a name, list them."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("hops", "load", "merge", "social", "spark", "upkeep", "upserts", "writers")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        raise SystemExit(f"usage: python -m bench.scenario {{{','.join(NAMES)}}}")
    import_module(f"bench.scenario.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
