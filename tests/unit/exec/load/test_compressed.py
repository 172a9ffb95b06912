"""Compressed input that unfolds into far more than it is: refused before any effect, unless the caller says that it is meant."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, ResourceLimitExceeded
from omnigraph.exec.load.compressed import EXPANSION_ENVIRONMENT, EXPANSION_LIMIT, FREE_BYTES

SCHEMA = "node P { name: String @key  bio: String? }"
GOOD = b'{"type":"P","data":{"name":"Ada"}}\n'
PIECE = 16 << 20
COPIES = FREE_BYTES // PIECE + 1
MEASURED = """
import resource, sys
import omnigraph as og
graph = og.init(sys.argv[1], schema="node P { name: String @key }")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
receipt = graph.load(sys.argv[2])
print(receipt.total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def compressed(data: bytes, codec: str) -> bytes:
    return gzip.compress(data) if codec == "gzip" else pa.compress(data, codec="zstd", asbytes=True)


def bomb(codec: str, text: bytes = b"\n") -> bytes:
    """A record, more of a text than is free, and a record."""
    return (
        compressed(GOOD, codec) + compressed(text * (PIECE // len(text)), codec) * COPIES + compressed(GOOD.replace(b"Ada", b"Ben"), codec)
    )


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("blank", [b"\n", b" \t\r\n"], ids=["newlines", "spaces"])
def test_blank_lines_take_no_memory(tmp_path: Path, blank: bytes) -> None:
    data = gzip.compress(GOOD + blank * ((32 << 20) // len(blank)) + GOOD.replace(b"Ada", b"Ben"))
    (tmp_path / "blank.gz").write_bytes(data)
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "graph"), str(tmp_path / "blank.gz")]
    total, grown_mib = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert total == "2"
    assert int(grown_mib) < 400


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    with pytest.raises(InvalidInput) as caught:
        graph.load(b"\n" * 3_000_000 + GOOD + b" \n\t\r\n" + b"nonsense\n")
    problems: Any = caught.value.facts["problems"]
    (problem,) = problems
    assert problem.line == 3_000_004


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_data_that_unfolds_too_far_is_refused_before_any_effect(tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    (tmp_path / "bomb").write_bytes(bomb(codec))
    before = everything(tmp_path / "graph"), graph.commits()
    with pytest.raises(ResourceLimitExceeded) as caught:
        graph.load(tmp_path / "bomb")
    assert caught.value.kind is Kind.RESOURCE_LIMIT
    facts = caught.value.facts
    assert (facts["resource"], facts["limit"]) == ("decompressed_bytes", FREE_BYTES)
    assert FREE_BYTES < int(str(facts["actual"])) <= FREE_BYTES + PIECE
    assert str(tmp_path / "bomb") in caught.value.message
    assert EXPANSION_ENVIRONMENT in caught.value.message
    assert (everything(tmp_path / "graph"), graph.commits()) == before
    monkeypatch.setenv(EXPANSION_ENVIRONMENT, "100000")
    assert graph.load(tmp_path / "bomb").total == 2


def test_what_compresses_well_is_loaded_past_what_is_free(tmp_path: Path) -> None:
    """Within the limit for what there is of it: the ratio counts, not the size."""
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    nothing = gzip.compress(b"")
    dense = nothing * (PIECE // EXPANSION_LIMIT // len(nothing)) + gzip.compress(b"\n" * PIECE)
    (tmp_path / "large").write_bytes(dense * COPIES + gzip.compress(GOOD))
    assert graph.load(tmp_path / "large").total == 1


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_csv_file_has_the_same_limit(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = {"gz": "gzip", "zst": "zstd"}[suffix]
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    data = compressed(b"name\nAda\n", codec) + compressed(b"\n" * PIECE, codec) * COPIES + compressed(b"Ben\n", codec)
    (tmp_path / f"p.csv.{suffix}").write_bytes(data)
    before = everything(tmp_path / "graph")
    with pytest.raises(ResourceLimitExceeded) as caught:
        graph.load({"P": str(tmp_path / f"p.csv.{suffix}")})
    assert (caught.value.facts["resource"], caught.value.facts["limit"]) == ("decompressed_bytes", FREE_BYTES)
    assert everything(tmp_path / "graph") == before
    monkeypatch.setenv(EXPANSION_ENVIRONMENT, "100000")
    assert graph.load({"P": str(tmp_path / f"p.csv.{suffix}")}).total == 2


@pytest.mark.parametrize("setting", ["", "0", "-1", "much", "1.5"])
def test_a_limit_that_is_no_number_is_refused(tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXPANSION_ENVIRONMENT, setting)
    with pytest.raises(InvalidInput, match=EXPANSION_ENVIRONMENT):
        og.init(tmp_path / "graph", schema=SCHEMA).load(gzip.compress(GOOD))
