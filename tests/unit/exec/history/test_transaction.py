"""Transactions: many statements on a private branch become one commit when the block ends, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, StorageError, Unsupported
from omnigraph.exec.history import squash
from omnigraph.exec.history.conflicts import ConflictKind
from omnigraph.exec.write import protocol
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.registry import all_branches
from omnigraph.transaction import Transaction
from tests.mutations import run

NAMES = "match { $p: Person } return { $p.name as name } order { name }"


def content(graph: Graph, branch: str = "main") -> list[str]:
    return list(graph.export(branch))


def names(reader: Graph | Transaction, **options: Any) -> list[str]:
    return [row["name"] for row in reader.query(NAMES, **options).rows]


def do(transaction: Transaction, text: str) -> og.Receipt:
    return transaction.mutate(f"query q() {{ {text} }}")


def block(transaction: Transaction, *steps: str | Callable[[], object]) -> None:
    """One block of statements, and of what others do meanwhile."""
    with transaction:
        for step in steps:
            _ = do(transaction, step) if isinstance(step, str) else step()


def state(graph: Graph) -> tuple[list[str], str, list[str]]:
    """What must not change if nothing lands: the rows, the newest commit and all branches, private ones too."""
    return content(graph), graph.commits()[0].id, list(all_branches(graph.engine.root.objects))


def test_all_statements_are_one_commit(graph: Graph) -> None:
    """L2-24: What needs inserts and deletes in one commit uses a transaction."""
    head, count = graph.commits()[0].id, len(graph.commits())
    with graph.transaction(message="a new team", actor="act-lead") as transaction:
        assert transaction.receipt is None
        done = do(transaction, 'insert Person { name: "Eve" } insert Person { name: "Fay" }')
        assert (done.affected_nodes, done.commit) == (2, None)
        do(transaction, 'update Person set { age: 7 } where name = "Dan"')
        loaded = transaction.load([{"type": "Person", "data": {"name": "Gil"}}])
        assert (loaded.branch, loaded.total, loaded.commit) == ("main", 1, None)
        do(transaction, 'delete Person where name = "Fay"')
        do(transaction, 'delete Person where name = "Bob"')  # with an edge
    receipt = transaction.receipt
    assert receipt is not None
    assert (receipt.inserted, receipt.updated, receipt.deleted) == (2, 1, 2)
    commit = receipt.commit
    assert commit is not None
    assert (commit.kind, commit.parents, commit.message, commit.actor) == (CommitKind.TRANSACTION, (head,), "a new team", "act-lead")
    assert [one.id for one in graph.commits()][:2] == [commit.id, head]
    assert len(graph.commits()) == count + 1
    assert len(list(graph.commit_changes(commit.id))) == 5
    assert all_branches(graph.engine.root.objects) == []
    assert graph.verify() == []


def test_reads_inside_see_the_changes_and_others_do_not(graph: Graph) -> None:
    before, head = names(graph), graph.commits()[0].id
    with graph.transaction() as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        run(graph, 'insert Person { name: "Zoe" }')
        assert names(transaction) == sorted([*before, "Eve"])
        assert names(graph) == sorted([*before, "Zoe"])
        found = transaction.query(NAMES)
        assert (found.branch, found.commit_id) == ("main", head)
        assert transaction.explain(NAMES, analyze=True).columns == ("name",)
    assert names(graph) == sorted([*before, "Eve", "Zoe"])


def test_an_exception_leaves_nothing(graph: Graph) -> None:
    before, transaction = state(graph), graph.transaction()
    with pytest.raises(ZeroDivisionError):
        block(transaction, 'insert Person { name: "Eve" }', lambda: 1 // 0)
    assert transaction.receipt is None
    assert state(graph) == before
    assert graph.verify() == []


def test_a_refused_statement_can_be_caught(graph: Graph) -> None:
    with graph.transaction() as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        with pytest.raises(InvalidInput):
            do(transaction, 'insert Knows { from: "Eve", to: "nobody" }')
        do(transaction, 'insert Knows { from: "Eve", to: "Alice" }')
    assert transaction.receipt is not None
    assert transaction.receipt.inserted == 2


@pytest.mark.parametrize("statements", [(), ('insert Person { name: "n" }', 'delete Person where name = "n"')], ids=["none", "net zero"])
def test_no_change_is_no_commit(graph: Graph, statements: tuple[str, ...]) -> None:
    before = state(graph)
    with graph.transaction() as transaction:
        for text in statements:
            do(transaction, text)
    assert transaction.receipt is not None
    assert (transaction.receipt.commit, transaction.receipt.inserted, transaction.receipt.deleted) == (None, 0, 0)
    assert state(graph) == before


def test_a_conflict_raises_and_leaves_nothing(graph: Graph) -> None:
    transaction = graph.transaction()
    moved: list[tuple[list[str], str, list[str]]] = []
    with pytest.raises(og.MergeConflicts) as caught:
        block(
            transaction,
            'update Person set { age: 1 } where name = "Alice"',
            'insert Person { name: "Eve" }',
            lambda: run(graph, 'update Person set { age: 2 } where name = "Alice"'),
            lambda: moved.append(state(graph)),
        )
    (found,) = caught.value.facts["conflicts"]  # type: ignore[misc]
    assert (found.kind, found.id) == (ConflictKind.DIVERGENT_UPDATE, "Alice")  # type: ignore[has-type]
    assert caught.value.facts["branch"] == "main"
    assert transaction.receipt is None
    assert state(graph) == (*moved[0][:2], [])
    assert graph.verify() == []


def test_a_rule_that_both_break_together_is_a_conflict(graph: Graph) -> None:
    with pytest.raises(og.MergeConflicts) as caught:
        block(graph.transaction(), 'insert Knows { from: "Alice", to: "Dan" }', lambda: run(graph, 'delete Person where name = "Dan"'))
    assert [one.kind for one in caught.value.facts["conflicts"]] == [ConflictKind.ORPHAN_EDGE]  # type: ignore[attr-defined]


def test_of_two_equal_changes_none_is_lost(graph: Graph) -> None:
    """Both raise the age from 30 to 31: the second is refused, and raises it to 32 when it runs again."""
    raised = 'update Person set { age: age + 1 } where name = "Alice"'
    with pytest.raises(og.MergeConflicts) as caught:
        block(graph.transaction(), raised, 'insert Person { name: "Eve" }', lambda: run(graph, raised))
    (found,) = caught.value.facts["conflicts"]  # type: ignore[misc]
    assert (found.kind, found.id) == (ConflictKind.CONCURRENT_CHANGE, "Alice")  # type: ignore[has-type]
    assert "Eve" not in names(graph)
    block(graph.transaction(), raised)
    assert graph.query('match { $p: Person { name: "Alice" } } return { $p.age as age }').rows == [{"age": 32}]


def test_an_entity_that_both_inserted_alike_is_a_conflict(graph: Graph) -> None:
    added = 'insert Person { name: "Eve", age: 7 }'
    with pytest.raises(og.MergeConflicts) as caught:
        block(graph.transaction(), added, lambda: run(graph, added))
    assert [one.kind for one in caught.value.facts["conflicts"]] == [ConflictKind.CONCURRENT_CHANGE]  # type: ignore[attr-defined]


def test_what_both_deleted_is_deleted(graph: Graph) -> None:
    gone = 'delete Person where name = "Alice"'
    block(graph.transaction(), gone, lambda: run(graph, gone))
    assert "Alice" not in names(graph)


def test_two_transactions_at_once(graph: Graph) -> None:
    with graph.transaction() as first, graph.transaction() as second:
        do(first, 'insert Person { name: "Eve" }')
        do(second, 'insert Person { name: "Fay" }')
        assert "Fay" not in names(first)
        assert graph.branches.list() == ["main"]
    assert {"Eve", "Fay"} <= set(names(graph))
    assert [one.kind for one in graph.commits()[:2]] == [CommitKind.TRANSACTION] * 2


def test_a_transaction_on_a_branch(graph: Graph) -> None:
    graph.branches.create("work")
    before = content(graph)
    with graph.transaction("work") as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        assert "Eve" not in names(graph, branch="work")
    assert "Eve" in names(graph, branch="work")
    assert content(graph) == before
    assert graph.merge("work").inserted == 1, "the commit is one of the branch, and is merged like others"
    assert graph.verify() == []


def test_a_retry_with_the_token_commits_once(graph: Graph) -> None:
    receipts = []
    for _ in range(2):
        with graph.transaction(token="once") as transaction:
            do(transaction, "update Person set { age: age + 1 } where age is not null")
        receipts.append(transaction.receipt)
    assert receipts[0] == receipts[1]
    assert receipts[0] is not None
    assert receipts[0].commit is not None
    assert graph.commits()[0].id == receipts[0].commit.id
    graph.mutate('query q() { insert Person { name: "Eve" } }', token="other")
    with pytest.raises(InvalidInput, match="a mutate"), graph.transaction(token="other") as transaction:
        do(transaction, 'insert Person { name: "Fay" }')
    assert "Fay" not in names(graph)


def test_nobody_sees_a_private_branch(graph: Graph) -> None:
    with graph.transaction() as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        (private,) = all_branches(graph.engine.root.objects)
        assert graph.branches.list() == ["main"]
        assert graph.info().branches == 1
        assert list(graph.commit_graph().heads) == ["main"]
        assert graph.verify(deep=True) == []
        assert graph.refresh() == []
        inside = graph.engine.manifest.snapshot(private).commit
        calls: list[Callable[[], object]] = [
            lambda: graph.query(NAMES, branch=private),
            lambda: run(graph, 'insert Person { name: "Fay" }', branch=private),
            lambda: graph.load([], branch=private),
            lambda: graph.branches.create("copy", from_=private),
            lambda: graph.branches.create(private + "x"),
            lambda: graph.branches.delete(private),
            lambda: graph.merge(private),
            lambda: graph.transaction(private),
            lambda: graph.commits(private),
            lambda: graph.snapshot(private),
            lambda: graph.schema_of(private),
            lambda: graph.commit_graph([private]),
        ]
        for call in calls:
            with pytest.raises(InvalidInput) as caught:
                call()
            assert caught.value.kind is Kind.INVALID_BRANCH_NAME
        for look in (
            lambda: graph.commit(inside),
            lambda: graph.tags.create("inside", at=inside),
            lambda: list(graph.diff("main", private)),
        ):
            with pytest.raises(NotFound):
                look()


@pytest.mark.parametrize("name", ["apply_schema", "branches", "tags", "merge", "revert", "transaction", "ensure_indices"])
def test_what_a_transaction_cannot_do(graph: Graph, name: str) -> None:
    with graph.transaction() as transaction, pytest.raises(Unsupported, match="only query, explain, mutate and load") as caught:
        getattr(transaction, name)
    assert caught.value.kind is Kind.UNSUPPORTED
    with pytest.raises(AttributeError):
        _ = transaction.nothing  # type: ignore[attr-defined]


def test_a_transaction_is_one_block(graph: Graph) -> None:
    transaction = graph.transaction()
    for use in (lambda: do(transaction, 'insert Person { name: "Eve" }'), lambda: transaction.query(NAMES)):
        with pytest.raises(InvalidInput) as caught:
            use()
        assert caught.value.kind is Kind.TRANSACTION_NOT_OPEN
        with transaction if transaction.receipt is None else graph.transaction():
            pass
    with pytest.raises(InvalidInput) as caught, transaction:
        pass
    assert caught.value.kind is Kind.TRANSACTION_NOT_OPEN


def test_where_no_transaction_can_begin(graph: Graph) -> None:
    with pytest.raises(Unsupported):
        og.open(graph.uri, mode="r").transaction()
    with pytest.raises(NotFound), graph.transaction("nowhere"):
        pass


def test_deleting_the_branch_ends_its_transactions(graph: Graph) -> None:
    """Open or dead, they have nothing left that they could change."""
    graph.branches.create("work")
    again = partial(graph.branches.delete, "work"), partial(graph.branches.create, "work")
    with pytest.raises(NotFound, match="'work' was deleted during the transaction") as caught:
        block(graph.transaction("work"), 'insert Person { name: "Eve" }', *again)
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND
    assert "Eve" not in names(graph, branch="work")
    assert all_branches(graph.engine.root.objects) == ["work"]
    assert graph.verify() == []


def test_a_branch_that_is_replaced_during_the_landing_is_not_changed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.branches.create("work")
    write = protocol.write

    def late(*args: Any) -> Any:
        graph.branches.delete("work")
        graph.branches.create("work")
        return write(*args)

    monkeypatch.setattr(squash, "write", late)
    with pytest.raises(ConflictError) as caught:
        block(graph.transaction("work"), 'insert Person { name: "Eve" }')
    assert caught.value.kind is Kind.BRANCH_REPLACED
    assert "Eve" not in names(graph, branch="work")


def test_a_private_branch_that_stays_does_not_undo_the_commit(graph: Graph) -> None:
    with graph.transaction() as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        failing = armed(Fault.BRANCH_BEFORE_DELETE, failure=StorageError(Kind.STORAGE_UNAVAILABLE, "the store went away for a moment"))
        failing.__enter__()
    failing.__exit__(None, None, None)
    assert transaction.receipt is not None
    assert "Eve" in names(graph)
    assert len(all_branches(graph.engine.root.objects)) == 1
    assert graph.branches.list() == ["main"]
    assert graph.verify() == []
    copied = graph.copy_to(f"{graph.uri}-copy")
    assert all_branches(copied.engine.root.objects) == []


def test_a_schema_that_grew_meanwhile(graph: Graph) -> None:
    with graph.transaction() as transaction:
        do(transaction, 'insert Person { name: "Eve" }')
        graph.apply_schema(graph.schema + "\nnode Town { name: String @key }")
    assert "Eve" in names(graph)
    assert "Town" in graph.schema


def test_what_is_shown_by_an_open_transaction_is_kept(graph: Graph) -> None:
    """A schema change that removes history, and the deletion of another branch, leave what a transaction reads."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Wim" }', branch="work")
    transaction = graph.transaction().__enter__()
    graph.branches.delete("work")
    before = names(transaction)
    do(transaction, 'insert Knows { from: "Alice", to: "Dan" }')
    graph.apply_schema("node Person { name: String @key }", allow_data_loss=True)
    assert names(transaction) == before
    assert transaction.query("match { $p: Person  $p knows $q } return { count(*) as n }").rows == [{"n": 2}]
    with pytest.raises(og.MergeConflicts) as caught:
        transaction.__exit__(None, None, None)
    assert [one.kind for one in caught.value.facts["conflicts"]] == [ConflictKind.SCHEMA_CONFLICT]  # type: ignore[attr-defined]
    assert graph.verify() == []
