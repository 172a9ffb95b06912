"""Tables, staged transactions and the fence for the substrate guards: real pylance in a temporary folder, nothing of ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, LanceFragment, write_fragments
from lance.schema import LanceSchema

from tests.forks import NURSERY

KEY = b"lance-schema:unenforced-primary-key"
PLAIN = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int32())])
KEYED = pa.schema([pa.field("id", pa.string(), nullable=False, metadata={KEY: b"true"}), pa.field("n", pa.int32())])


def rows(*ids: str, n: int = 0, schema: pa.Schema = PLAIN) -> pa.Table:
    """One row per id, all with the same `n`."""
    return pa.table({"id": pa.array(ids, pa.string()), "n": pa.array([n] * len(ids), pa.int32())}, schema=schema)


def born(path: Path, *ids: str, schema: pa.Schema = PLAIN, fragments: int = 1) -> LanceDataset:
    """A new table at version 1, made the way the product makes one; the ids are dealt evenly over the fragments."""
    uri = str(path)
    size = max(1, -(-len(ids) // fragments))
    parts = [LanceFragment.create(uri, rows(*ids[i : i + size], schema=schema)) for i in range(0, len(ids), size)]
    return LanceDataset.commit(uri, LanceOperation.Overwrite(schema, parts), max_retries=0)


def ids(ds: LanceDataset) -> list[str]:
    return sorted(ds.to_table(columns=["id"])["id"].to_pylist())


def content(ds: LanceDataset) -> dict[str, int]:
    return dict(zip(*ds.to_table(columns=["id", "n"]).to_pydict().values(), strict=True))


def transaction_of(ds: LanceDataset, version: int) -> Transaction:
    """The transaction that made a version."""
    found = ds.read_transaction(version)
    assert found is not None
    return found


def fragment_of(ds: LanceDataset, number: int) -> LanceFragment:
    found = ds.get_fragment(number)
    assert found is not None
    return found


def schema_parts(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], tuple[Any, ...]]:
    """What builds a schema, and what it is built from: metadata, then one entry a field."""
    build, arguments = cast("tuple[Callable[..., LanceSchema], tuple[Any, ...]]", schema.__reduce__())
    return build, arguments


def append(ds: LanceDataset, *new: str, n: int = 0) -> Transaction:
    """Stage an append; nothing is committed."""
    return write_fragments(rows(*new, n=n, schema=ds.schema), ds, return_transaction=True)


def upsert(ds: LanceDataset, *keys: str, n: int = 0) -> Transaction:
    """Stage a keyed merge; nothing is committed."""
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute_uncommitted(rows(*keys, n=n, schema=ds.schema))[0]


def delete(ds: LanceDataset, predicate: str) -> Transaction:
    """Stage a delete; nothing is committed."""
    updated, removed = [], []
    for fragment in ds.get_fragments():
        after = fragment.delete(predicate)
        if after is None:
            removed.append(fragment.fragment_id)
        elif after != fragment.metadata:
            updated.append(after)
    return Transaction(ds.version, LanceOperation.Delete(updated, removed, predicate))


def overwrite(ds: LanceDataset, *new: str) -> Transaction:
    """Stage a replacement of the whole table; nothing is committed."""
    return write_fragments(rows(*new, schema=ds.schema), ds, mode="overwrite", return_transaction=True)


def inline_upsert(ds: LanceDataset, *keys: str, n: int, retries: int | None = 0, use_index: bool | None = False) -> None:
    """Merge and commit in one call, as a keyed publish would; `None` leaves pylance's default."""
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    if retries is not None:
        merge = merge.conflict_retries(retries)
    if use_index is not None:
        merge = merge.use_index(use_index)
    merge.execute(rows(*keys, n=n, schema=ds.schema))


def commit(ds: LanceDataset, tx: Transaction, *, max_retries: int = 0) -> LanceDataset:
    return LanceDataset.commit(ds, tx, max_retries=max_retries)


def fence(base: LanceDataset, tx: Transaction) -> Transaction:
    """The recipe under guard: name fragment 0 of the base as updated, so that any two fenced transactions from one base conflict."""
    op, fragments = tx.operation, base.get_fragments()
    if isinstance(op, LanceOperation.Overwrite):
        return tx
    assert isinstance(op, LanceOperation.Append | LanceOperation.Update | LanceOperation.Delete)
    if not fragments:
        assert not isinstance(op, LanceOperation.Delete), "there is nothing to delete"
        new = op.fragments if isinstance(op, LanceOperation.Append) else op.new_fragments or []
        return dataclasses.replace(tx, operation=LanceOperation.Merge(list(new), base.lance_schema))
    first = fragments[0].metadata
    if isinstance(op, LanceOperation.Append):
        every = [field.id() for field in base.lance_schema.fields()]
        op = LanceOperation.Update(
            updated_fragments=[first],
            new_fragments=list(op.fragments),
            update_mode="rewrite_rows",
            fields_for_preserving_frag_bitmap=every,
        )
    else:
        gone = op.removed_fragment_ids if isinstance(op, LanceOperation.Update) else op.deleted_fragment_ids
        if first.id not in gone and all(fragment.id != first.id for fragment in op.updated_fragments):
            op = dataclasses.replace(op, updated_fragments=[*op.updated_fragments, first])
    return dataclasses.replace(tx, operation=op)


