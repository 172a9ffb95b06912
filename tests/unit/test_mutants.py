"""The mutants of `scripts/` name source text that exists: a mutant that cannot be applied proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import mutate_executor, mutate_protocol

SOURCE = Path(__file__).resolve().parents[2] / "src/omnigraph"
MUTANTS = [(mutant[0], mutant.file, mutant.text) for mutant in (*mutate_protocol.MUTANTS, *mutate_executor.MUTANTS)]


@pytest.mark.parametrize(("file", "text"), [(file, text) for _, file, text in MUTANTS], ids=[name for name, _, _ in MUTANTS])
def test_the_text_of_a_mutant_stands_once_in_its_file(file: str, text: str) -> None:
    assert (SOURCE / file).read_text().count(text) == 1
