"""Writes through the protocol, on the small graphs of tests/graphs.py."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from omnigraph.exec.engine import Engine
from omnigraph.exec.write.protocol import Append, Change, DeleteKeys, Overwrite, Prepared, Request, Upsert, Written, write
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.read import BranchSnapshot, Manifest
from tests.graphs import COMPANY, PERSON, people


def put(
    manifest: Manifest,
    changes: dict[str, Change],
    *,
    branch: BranchName = MAIN,
    token: str | None = None,
    if_commit: CommitId | None = None,
    actor: str | None = "act-writer",
) -> Written:
    """Change tables by alias."""

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        named = {row.alias: row.id for row in snapshot.state.tables.values()}
        return Prepared({named[alias]: change for alias, change in changes.items()}, counts={"changes": len(changes)})

    request = Request(CommitKind.MUTATE, branch=branch, token=token, if_commit=if_commit, actor=actor)
    return write(Engine(manifest), request, prepare)


def work(manifest: Manifest, prepare: Callable[[BranchSnapshot], Prepared], *, branch: BranchName = MAIN) -> Written:
    """Whatever a preparation makes of the snapshot it is given, as changes of a schema are prepared."""
    return write(Engine(manifest), Request(CommitKind.SCHEMA, branch=branch, actor="act-writer"), prepare)


def upsert(manifest: Manifest, *ids: str, n: int = 0, branch: BranchName = MAIN, alias: str = PERSON, token: str | None = None) -> Written:
    return put(manifest, {alias: Upsert(people(*ids, n=n))}, branch=branch, token=token)


def both(*ids: str) -> dict[str, Change]:
    return {PERSON: Upsert(people(*ids)), COMPANY: Upsert(people(*ids))}


def delete(*ids: str) -> DeleteKeys:
    return DeleteKeys(pa.array(ids, pa.string()))


def append(*ids: str) -> Append:
    return Append(people(*ids))


def overwrite(*ids: str) -> Overwrite:
    return Overwrite(people(*ids))