def swap(ds: LanceDataset, *, out: Sequence[int], parts: Sequence[FragmentMetadata]) -> Transaction:
    """Replace whole fragments by others."""
    return Transaction(ds.version, LanceOperation.Update(removed_fragment_ids=list(out), new_fragments=list(parts)))


def part(ds_or_uri: LanceDataset | str, *new: str, n: int = 0) -> FragmentMetadata:
    """Data files of one new fragment, written and not committed."""
    uri = ds_or_uri if isinstance(ds_or_uri, str) else ds_or_uri.uri
    return LanceFragment.create(uri, rows(*new, n=n))


def in_processes(work: Callable[..., Any], *argument_lists: tuple[Any, ...]) -> list[Any]:
    """Run `work(barrier, *arguments)` once per list, each in a process of its own, and give back what they return."""
    barrier = NURSERY.Barrier(len(argument_lists), timeout=30)  # a child that dies before it breaks the others' wait, too
    pipes = [NURSERY.Pipe(duplex=False) for _ in argument_lists]
    children = [
        NURSERY.Process(target=_report, args=(sender, work, barrier, arguments))
        for (_, sender), arguments in zip(pipes, argument_lists, strict=True)
    ]
    for child, (_, sender) in zip(children, pipes, strict=True):
        child.start()
        sender.close()
    answers = [receiver.recv() for receiver, _ in pipes]  # EOFError if a child died: that is a failure, too
    for child in children:
        child.join()
    return answers


def _report(sender: Any, work: Callable[..., Any], barrier: Any, arguments: tuple[Any, ...]) -> None:
    sender.send(work(barrier, *arguments))


# What these processes run: at module level, so that they can be found by name.


def append_in_turn(barrier: Any, uri: str, me: str, count: int) -> list[int]:
    """Plain appends with default retries; gives back the versions reached."""
    barrier.wait()
    return [LanceDataset.commit(uri, append(lance.dataset(uri), f"{me}{i}")).version for i in range(count)]


def append_fenced(barrier: Any, uri: str, me: str, count: int) -> tuple[list[tuple[int, int]], int, int]:
    """Fenced appends and upserts, again until each lands; gives (base, result) pairs, retryable losses and other losses."""
    barrier.wait()
    landed: list[tuple[int, int]] = []
    retryable = other = 0
    while len(landed) < count:
        base = lance.dataset(uri)
        key = f"{me}{len(landed)}"
        tx = append(base, key) if len(landed) % 2 else upsert(base, key)
        try:
            landed.append((base.version, commit(base, fence(base, tx)).version))
        except CommitConflictError as lost:
            retryable, other = retryable + lost.retryable, other + (not lost.retryable)
    return landed, retryable, other


def create_each(barrier: Any, uris: Sequence[str], me: str) -> list[str]:
    """Race to create every table in turn; gives back what came of each: 'won' or the name of the error."""
    return list(_create_each(barrier, uris, me))


def _create_each(barrier: Any, uris: Sequence[str], me: str) -> Iterator[str]:
    for uri in uris:
        operation = LanceOperation.Overwrite(PLAIN, [LanceFragment.create(uri, rows(me))])
        barrier.wait()
        try:
            LanceDataset.commit(uri, operation, max_retries=0)
            yield "won"
        except OSError as lost:
            yield type(lost).__name__


def swap_in_turn(barrier: Any, uri: str, me: str, count: int) -> list[tuple[int, int]]:
    """Replace the newest fragment, again until each swap lands; gives (base, result) pairs."""
    barrier.wait()
    landed: list[tuple[int, int]] = []
    while len(landed) < count:
        base = lance.dataset(uri)
        newest = base.get_fragments()[-1]
        names = [*newest.to_table()["id"].to_pylist(), f"{me}{len(landed)}"]
        try:
            landed.append((base.version, commit(base, swap(base, out=[newest.fragment_id], parts=[part(base, *names)])).version))
        except CommitConflictError:
            continue
    return landed


def append_once(barrier: Any, uri: str) -> int:
    barrier.wait()
    return LanceDataset.commit(uri, append(lance.dataset(uri), "elsewhere")).version
