"""The blocks of the guide that read, write, query and export with Spark run in their order; under `./test --all` twice in one folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.samples import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs/user/spark.md"


def test_the_guide_runs_in_one_folder(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its `session()` is the one that runs, and Spark's processes stay in the folder where that began: paths are made absolute here.

    The script that it shows first is run by `test_submit.py`.
    """
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join(block for block in blocks if "sys.argv" not in block)
    for name in ("graph.omni", "out"):
        program = program.replace(f'"{name}"', repr(str(tmp_path / name)))
    for _ in range(sample(1, whole=2)):
        exec(program, {})
        assert "Ada" in capsys.readouterr().out
        assert (tmp_path / "out/_SUCCESS").exists()
