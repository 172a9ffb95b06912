"""Tables and ledgers on a real S3 server: the same fence and the same swap, and answers that get lost on the way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, Kind, NotFound, OmniGraphError, Outcome, StorageError
from omnigraph.store import stage
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.ledger import SwapLost, create_ledger, open_ledger
from omnigraph.store.refs import create_ref, delete_ref, has_ref, write_before_ref
from omnigraph.store.root import Root, open_root
from omnigraph.store.tables import Overlay, TableRef, Tables, committed_uuid
from tests.s3 import CountingProxy, Request, S3Server
from tests.unit.store.tables import CHANGES, FOUR, PATH, added, compacted, content, numbers, reopened, rows, some, two_fragments
from tests.unit.store.test_ledger import begun, entries, head, names, newest_of, swapped

pytestmark = pytest.mark.s3

_LANCE_LOOKS: Final = 3
"""How often Lance itself looks for a version whose answer was lost, before it gives up."""
_NO_RETRIES: Final = {"client_max_retries": "0", "client_retry_timeout": "1"}


@pytest.fixture
def root(s3_uri: str, s3_server: S3Server) -> Root:
    return open_root(s3_uri, storage_options=s3_server.storage_options)


class Unreliable(CountingProxy):
    """Applies a put of a version file and loses its answer, or never delivers it, and may be deaf from then on."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._alive = self._server.upstream
        self._losses: list[int | None] = []
        self._deaf = 0
        self.lost = 0
        self._cut_after: str | None = None

    def lose(self, instead: int | None, *, reads: int = 0) -> None:
        """Lose the answer of the next put of a version file, and those of so many reads of version files after it."""
        self._losses, self._deaf = [instead], reads

    def cut_after(self, part: str) -> None:
        """Deliver nothing more once a put whose name holds `part` was answered."""
        self._cut_after = part

    def mend(self) -> None:
        self._losses, self._deaf, self._cut_after, self._server.upstream = [], 0, None, self._alive

    def next_loss(self, request: Request) -> tuple[int | None] | None:
        if "/_versions/" not in request.target:
            return None
        if self._losses and request.method == "PUT":
            self.lost += 1
            return (self._losses.pop(),)
        if self._deaf and not self._losses and request.method in ("GET", "HEAD"):
            self._deaf -= 1
            return (None,)
        return None

    def record(self, request: Request) -> None:
        super().record(request)
        if self._cut_after is not None and request.method == "PUT" and self._cut_after in request.target:
            with socket.socket() as nobody:  # a port that was free a moment ago
                nobody.bind(("127.0.0.1", 0))
                self._server.upstream = f"127.0.0.1:{nobody.getsockname()[1]}"


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Unreliable]:
    unreliable = Unreliable(s3_server.endpoint)
    yield unreliable
    unreliable.stop()


def test_every_kind_of_change_is_staged_committed_and_read_back(root: Root) -> None:
    """W-08, W-09: the result is base + 1 under the staged uuid; every kind from one base collides with the one that landed."""
    table = two_fragments(root)
    before = FOUR
    for kind, change in CHANGES.items():
        here = create_ref(table, f"for-{kind}")
        staged, rival = some(change.stage(here)), some(stage.upsert(here, rows({"a": 99, "rival": 1})))
        assert (staged.counts, here.head()) == (change.counts(before), table.ref.version)
        after = stage.commit(staged)
        assert committed_uuid(root, here.ref.at(here.ref.version + 1)) == staged.uuid
        with pytest.raises(ConflictError) as lost:
            stage.commit(rival)
        assert lost.value.kind is Kind.VERSION_MISMATCH
        assert content(reopened(after, after.ref.version)) == change.after(before), kind
    assert content(reopened(table, table.head())) == FOUR


def test_a_scan_reads_under_a_filter_with_pending_rows_laid_over(root: Root) -> None:
    """Y-02, Y-03."""
    table = two_fragments(root)
    overlay = Overlay(rows=rows({"a": 10, "x": 11}), deleted=pa.array(["b"]))
    assert numbers(table.scan(where="n > 3", overlay=overlay).read_all()) == {"a": 10, "d": 4, "x": 11}
    with pytest.raises(NotFound):
        Tables(root).open(TableRef(PATH, None, 99))


def test_indexes_compaction_and_branches_work_there(root: Root) -> None:
    table = stage.commit(some(build(two_fragments(root), [IndexSpec("n", LanceIndexKind.BTREE, "n_idx")])))
    table = compacted(table)
    assert table.scan(["id"], where="n = 3").read_all()["id"].to_pylist() == ["c"]
    early = write_before_ref(table, "side", rows({"x": 9}))
    side = stage.commit(some(stage.put_files(create_ref(table, "side"), early)))
    other = added(create_ref(table, "side-2"), {"y": 1})
    assert content(reopened(side, side.ref.version)) == {**FOUR, "x": 9}
    delete_ref(table.root, table.ref.path, "side")
    assert not has_ref(root, PATH, "side")
    assert not root.objects.exists(f"{PATH}/tree/side")  # an empty prefix may still be listed: some stores keep folders
    assert content(reopened(other, other.ref.version)) == {**FOUR, "y": 1}


