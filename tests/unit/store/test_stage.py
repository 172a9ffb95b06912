"""Staging writes files and moves nothing; `commit` moves HEAD by exactly one, and of two changes from one base one lands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.store import index, stage
from omnigraph.store.index import IndexSpec, LanceIndexKind
from omnigraph.store.refs import create_ref, fresh_ref
from omnigraph.store.stage import IN_LIST, Counts
from omnigraph.store.tables import Table, create_table
from tests.samples import sample
from tests.unit.store.tables import (
    CHANGES,
    FOUR,
    PATH,
    SCHEMA,
    SHAPES,
    added,
    branched,
    compacted,
    content,
    empty,
    first_gone,
    place,
    reopened,
    rows,
    some,
    two_fragments,
    with_deletions,
)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def data_files(folder: Path) -> set[str]:
    """Everything that holds rows, deletions or versions: transaction files and the version hint mean nothing by themselves."""
    return {name for name in files_below(folder) if name.endswith((".lance", ".arrow", ".bin", ".manifest"))}


# -- what each kind does


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_staged_change_moves_nothing_and_its_commit_does_exactly_what_was_counted(tmp_path: Path, kind: str, shape: str) -> None:
    """W-08: Staging moves no HEAD; the commit has exactly the effect that was counted.

    INV-6, W-09, W-17, W-24, W-31: any kind on any table; what has no effect is not staged at all.
    """
    base = SHAPES[shape](place(tmp_path))
    before = content(base)
    assert before == ({} if shape in ("empty", "emptied") else FOUR)
    change = CHANGES[kind]
    mine = str(uuid4())
    staged = change.stage(base)
    assert base.head() == base.ref.version
    assert content(base) == before
    if staged is None:
        assert change.after(before) == before
        return
    assert staged.counts == change.counts(before)
    staged = some(_with_uuid(kind, base, mine))
    after = stage.commit(staged)
    assert (after.ref.version, after.head(), staged.uuid) == (base.ref.version + 1, base.ref.version + 1, mine)
    assert after.dataset.read_transaction(after.ref.version).uuid == mine
    assert content(after) == change.after(before)
    assert after.count() == len(change.after(before))
    assert content(reopened(after, after.ref.version)) == change.after(before)
    assert content(base) == before  # the handle it was staged on does not move
    assert content(reopened(base, base.ref.version)) == before
    # and the table is as fit for the next change as it was for this one
    again = stage.commit(some(stage.upsert(after, rows({"a": 70, "new": 71}, after.schema))))
    assert content(again) == {**change.after(before), "a": 70, "new": 71}


def _with_uuid(kind: str, table: Table, uuid: str) -> stage.Staged | None:
    change = CHANGES[kind]
    new, keys = rows(change.put, table.schema), pa.array(sorted(change.drop), pa.string())
    match kind:
        case "append":
            return stage.append(table, new, uuid=uuid)
        case "insert" | "update" | "upsert":
            return stage.upsert(table, new, uuid=uuid)
        case "delete_keys" | "delete_all":
            return stage.delete_keys(table, keys, uuid=uuid)
        case "overwrite" | "overwrite_empty":
            return stage.overwrite(table, new, uuid=uuid)
        case _:
            raise AssertionError(f"{kind} is not covered here")


@pytest.mark.parametrize("shape", SHAPES)
def test_every_file_a_staged_change_names_is_there_before_its_commit(tmp_path: Path, shape: str) -> None:
    """Durability rests on these names: after the commit nothing else may hold rows or deletions of the new version."""
    root = place(tmp_path)
    base = SHAPES[shape](root)
    home = Path(root.uri, base.ref.home)
    before = data_files(home)
    for kind, change in CHANGES.items():
        staged = change.stage(base)
        new = data_files(home) - before
        named = staged.files if staged else ()
        assert {file.path.removeprefix(f"{base.ref.home}/") for file in named} == new, kind
        assert all(file.size in (None, (Path(root.uri) / file.path).stat().st_size) for file in named), kind
        before |= new


def test_an_empty_change_stages_nothing_and_writes_nothing(tmp_path: Path) -> None:
    """W-17, W-24: no rows, no matches, no keys, no files."""
    root = place(tmp_path)
    table = two_fragments(root)
    before = files_below(tmp_path)
    none, nobody = rows({}), pa.array([], pa.string())
    assert stage.append(table, none) is None
    assert stage.put_files(table, []) is None
    assert stage.upsert(table, none) is None
    assert stage.delete_keys(table, pa.array(["nobody"])) is None
    assert stage.delete_keys(table, nobody) is None
    assert index.build(table, []) is None
    assert files_below(tmp_path) == before
    assert table.head() == table.ref.version


@pytest.mark.parametrize("extra", [-1, 0, 1], ids=["fewer", "exactly", "more"])
def test_many_keys_are_looked_up_by_a_pass_over_the_table_with_the_same_result(tmp_path: Path, extra: int) -> None:
    """The two ways to find rows by key agree on either side of IN_LIST, deletions included."""
    many = IN_LIST + extra
    table = added(with_deletions(place(tmp_path)), {f"k{i}": i for i in range(many + 500)})
    keys = pa.array([f"k{i}" for i in range(many)])
    staged = some(stage.delete_keys(table, keys))
    assert staged.counts == Counts(deleted=many)
    there = create_ref(table, "there")
    staged = some(stage.delete_keys(there, keys))
    assert content(stage.commit(staged)) == {**FOUR, **{f"k{i}": i for i in range(many, many + 500)}}


@pytest.mark.parametrize("extra", [-1, 0, 1], ids=["fewer", "exactly", "more"])
def test_an_upsert_of_many_rows_does_what_one_of_few_does(tmp_path: Path, extra: int) -> None:
    """Keys are looked up, or merged by Lance: both replace what is there, add what is not, and count the same."""
    many = IN_LIST + extra
    table = added(with_deletions(place(tmp_path)), {f"k{i}": i for i in range(many)})
    renewed = {f"k{i}": -i for i in range(500, many + 500)}
    staged = some(stage.upsert(table, rows(renewed)))
    assert staged.counts == Counts(inserted=500, updated=many - 500)
    assert content(stage.commit(staged)) == {**FOUR, **{f"k{i}": i for i in range(500)}, **renewed}


def test_a_small_upsert_writes_one_file_also_when_it_takes_small_fragments_along(tmp_path: Path) -> None:
    table = empty(place(tmp_path))
    for n in range(12):
        staged = some(stage.upsert(table, rows({f"k{n}": n})))
        assert len(staged.transaction.operation.new_fragments) == 1
        table = stage.commit(staged)
    assert content(table) == {f"k{n}": n for n in range(12)}
    assert len(table.dataset.get_fragments()) < 6


def test_a_filter_leaves_out_rows_for_which_it_is_unknown(tmp_path: Path) -> None:
    """A null is neither less nor not less."""
    table = empty(place(tmp_path))
    nothing_known = pa.table({"id": ["u"], "n": [None], "nickName": [None], "tags": [None]}, schema=SCHEMA)
    table = stage.commit(some(stage.append(table, pa.concat_tables([rows(FOUR), nothing_known]))))
    assert len(table.addresses("n < 3")) == 2
    assert len(table.addresses("NOT (n < 3)")) == 2
    assert len(table.addresses("(n < 3) IS NOT TRUE")) == 3


def test_camel_case_columns_keep_their_case_in_filters(tmp_path: Path) -> None:
    """W-46: identifiers are never folded."""
    table = two_fragments(place(tmp_path))
    assert len(table.addresses("nickName = 'a-1'")) == 1


def test_keys_may_hold_quotes_and_any_letter(tmp_path: Path) -> None:
    odd = {"it's": 1, 'say "x"': 2, "%": 3, "_": 4, "ü\u2028\U0001f600": 5, "": 6, "a\\b": 7, "null": 8}
    table = added(empty(place(tmp_path)), {**odd, "plain": 9})
    table = stage.commit(some(stage.upsert(table, rows({key: -n for key, n in odd.items()}))))
    assert content(table) == {**{key: -n for key, n in odd.items()}, "plain": 9}
    staged = some(stage.delete_keys(table, pa.array(list(odd))))
    assert staged.counts == Counts(deleted=len(odd))
    assert content(stage.commit(staged)) == {"plain": 9}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_keys_may_come_in_any_text_type(tmp_path: Path, kind: pa.DataType) -> None:
    """Lance looks up only the type it stores."""
    table = two_fragments(place(tmp_path))
    keys = pa.array(["a", "nobody"]).cast(kind)
    assert some(stage.delete_keys(table, keys)).counts == Counts(deleted=1)
    typed = rows({"b": 5}).set_column(0, "id", pa.array(["b"]).cast(kind))
    assert content(stage.commit(some(stage.upsert(table, typed)))) == {**FOUR, "b": 5}


def test_a_null_among_the_keys_to_delete_deletes_nothing(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    assert some(stage.delete_keys(table, pa.array(["a", None]))).counts == Counts(deleted=1)
    assert stage.delete_keys(table, pa.array([None, None])) is None
    assert stage.delete_keys(table, pa.array([])) is None
    assert stage.delete_keys(table, pa.array([None] * (IN_LIST + 1), pa.string())) is None


def test_several_files_at_once_become_several_fragments_of_an_empty_table(tmp_path: Path) -> None:
    """A large load is written as several fragments, and the first one into a table goes another way."""
    table = empty(place(tmp_path))
    parts = lance.fragment.write_fragments(rows(FOUR), table.dataset, max_rows_per_file=2)
    assert len(parts) == 2
    staged = some(stage.put_files(table, parts))
    assert staged.counts == Counts(inserted=4)
    table = stage.commit(staged)
    assert [fragment.fragment_id for fragment in table.dataset.get_fragments()] == [0, 1]
    assert content(table) == FOUR


def test_an_overwrite_keeps_the_columns_and_their_field_ids(tmp_path: Path) -> None:
    """Files written for the table before it must still fit it, and its columns keep their marks."""
    table = two_fragments(place(tmp_path))
    before = [field.id() for field in table.dataset.lance_schema.fields()]
    moved = stage.commit(stage.overwrite(table, rows({"a": 1})))
    assert [field.id() for field in moved.dataset.lance_schema.fields()] == before
    assert moved.schema.equals(table.schema, check_metadata=True)
    with pytest.raises(InvalidInput):
        stage.overwrite(moved, pa.table({"id": ["a"], "score": [0.5]}))


def test_files_replace_the_rows_of_the_ids_they_bring(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    held = sorted(table.scan(["id"]).read_all()["id"].to_pylist())
    files = stage.write_files(table, rows({held[0]: 77, "new": 78}))
    staged = some(stage.put_files(table, files, replaced=stage.HeldKeys(pa.array([held[0], "new"]))))
    assert (staged.counts.inserted, staged.counts.updated) == (1, 1)
    shown = {row["id"]: row["n"] for row in stage.commit(staged).scan().read_all().to_pylist()}
    assert (shown[held[0]], shown["new"], sorted(shown)) == (77, 78, sorted([*held, "new"]))


def test_the_table_stays_as_it_was_made_through_every_kind(tmp_path: Path) -> None:
    """W-51: A table's file format, key and settings never change: no stable row ids, no automatic clean-up."""
    for kind, change in CHANGES.items():
        table = two_fragments(place(tmp_path / kind))
        dataset = stage.commit(some(change.stage(table))).dataset
        keys = [field.name for field in dataset.schema if (field.metadata or {}).get(b"lance-schema:unenforced-primary-key")]
        assert (keys, dataset.has_stable_row_ids, dataset.data_storage_version) == (["id"], False, "2.2"), kind
        assert not [name for name in dataset.config() if "cleanup" in name], kind


