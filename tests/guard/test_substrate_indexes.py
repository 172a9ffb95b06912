"""Staged indexes, coverage and search: an index changes the speed of an answer, never which rows are in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.dataset import Index
from lance.fragment import write_fragments
from lance.optimize import Compaction
from lance.query import MatchQuery

from tests.guard.substrate import commit, fence

DIM = 8
DOCS = pa.schema([("id", pa.string()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), DIM))])
INDEXES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "id_idx": ("id", "BTREE", {}),
    "text_idx": ("text", "INVERTED", {}),
    "vector_idx": ("vector", "IVF_PQ", {"num_partitions": 1, "num_sub_vectors": 2, "num_bits": 4}),
}


def documents(numbers: Sequence[int]) -> pa.Table:
    """Each with one word of its own and one common to all, and a vector drawn from its number."""
    vectors = np.concatenate([np.random.default_rng(i).normal(size=DIM) for i in numbers]).astype(np.float32)
    return pa.table(
        {
            "id": [f"d{i}" for i in numbers],
            "text": [f"common word{i}" for i in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIM),
        },
        schema=DOCS,
    )


def library(path: Path, *, indexed: bool = True, stable_row_ids: bool = False) -> LanceDataset:
    table = lance.write_dataset(documents(range(64)), str(path), enable_stable_row_ids=stable_row_ids)
    return with_indexes(table) if indexed else table


def staged_index(table: LanceDataset, name: str, fragment_ids: list[int]) -> Index:
    column, kind, options = INDEXES[name]
    segment = table.create_index_uncommitted(column, kind, name=name, fragment_ids=fragment_ids, **options)
    return table.merge_existing_index_segments([segment]) if kind == "INVERTED" else segment


def with_indexes(table: LanceDataset) -> LanceDataset:
    """All three kinds, in one transaction."""
    everywhere = [fragment.fragment_id for fragment in table.get_fragments()]
    staged = [staged_index(table, name, everywhere) for name in INDEXES]
    return LanceDataset.commit(table, LanceOperation.CreateIndex(staged, []), read_version=table.version, max_retries=0)


def found_by(table: LanceDataset, number: int) -> set[str]:
    """By which of the three ways a document is found."""
    (vector,) = documents([number])["vector"].to_pylist()
    by_id = table.to_table(filter=f"id = 'd{number}'", columns=["id"])
    by_text = table.to_table(full_text_query=MatchQuery(f"word{number}", "text"), columns=["id", "_score"])
    by_vector = table.to_table(nearest={"column": "vector", "q": vector, "k": 1, "refine_factor": 8}, columns=["id", "_distance"])
    ways = {"id": by_id, "text": by_text, "vector": by_vector}
    return {way for way, answer in ways.items() if f"d{number}" in answer["id"].to_pylist()}


EVERY_WAY = {"id", "text", "vector"}


def segments(table: LanceDataset) -> dict[str, list[list[int]]]:
    """The fragments that each segment of each index covers."""
    return {index.name: [sorted(segment.fragment_ids) for segment in index.segments] for index in table.describe_indices()}


def covered(table: LanceDataset) -> dict[str, set[int]]:
    """The fragments each index covers, over all its segments."""
    return {name: {fragment for part in parts for fragment in part} for name, parts in segments(table).items()}


# Building


def test_indexes_of_every_kind_are_staged_and_land_in_one_version(tmp_path: Path) -> None:
    """ensure_indices is one transaction per table: nothing moves while they are built."""
    table = library(tmp_path / "t", indexed=False)
    after = with_indexes(table)
    assert (table.version, after.version) == (1, 2)
    assert covered(after) == {"id_idx": {0}, "text_idx": {0}, "vector_idx": {0}}
    assert found_by(after, 7) == EVERY_WAY


def test_an_inverted_segment_that_was_not_finalised_breaks_every_text_search(tmp_path: Path) -> None:
    """Hence merge_existing_index_segments before CreateIndex; the commit itself does not complain."""
    table = library(tmp_path / "t", indexed=False)
    raw = table.create_index_uncommitted("text", "INVERTED", name="text_idx", fragment_ids=[0])
    after = LanceDataset.commit(table, LanceOperation.CreateIndex([raw], []), read_version=1, max_retries=0)
    with pytest.raises(pa.ArrowInvalid):
        after.to_table(full_text_query=MatchQuery("common", "text"))


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_can_be_staged_on_an_empty_table(tmp_path: Path, name: str) -> None:
    """A type has its indexes from birth if one likes; the rows that come later are found."""
    table = LanceDataset.commit(str(tmp_path / "t"), LanceOperation.Overwrite(DOCS, []), max_retries=0)
    segment = staged_index(table, name, [])
    table = LanceDataset.commit(table, LanceOperation.CreateIndex([segment], []), read_version=1, max_retries=0)
    table = commit(table, fence(table, write_fragments(documents(range(5)), table, return_transaction=True)))
    assert found_by(table, 3) == EVERY_WAY


def test_a_second_segment_covers_the_new_fragment_under_the_same_name(tmp_path: Path) -> None:
    """Coverage can be extended by a staged transaction of ours, without a rebuild."""
    table = library(tmp_path / "t")
    table = commit(table, write_fragments(documents([100]), table, return_transaction=True))
    more = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[1], replace=True)
    table = LanceDataset.commit(table, LanceOperation.CreateIndex([more], []), read_version=table.version, max_retries=0)
    assert covered(table)["id_idx"] == {0, 1}
    assert table.stats.index_stats("id_idx")["num_unindexed_rows"] == 0
    assert found_by(table, 100) == found_by(table, 7) == EVERY_WAY


# Coverage after staged writes


def fenced_append(table: LanceDataset) -> Transaction:
    return fence(table, write_fragments(documents([100]), table, return_transaction=True))


def fenced_insert(table: LanceDataset) -> Transaction:
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return fence(table, merge.execute_uncommitted(documents([100]))[0])


def plain_append(table: LanceDataset) -> Transaction:
    return write_fragments(documents([100]), table, return_transaction=True)


@pytest.mark.parametrize("stage", [plain_append, fenced_append, fenced_insert])
def test_a_row_of_every_staged_kind_is_found_by_every_index_before_and_after_folding(
    tmp_path: Path, stage: Callable[[LanceDataset], Transaction]
) -> None:
    """No write waits for an index and no search misses a row for want of one."""
    table = library(tmp_path / "t")
    table = commit(table, stage(table))
    assert covered(table) == {"id_idx": {0}, "text_idx": {0}, "vector_idx": {0}}
    assert found_by(table, 100) == EVERY_WAY
    table.optimize.optimize_indices()
    assert covered(table) == {"id_idx": {0, 1}, "text_idx": {0, 1}, "vector_idx": {0, 1}}
    assert found_by(table, 100) == EVERY_WAY


def bare_fence(table: LanceDataset) -> Transaction:
    """The fence without the field list."""
    tx = fenced_append(table)
    assert isinstance(tx.operation, LanceOperation.Update)
    return dataclasses.replace(tx, operation=dataclasses.replace(tx.operation, fields_for_preserving_frag_bitmap=[]))


def test_without_stable_row_ids_the_fence_needs_no_field_list(tmp_path: Path) -> None:
    """We set the list all the same; this says that forgetting it would lose nothing on our tables."""
    table = library(tmp_path / "t")
    table = commit(table, bare_fence(table))
    assert covered(table) == {"id_idx": {0}, "text_idx": {0}, "vector_idx": {0}}
    assert found_by(table, 100) == EVERY_WAY
    table.optimize.optimize_indices()
    assert found_by(table, 100) == EVERY_WAY


def test_with_stable_row_ids_a_fence_without_field_list_hides_its_rows_for_ever(tmp_path: Path) -> None:
    """One more reason to create tables without stable row ids: text and vector search never see the row, folding does not mend it."""
    table = library(tmp_path / "t", stable_row_ids=True)
    table = commit(table, bare_fence(table))
    assert found_by(table, 100) == {"id"}
    table.optimize.optimize_indices()
    assert found_by(table, 100) == {"id"}


def test_an_updated_row_is_found_by_its_new_values_only(tmp_path: Path) -> None:
    """The old version of a row must not come back out of an index."""
    table = library(tmp_path / "t")
    changed = documents([100]).set_column(0, "id", pa.array(["d7"]))
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    table = commit(table, fence(table, merge.execute_uncommitted(changed)[0]))
    for _ in range(2):
        assert table.to_table(full_text_query=MatchQuery("word7", "text"), columns=["id", "_score"]).num_rows == 0
        assert table.to_table(full_text_query=MatchQuery("word100", "text"), columns=["id", "_score"])["id"].to_pylist() == ["d7"]
        assert table.to_table(filter="id = 'd7'").num_rows == 1
        table.optimize.optimize_indices()


def test_deleted_rows_are_found_by_no_index(tmp_path: Path) -> None:
    """Deletion vectors hold for searches, too."""
    table = library(tmp_path / "t")
    table.delete("id = 'd7'")
    assert found_by(table, 7) == set()


def tasks(table: LanceDataset) -> list[list[int]]:
    return [[fragment.id for fragment in task.fragments] for task in Compaction.plan(table, options={}).tasks]


def test_compaction_keeps_fragments_of_different_coverage_apart(tmp_path: Path) -> None:
    """Upkeep folds indexes before it compacts: small fragments join the rest only when the same segments cover them."""
    table = library(tmp_path / "t")
    for _ in range(2):
        table = commit(table, fenced_append(table))
    assert tasks(table) == [[1, 2]]
    table.optimize.optimize_indices()
    assert segments(table) == {"id_idx": [[0, 1, 2]], "text_idx": [[0, 1, 2]], "vector_idx": [[0], [1, 2]]}
    assert tasks(table) == [[1, 2]]
    table.optimize.optimize_indices(num_indices_to_merge=10)
    assert segments(table)["vector_idx"] == [[0, 1, 2]]
    assert tasks(table) == [[0, 1, 2]]


def test_search_finds_every_row_again_after_compaction(tmp_path: Path) -> None:
    """Indexes without stable row ids are remapped."""
    table = library(tmp_path / "t")
    table = commit(table, fenced_append(table))
    table.optimize.optimize_indices(num_indices_to_merge=10)
    table.optimize.compact_files()
    (fragment,) = table.get_fragments()
    assert covered(table) == {name: {fragment.fragment_id} for name in INDEXES}
    assert found_by(table, 100) == found_by(table, 7) == EVERY_WAY


# Searching


def test_text_search_that_names_its_column_needs_no_index(tmp_path: Path) -> None:
    """P-18: Text search that names its column needs no index."""
    table = library(tmp_path / "t", indexed=False)
    assert found_by(table, 7) == EVERY_WAY


def test_text_search_without_a_column_is_refused_when_there_is_no_index(tmp_path: Path) -> None:
    """P-18: hence our queries always name it."""
    with pytest.raises(ValueError):
        library(tmp_path / "t", indexed=False).to_table(full_text_query="word7")


def test_text_scores_are_the_same_with_no_index_and_with_a_full_one(tmp_path: Path) -> None:
    """Building an index may not re-rank what people see."""
    query = MatchQuery("common word7", "text")

    def scores(table: LanceDataset) -> dict[str, float]:
        answer = table.to_table(full_text_query=query, columns=["id", "_score"]).to_pydict()
        return dict(zip(answer["id"], answer["_score"], strict=True))

    plain, indexed = scores(library(tmp_path / "p", indexed=False)), scores(library(tmp_path / "i"))
    assert len(plain) == 64
    assert plain == pytest.approx(indexed)


@pytest.mark.parametrize(("indexed", "found"), [(False, 0), (True, 64)])
def test_without_an_index_the_words_of_a_query_are_not_stemmed(tmp_path: Path, indexed: bool, found: int) -> None:
    """A scan of Lance would find other rows than an index, so our scans analyse texts themselves."""
    table = library(tmp_path / "t", indexed=indexed)
    assert table.to_table(full_text_query=MatchQuery("commons", "text"), columns=["id", "_score"]).num_rows == found


def filtered(table: LanceDataset, search: dict[str, Any], **how: Any) -> int:
    found: int = table.to_table(filter="id = 'd7'", columns=["id"], disable_scoring_autoprojection=True, **search, **how).num_rows
    return found


def searches(table: LanceDataset) -> list[dict[str, Any]]:
    (vector,) = documents([8])["vector"].to_pylist()
    return [
        {"nearest": {"column": "vector", "q": vector, "k": 1}},
        {"full_text_query": MatchQuery("common word8", "text"), "limit": 1},
    ]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_filter_beside_a_search_is_applied_after_it_unless_told_otherwise(tmp_path: Path, indexed: bool) -> None:
    """prefilter is False by default, and then the best k are filtered to nothing: we always pass it."""
    table = library(tmp_path / "t", indexed=indexed)
    assert [filtered(table, search) for search in searches(table)] == [0, 0]
    assert [filtered(table, search, prefilter=True) for search in searches(table)] == [1, 1]


def test_vector_and_text_search_in_one_scan_are_refused(tmp_path: Path) -> None:
    """Hybrid ranking is fused by us."""
    table = library(tmp_path / "t", indexed=False)
    (vector,) = documents([8])["vector"].to_pylist()
    with pytest.raises(ValueError):
        table.to_table(nearest={"column": "vector", "q": vector, "k": 1}, full_text_query=MatchQuery("common", "text"))


def test_nearest_is_exact_without_an_index(tmp_path: Path) -> None:
    """`_distance` is the squared Euclidean distance by default, nearest first."""
    table = library(tmp_path / "t", indexed=False)
    vectors = np.array(documents(range(64))["vector"].to_pylist(), dtype=np.float32)
    answer = table.to_table(nearest={"column": "vector", "q": vectors[8], "k": 5}, columns=["id", "_distance"])
    squared = ((vectors - vectors[8]) ** 2).sum(axis=1)
    order = np.argsort(squared)[:5]
    assert answer["id"].to_pylist() == [f"d{i}" for i in order]
    assert answer["_distance"].to_pylist() == pytest.approx(squared[order].tolist(), rel=1e-5)


# -- what `ensure_indices` leans on


def scalar_quantised(table: LanceDataset, column: str = "vector") -> Index:
    everywhere = [fragment.fragment_id for fragment in table.get_fragments()]
    return table.create_index_uncommitted(column, "IVF_SQ", name="sq_idx", fragment_ids=everywhere, metric="cosine")


def test_what_indexes_a_table_has_and_what_they_cover_costs_no_read(tmp_path: Path) -> None:
    table = library(tmp_path)
    appended = LanceDataset.commit(table, fence(table, write_fragments(documents([100]), table, return_transaction=True)), max_retries=0)
    fresh = lance.dataset(appended.uri, version=appended.version)
    fresh.io_stats_incremental()
    described = {index.name: (index.index_type, index.field_names, index.num_rows_indexed) for index in fresh.describe_indices()}
    assert described == {
        "id_idx": ("BTree", ["id"], 64),
        "text_idx": ("Inverted", ["text"], 64),
        "vector_idx": ("IVF_PQ", ["vector"], 64),
    }
    assert fresh.io_stats_incremental().read_iops == 0


def test_a_staged_index_passes_over_a_data_commit_and_never_over_a_restore(tmp_path: Path) -> None:
    table = library(tmp_path / "passes", indexed=False)
    staged = LanceOperation.CreateIndex([staged_index(table, "id_idx", [0])], [])
    commit(table, fence(table, write_fragments(documents([100]), table, return_transaction=True)))
    late = LanceDataset.commit(table, staged, read_version=table.version, max_retries=0)
    assert late.version == table.version + 2
    assert "id" in found_by(late, 100)
    table = library(tmp_path / "refused", indexed=False)
    staged = LanceOperation.CreateIndex([staged_index(table, "id_idx", [0])], [])
    LanceDataset.commit(table, LanceOperation.Restore(table.version), read_version=table.version, max_retries=0)
    with pytest.raises(OSError):
        LanceDataset.commit(table, staged, read_version=table.version, max_retries=0)


def test_a_new_index_takes_the_place_of_segments_that_are_named_as_removed(tmp_path: Path) -> None:
    table = library(tmp_path)
    table = LanceDataset.commit(table, fence(table, write_fragments(documents([100]), table, return_transaction=True)), max_retries=0)
    (old,) = [index for index in table.describe_indices() if index.name == "id_idx"]
    (part,) = old.segments
    gone = Index(part.uuid, old.name, list(old.fields), part.dataset_version_at_last_update, part.fragment_ids, part.index_version)
    new = table.create_index_uncommitted("id", "BTREE", name="id_idx", replace=True, fragment_ids=[0, 1])
    after = LanceDataset.commit(table, LanceOperation.CreateIndex([new], [gone]), read_version=table.version, max_retries=0)
    replaced = {index.name: ([segment.uuid for segment in index.segments], index.num_rows_indexed) for index in after.describe_indices()}
    assert replaced["id_idx"] == ([new.uuid], 65)
    assert replaced["text_idx"][1] == 64
    assert found_by(after, 100) == found_by(after, 3) == EVERY_WAY


def test_a_vector_index_with_nothing_to_learn_from_is_a_runtime_error(tmp_path: Path) -> None:
    nowhere = documents(range(64)).set_column(2, "vector", pa.nulls(64, DOCS.field("vector").type))
    with pytest.raises(RuntimeError, match="KMeans cannot train"):
        scalar_quantised(lance.write_dataset(nowhere, str(tmp_path)))


@pytest.mark.parametrize("dimension", [1, 3, 7])
def test_scalar_quantisation_takes_any_dimension(tmp_path: Path, dimension: int) -> None:
    numbers = np.random.default_rng(0).normal(size=300 * dimension).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), dimension)
    table = lance.write_dataset(pa.table({"id": range(300), "vector": vectors}), str(tmp_path))
    indexed = LanceDataset.commit(
        table, LanceOperation.CreateIndex([scalar_quantised(table)], []), read_version=table.version, max_retries=0
    )
    nearest = {"column": "vector", "q": numbers[:dimension], "k": 3, "refine_factor": 10, "metric": "cosine"}
    assert indexed.to_table(columns=["id", "_distance"], nearest=nearest)["_distance"][0].as_py() < 1e-3