def test_a_ledger_is_born_once_and_swapped_once_a_version(root: Root) -> None:
    """C-03, RT-66: losers leave no object."""
    ledger = begun(root)
    with pytest.raises(SwapLost):
        create_ledger(root, "__manifest", state=head("thief"), facts=entries(["commit:thief"], born=1), stamps={}, uuid="other")
    after = ledger
    for n in range(1, 6):
        after = swapped(after, str(n))
    objects = root.objects.list("__manifest/data")
    with pytest.raises(SwapLost):
        swapped(ledger, "stale")
    assert root.objects.list("__manifest/data") == objects
    fresh = open_ledger(root, "__manifest", branch=None)
    assert (fresh.version, newest_of(fresh)) == (6, "5")
    assert names(fresh.facts("commit:")) == [f"commit:{n}" for n in range(6)]


@pytest.mark.parametrize("again", [True, False], ids=["sent again", "asked again"])
@pytest.mark.parametrize("instead", [None, 500], ids=["broken off", "500"])
def test_a_commit_whose_answer_was_lost_is_known_by_its_uuid(s3_uri: str, proxy: Unreliable, instead: int | None, again: bool) -> None:
    """P-13, REC-34, RT-66: the version is there and it is ours, so it is success, once.

    Sent again, the client hears that it exists, and Lance looks whose it is. Where even that look is lost, ours is the next.
    """
    root = open_root(s3_uri, storage_options={**proxy.storage_options, **({} if again else _NO_RETRIES)})
    table = two_fragments(root)
    staged = some(stage.append(table, rows({"x": 1})))
    attempts: tuple[Callable[[], object], ...] = (
        lambda: begun(root),
        lambda: stage.commit(staged),
        lambda: swapped(open_ledger(root, "__manifest", branch=None), "1"),
    )
    for lost_answers, attempt in enumerate(attempts, 1):
        proxy.lose(instead, reads=0 if again else _LANCE_LOOKS)
        attempt()
        assert proxy.lost == lost_answers, "no answer was lost: nothing was proven"
    ledger = open_ledger(root, "__manifest", branch=None)
    assert content(reopened(table, table.ref.version + 1)) == {**FOUR, "x": 1}
    assert table.head() == table.ref.version + 1
    assert (ledger.version, newest_of(ledger), names(ledger.facts(""))) == (2, "1", ["commit:0", "commit:1"])
    refused = [request for request in proxy.requests if request.status == 412]
    assert len(refused) == (3 if again else 0)


def test_a_lost_answer_of_a_race_that_was_lost_too_is_a_conflict(s3_uri: str, proxy: Unreliable, s3_server: S3Server) -> None:
    """The next version is there and is not ours: nothing of ours happened, and its files are taken back."""
    root = open_root(s3_uri, storage_options=proxy.storage_options)
    ledger = begun(root)
    rival = open_ledger(open_root(s3_uri, storage_options=s3_server.storage_options), "__manifest", branch=None)
    winner = swapped(rival, "winner")
    before = root.objects.list("__manifest/data")
    proxy.lose(None)
    with pytest.raises(SwapLost):
        swapped(ledger, "loser")
    assert root.objects.list("__manifest/data") == before
    assert newest_of(ledger.at(ledger.newest_version())) == newest_of(winner) == "winner"


def test_an_outcome_that_cannot_be_learned_is_unknown_and_its_files_stay(s3_uri: str, proxy: Unreliable) -> None:
    """The server is gone before the version file reaches it: it may still arrive, so nothing that it names may be deleted."""
    options = {**proxy.storage_options, **_NO_RETRIES}
    root = open_root(s3_uri, storage_options=options)
    table, ledger = two_fragments(root), begun(root)
    staged = some(stage.append(table, rows({"x": 1})))
    attempts: dict[str, Callable[[], object]] = {
        PATH: lambda: stage.commit(staged),
        "__manifest": lambda: swapped(ledger, "1"),
        "other": lambda: create_ledger(root, "other", state=head("0"), facts=entries(["c"], born=1), stamps={}, uuid="u"),
    }
    for path, attempt in attempts.items():
        before = set(root.objects.list(f"{path}/data"))
        proxy.cut_after("/_transactions/")
        with pytest.raises(StorageError) as failed:
            attempt()
        proxy.mend()
        assert failed.value.outcome is Outcome.UNKNOWN, path
        now = set(root.objects.list(f"{path}/data"))
        assert before <= now
        assert path == PATH or len(now - before) == 2, path
    assert content(stage.commit(staged)) == {**FOUR, "x": 1}
    assert newest_of(swapped(ledger, "2")) == "2"


def test_who_may_only_read_is_refused_and_nothing_happened(s3_uri: str, s3_server: S3Server) -> None:
    two_fragments(open_root(s3_uri, storage_options=s3_server.storage_options))
    reader = open_root(s3_uri, storage_options={**s3_server.reader_options, **_NO_RETRIES})
    table = Tables(reader).open(TableRef(PATH, None, 3))
    assert content(table) == FOUR
    for attempt in (
        lambda: stage.append(table, rows({"x": 1})),
        lambda: create_ledger(reader, "other", state=head("0"), facts=entries(["c"], born=1), stamps={}, uuid="u"),
    ):
        with pytest.raises(StorageError) as refused:
            attempt()
        assert refused.value.outcome is Outcome.DID_NOT_HAPPEN
    with pytest.raises(OmniGraphError):
        create_ref(table, "side")
    assert content(reopened(table, table.head())) == FOUR
