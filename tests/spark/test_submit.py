"""The guide's script, run as the guide says: with `spark-submit` of the pip package, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from examples.museum import make_data

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "examples/museum/schema.pg"
QUERIES = ROOT / "examples/museum/queries.gq"


def test_the_script_of_the_guide_runs_under_spark_submit(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/user/spark.md").read_text(), re.DOTALL)
    (script,) = [block for block in blocks if "sys.argv" in block]
    (tmp_path / "load_museum.py").write_text(script)
    make_data.write_parquet(tmp_path / "tables")
    place = tmp_path / "museum.omni"
    submit = str(Path(sys.executable).parent / "spark-submit")
    command = [submit, "--master", "local[2]", "load_museum.py", str(place), str(SCHEMA), str(tmp_path / "tables")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    graph = og.open(place, mode="r")
    (commit, _) = graph.commits()
    assert f"8366 records in commit {commit.id}" in done.stdout
    assert (commit.actor, commit.token) == ("etl", "museum-2026-03")
    assert graph.query(QUERIES.read_text(), "walls").row_count == 4
    assert graph.verify() == []