# -- input that cannot be taken


BAD_ROWS = {
    "a key twice": rows({"a": 1}).take([0, 0]),
    "a null key": rows({"a": 1}).set_column(0, "id", pa.array([None], pa.string())),
    "a missing column": rows({"a": 1}).drop_columns(["nickName"]),
    "no key column": rows({"a": 1}).drop_columns(["id"]),
    "a column twice": rows({"a": 1}).append_column("n", pa.array([2], pa.int32())),
    "text for a number": rows({"a": 1}).set_column(1, "n", pa.array(["one"])),
    "a number too large": rows({"a": 1}).set_column(1, "n", pa.array([2**40])),
    "half a number": rows({"a": 1}).set_column(1, "n", pa.array([0.5])),
    "a list for a text": rows({"a": 1}).set_column(2, "nickName", pa.array([["a"]])),
}


@pytest.mark.parametrize("what", BAD_ROWS)
@pytest.mark.parametrize("shape", ["empty", "two_fragments", "branched"])
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path, shape: str, what: str) -> None:
    """W-32: Null keys and keys that stand twice in one input are refused before anything is written."""
    table = SHAPES[shape](place(tmp_path))
    before = files_below(tmp_path)
    bad = BAD_ROWS[what]
    keyed: list[Callable[..., object]] = [stage.append, stage.upsert]
    for attempt in keyed if "key" not in what or "column" in what else [*keyed, stage.overwrite]:
        with pytest.raises(InvalidInput) as refused:
            attempt(table, bad)
        assert refused.value.kind is Kind.INVALID_ARGUMENT
    assert files_below(tmp_path) == before


