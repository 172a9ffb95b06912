"""Planning loads nothing heavy: no Arrow, no Lance, no object store."""

from __future__ import annotations

import subprocess
import sys


def test_planning_imports_no_storage_and_no_arrow() -> None:
    code = (
        "import sys, omnigraph.plan.explain, omnigraph.plan.lint, omnigraph.plan.planner, omnigraph.plan.writes;"
        "print(sorted({'pyarrow', 'lance', 'obstore', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
