"""A `with` block of mutations, loads and queries -> one commit or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Never, Self

from msgspec import structs

from omnigraph.answers import LoadReceipt, Receipt, TransactionReceipt
from omnigraph.errors import InvalidInput, Kind, NotFound, Unsupported
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.problems import REPORTED
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.watch import Cancellation
from omnigraph.handle import Handle
from omnigraph.plan.explain import Explanation
from omnigraph.store.leaving import waited_for, waited_for_methods

if TYPE_CHECKING:
    from omnigraph.exec.history.squash import Fork
    from omnigraph.exec.load.batches import Data
    from omnigraph.exec.load.load import OnProgress
    from omnigraph.exec.write.protocol import Request


@waited_for_methods
class Transaction:
    """Mutations, loads and queries on a private branch, which become one commit when the `with` block ends without an exception."""

    def __init__(self, graph: Handle, request: Request) -> None:
        self._graph: Final = graph
        self._request: Final = request
        self._fork: Fork | None = None
        self._ended = False
        self._receipt: TransactionReceipt | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            if not name.startswith("_") and name in dir(self._graph):
                raise Unsupported(
                    Kind.UNSUPPORTED,
                    f"a transaction has no {name!r}, only query, explain, mutate and load; call it on the graph, before or after the block",
                    name=name,
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        ended = "committed" if self._receipt is not None else "given up"
        stands = "not begun" if self._fork is None else ended if self._ended else "open"
        return f"Transaction({self._request.branch}, {stands})"

    def __reduce__(self) -> Never:
        what = "a transaction belongs to its `with` block and cannot be copied or sent to another process; send the graph"
        raise Unsupported(Kind.UNSUPPORTED, what)

    @property
    def receipt(self) -> TransactionReceipt | None:
        """The receipt, after the block has ended without an exception."""
        return self._receipt

    @waited_for
    def __enter__(self) -> Self:
        from omnigraph.exec.history.squash import Fork

        if self._fork is not None:
            raise _not_open("a transaction is one `with` block; ask the graph for another transaction")
        self._fork = Fork(self._graph.engine, self._request.branch)
        return self

    @waited_for
    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        from omnigraph.exec.history.landing import DELETED, INSERTED, UPDATED

        fork = self._open_fork()
        self._ended = True
        try:
            if error is None:
                with self._target():
                    written = fork.squash(self._request)
                counts = written.counts
                self._receipt = TransactionReceipt(counts[INSERTED], counts[UPDATED], counts[DELETED], written.commit)
        finally:
            fork.drop()

    def mutate(self, source: str, name: str | Mapping[str, object] | None = None, params: Mapping[str, object] | None = None) -> Receipt:
        """Run one mutation, as `Graph.mutate` does. The receipt has no commit: the transaction has."""
        with self._target():
            done = self._graph.mutate(source, name, params, branch=self._open_fork().name)
        return structs.replace(done, commit=None)

    def load(
        self, data: Data, mode: str = LoadMode.MERGE, *, report_errors: int = REPORTED, on_progress: OnProgress | None = None
    ) -> LoadReceipt:
        """Load data, as `Graph.load` does. The receipt has no commit: the transaction has."""
        with self._target():
            done = self._graph.load(data, mode, branch=self._open_fork().name, report_errors=report_errors, on_progress=on_progress)
        return structs.replace(done, branch=self._request.branch, commit=None)

    def query(
        self,
        source: str,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Result:
        """Run one read, as `Graph.query` does. It sees the branch as it was when the block began, and the changes made inside the block.

        `commit_id` of the result is the commit that the transaction began at.
        """
        fork = self._open_fork()
        with self._target():
            found = self._graph.query(source, name, params, branch=fork.name, timeout=timeout, cancellation=cancellation)
        return Result(found.to_arrow(), query_name=found.query_name, branch=self._request.branch, commit_id=fork.begun_at)

    def explain(
        self,
        source: str,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Explanation:
        """Explain a read, as `Graph.explain` does."""
        branch = self._open_fork().name
        with self._target():
            return self._graph.explain(source, name, params, branch=branch, analyze=analyze, timeout=timeout, cancellation=cancellation)

    def _open_fork(self) -> Fork:
        if self._fork is None or self._ended:
            raise _not_open("the transaction is not open: its statements belong inside its `with` block")
        return self._fork

    @contextmanager
    def _target(self) -> Iterator[None]:
        """Name the branch that was deleted: with it, its transactions were."""
        try:
            yield
        except NotFound as error:
            if error.kind is not Kind.BRANCH_NOT_FOUND:
                raise
            branch = self._request.branch
            raise NotFound(
                Kind.BRANCH_NOT_FOUND, f"branch {branch!r} was deleted during the transaction; nothing was written", branch=branch
            ) from error


def _not_open(message: str) -> InvalidInput:
    return InvalidInput(Kind.TRANSACTION_NOT_OPEN, message)