def test_a_repeated_key_is_named(tmp_path: Path) -> None:
    table = empty(place(tmp_path))
    with pytest.raises(InvalidInput) as refused:
        stage.append(table, rows({"a": 1, "b": 2}).take([0, 1, 1]))
    assert refused.value.facts["id"] == "b"


def test_numbers_are_no_keys(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    with pytest.raises(InvalidInput):
        stage.delete_keys(table, pa.array([[1]]))


def test_an_overwrite_without_a_key_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        stage.overwrite(two_fragments(place(tmp_path)), pa.table({"n": [1]}))


def test_a_null_in_a_column_that_takes_none_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("must", pa.int32(), nullable=False)])
    table = create_table(place(tmp_path), PATH, schema)
    with pytest.raises(InvalidInput):
        stage.append(table, pa.table({"id": ["a"], "must": pa.array([None], pa.int32())}))


def test_a_wrong_filter_is_an_error_of_ours(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    with pytest.raises(StorageError):
        table.addresses("noSuchColumn = 1")


# -- two changes from one base


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("winner", CHANGES)
def test_any_two_changes_from_one_base_collide_whatever_their_kinds(tmp_path: Path, winner: str, shape: str) -> None:
    """P-05, P-06, P-07, P-08: all kinds are staged on one base, one is committed, every other one is refused."""
    base = SHAPES[shape](place(tmp_path))
    before = content(base)
    first, *others = [CHANGES[kind].stage(base) for kind in (winner, *CHANGES)]
    if first is None:
        assert before == {}
        return
    after = stage.commit(first)
    for loser in others:
        if loser is None:
            continue
        with pytest.raises(ConflictError) as lost:
            stage.commit(loser)
        assert lost.value.kind is Kind.VERSION_MISMATCH
        assert lost.value.facts == {"table": PATH, "expected": base.ref.version}
    assert base.head() == base.ref.version + 1
    assert content(reopened(base, base.head())) == content(after) == CHANGES[winner].after(before)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_several_versions_stale_is_refused(tmp_path: Path, kind: str) -> None:
    base = two_fragments(place(tmp_path))
    stale = some(CHANGES[kind].stage(base))
    newest = added(added(base, {"p": 1}), {"q": 2})
    with pytest.raises(ConflictError):
        stage.commit(stale)
    assert base.head() == newest.ref.version
    assert content(newest) == {**FOUR, "p": 1, "q": 2}


def test_a_change_may_be_committed_only_once(tmp_path: Path) -> None:
    """Lance itself would add the rows of one transaction twice."""
    base = two_fragments(place(tmp_path))
    staged = some(stage.append(base, rows({"x": 1})))
    after = stage.commit(staged)
    with pytest.raises(ConflictError):
        stage.commit(staged)
    assert content(reopened(base, base.head())) == content(after) == {**FOUR, "x": 1}


def test_changes_of_two_branches_do_not_collide(tmp_path: Path) -> None:
    root = place(tmp_path)
    side = branched(root)
    main = reopened(Table(root, side.ref.__class__(PATH, None, side.ref.version), side.dataset), side.ref.version)
    on_main, on_side = some(stage.append(main, rows({"x": 1}))), some(stage.append(side, rows({"x": 2})))
    assert content(stage.commit(on_main)) == {**FOUR, "x": 1}
    assert content(stage.commit(on_side)) == {**FOUR, "x": 2}


def test_a_restored_table_refuses_what_was_staged_before_the_restore(tmp_path: Path) -> None:
    """Recovery restores every table a sidecar names, so that a paused writer's commit fails."""
    base = two_fragments(place(tmp_path))
    paused = {kind: some(change.stage(base)) for kind, change in CHANGES.items()}
    reopened(base, base.ref.version).dataset.restore()
    for staged in paused.values():
        with pytest.raises(ConflictError):
            stage.commit(staged)
    assert base.head() == base.ref.version + 1
    assert content(reopened(base, base.head())) == FOUR


def test_an_index_built_around_the_graph_is_found_out(tmp_path: Path) -> None:
    """The fence does not stop an index: the change lands one version too late, HEAD has moved, and that is said (DRIFT).

    What it leaves: both changes are in the table, two versions past the base, under our uuid; the caller must not publish.
    """
    base = two_fragments(place(tmp_path))
    staged = some(stage.append(base, rows({"x": 1})))
    stage.commit(some(index.build(base, [IndexSpec("n", LanceIndexKind.BTREE, "n_idx")])))
    with pytest.raises(OmniGraphError) as found:
        stage.commit(staged)
    assert found.value.kind is Kind.DRIFT
    assert not isinstance(found.value, ConflictError)
    assert (found.value.facts["expected"], found.value.facts["actual"]) == (base.ref.version + 1, base.ref.version + 2)
    newest = reopened(base, base.head())
    assert newest.ref.version == base.ref.version + 2
    assert newest.dataset.read_transaction(newest.ref.version).uuid == staged.uuid == found.value.facts["uuid"]
    assert content(newest) == {**FOUR, "x": 1}


def test_a_compaction_that_leaves_the_first_fragment_alone_is_found_out(tmp_path: Path) -> None:
    base = empty(place(tmp_path))
    base = added(base, {f"k{i}": i for i in range(40)})
    base = added(added(base, {"p": 1}), {"q": 2})
    staged = some(stage.append(base, rows({"x": 1})))
    assert len(compacted(base, target_rows=30).dataset.get_fragments()) == 2
    with pytest.raises(OmniGraphError) as found:
        stage.commit(staged)
    assert found.value.kind is Kind.DRIFT


def test_a_compaction_of_the_first_fragment_refuses_what_was_staged_before(tmp_path: Path) -> None:
    base = two_fragments(place(tmp_path))
    paused = {kind: some(change.stage(base)) for kind, change in CHANGES.items()}
    after = compacted(base)
    for staged in paused.values():
        with pytest.raises(ConflictError):
            stage.commit(staged)
    assert base.head() == after.ref.version
    assert content(after) == FOUR


@pytest.mark.parametrize(("point", "moves"), [(Fault.STAGE_BEFORE_COMMIT, 0), (Fault.STAGE_AFTER_COMMIT, 1)])
def test_a_crash_around_a_commit_leaves_all_of_it_or_nothing(tmp_path: Path, point: Fault, moves: int) -> None:
    """W-02: the row is either fully old or fully new."""
    table = two_fragments(place(tmp_path))
    staged = some(stage.upsert(table, rows({"a": 9})))
    with armed(point), pytest.raises(SimulatedCrash):
        stage.commit(staged)
    assert table.head() == table.ref.version + moves
    assert content(reopened(table, table.head())) == {**FOUR, "a": 9 if moves else 1}


# -- the same, as a law


KEYS = st.sampled_from("abcdef")
VALUES = st.dictionaries(KEYS, st.integers(-99, 99), max_size=4)
STEPS: st.SearchStrategy[tuple[str, dict[str, int], frozenset[str]]] = st.one_of(
    st.tuples(st.sampled_from(["append", "upsert", "overwrite"]), VALUES, st.just(frozenset())),
    st.tuples(st.just("delete"), st.just({}), st.frozensets(KEYS)),
    st.tuples(st.sampled_from(["index", "compact", "fold", "fork"]), st.just({}), st.just(frozenset())),
)


@settings(max_examples=sample(40, whole=400), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=9))
def test_a_table_equals_a_dict_after_every_commit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, dict[str, int], frozenset[str]]]
) -> None:
    """W-30: A table equals a dict after any sequence of changes, with indexes, compactions and forks in between.

    Also W-29.
    """
    table = empty(place(tmp_path_factory.mktemp("law")))
    model: dict[str, int] = {}
    for kind, values, keys in steps:
        base = table.ref.version
        match kind:
            case "append":
                values = {key: n for key, n in values.items() if key not in model}
                staged, model = stage.append(table, rows(values)), {**model, **values}
            case "upsert":
                staged, model = stage.upsert(table, rows(values)), {**model, **values}
            case "overwrite":
                staged, model = stage.overwrite(table, rows(values)), dict(values)
            case "delete":
                staged = stage.delete_keys(table, pa.array(sorted(keys), pa.string()))
                model = {key: n for key, n in model.items() if key not in keys}
            case "index":
                specs = [IndexSpec("id", LanceIndexKind.BTREE, "id_idx"), IndexSpec("n", LanceIndexKind.BTREE, "n_idx")]
                staged = index.build(table, specs) if not index.existing(table) else None
            case "fork":
                table, staged = create_ref(table, fresh_ref("law")), None
            case "compact":
                table, staged = compacted(table), None
            case _:
                by_hand = lance.dataset(table.root.of(table.ref.home))
                by_hand.optimize.optimize_indices()
                table, staged = reopened(table, by_hand.version), None
        if staged is not None:
            table = stage.commit(staged)
            assert table.ref.version == base + 1
        assert content(table) == model
        for key in "abcdef":
            assert table.count(f"id = '{key}'") == (key in model)
        assert table.count("n > 0") == sum(n > 0 for n in model.values())


def test_staging_on_a_table_without_its_first_fragment_names_the_next_one(tmp_path: Path) -> None:
    base = first_gone(place(tmp_path))
    fenced = stage.fence(base, some(stage.append(base, rows({"x": 1}))).transaction)
    assert [fragment.id for fragment in fenced.operation.updated_fragments] == [1]
