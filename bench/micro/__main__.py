"""`python -m bench.micro NAME`: run one micro benchmark. Without a name, list them."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("cli", "indexes", "parse", "publish", "write")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        raise SystemExit(f"usage: python -m bench.micro {{{','.join(NAMES)}}}")
    import_module(f"bench.micro.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
