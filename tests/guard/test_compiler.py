"""The compiler does no I/O: importing and using `lang`, `catalog` and `plan` loads no storage, opens no file, reaches no network."""

from __future__ import annotations

import subprocess
import sys

import pytest

QUIET = """
import sys
{warm}
touched = []
def hook(event, arguments):
    if event in ("open", "socket.connect", "subprocess.Popen", "os.listdir", "os.remove"):
        name = str(arguments[0]) if arguments else ""
        if not (name.endswith((".py", ".pyc", ".so")) or "__pycache__" in name or "site-packages" in name or "/lib/python" in name):
            touched.append((event, name))
sys.addaudithook(hook)
{work}
print(sorted({{"lance", "obstore"}} & set(sys.modules)), touched)
"""

WORK = """
from omnigraph.catalog import build_catalog, encode, decode
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.plan.check import check
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.explain import explain
from omnigraph.plan.statistics import NO_STATISTICS
tree = parse_schema("node A { k: String @key } edge E: A -> A")
catalog = decode(encode(build_catalog(tree, mint=iter(["0" * 15 + str(n) for n in range(9)]).__next__)))
query = check(parse_queries("query q($n: String) { match { $a: A { k: $n } $a e $b } return { $b.k } }").queries[0], catalog)
explain(plan_read(query, bind_parameters(query.parameters, {"n": "x"}), now_ms=0, statistics=NO_STATISTICS)).text
"""


def run(work: str) -> str:
    program = QUIET.format(warm=WORK, work=work)  # imports read files; what is imported must not
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_compiler_compiles_without_storage_files_or_network() -> None:
    assert run(WORK) == "[] []"


@pytest.mark.parametrize(
    "sin", ["import lance", "import obstore", "open('/dev/null').close()", "import os; os.listdir('/')", "import omnigraph.store.tables"]
)
def test_this_guard_can_fail(sin: str) -> None:
    assert run(WORK + sin) != "[] []"
