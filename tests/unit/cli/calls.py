"""Files about people, and two ways to call the command line: in this process, and for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA = "node Person {\n  name: String @key\n  born: I32?\n}\n\nedge Knows: Person -> Person\n"
NEXT_SCHEMA = """node Person {
  name: String @key
  birth_year: I32? @rename_from("born")
  email: String?
}

edge Knows: Person -> Person
"""
QUERIES = """query add_person($name: String, $born: I32?) {
  insert Person { name: $name, born: $born }
}

query introduce($from: String, $to: String) {
  insert Knows { from: $from, to: $to }
}
"""
RECORDS = """{"type": "Person", "data": {"name": "Ada", "born": 1815}}
{"type": "Person", "data": {"name": "Charles", "born": 1791}}
{"edge": "Knows", "from": "Ada", "to": "Charles", "data": {"id": "letters"}}
"""
WRONG_RECORDS = """{"type": "Person", "data": {"name": "Mary", "born": "1797"}}
{"type": "Person", "data": {"name": "Percy", "age": 29}}
"""


class Said(NamedTuple):
    """How a command ended, and what it printed where."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Said]


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnigraph.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, stdin=subprocess.DEVNULL)
