"""One writer of the storm. Writes until it is killed.

It writes keys of this life alone, and keys that all writers share; now one table, now both. `delete_then_add` is a writer
as one must not be: an update in two commits. It dies between the two when the environment says so.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from collections.abc import Callable

import msgspec
import pyarrow as pa

import omnigraph as og
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import Commit, CommitKind
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from omnigraph.manifest.read import Manifest
from omnigraph.store import stage
from omnigraph.store.objects import open_objects
from omnigraph.store.stage import Staged
from omnigraph.store.tables import Table, Tables
from tests.crash.storm import ACCOUNT, ALIASES, AboutTo, Acknowledged, say
from tests.crasher import TTL_SECONDS
from tests.graphs import reopen

DIE_BETWEEN = "STORM_DIE_BETWEEN"
"""Set to n: the n-th update of `delete_then_add` is its last, and stops half way."""
OWN, SHARED = 3, 4
PUT = """
query alone($name: String, $value: I64, $token: String) {
  insert Account { name: $name, value: $value, token: $token }
}
query together($name: String, $value: I64, $token: String) {
  insert Account { name: $name, value: $value, token: $token }
  insert Mirror { name: $name, value: $value, token: $token }
}
"""

Write = Callable[[AboutTo], str]


def main(style: str, uri: str, log: str, name: str, life: str, options: str) -> None:
    actor = f"{name}.{life}"
    storage = json.loads(options)
    locks = Locks.of(open_objects(uri, storage_options=storage), ttl_seconds=TTL_SECONDS if storage else None)
    write = {"mutate": mutate, "delete_then_add": delete_then_add}[style](uri, actor, storage)
    chance = random.Random(actor)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for n in itertools.count():
        line = AboutTo(key(chance, actor, n), n, f"{actor}.{n}", tables(chance, n), actor)
        say(out, line)
        say(out, Acknowledged(line.token, write(line)))
    del locks  # kept until here: a graph whose locks nobody holds forgets their ttl


def key(chance: random.Random, actor: str, n: int) -> str:
    """Own keys of this life first, then again and again, between keys that everybody writes."""
    pair = "pair" if n % 3 == 0 else "any"
    if n < 2 * OWN or chance.random() < 0.5:
        return f"{pair}-{actor}-{n % OWN}"
    return f"{pair}-shared-{chance.randrange(SHARED)}"


def tables(chance: random.Random, n: int) -> tuple[str, ...]:
    """Keys called pair are always written to both tables; the others now to one, now to both."""
    return ALIASES if n % 3 == 0 or chance.random() < 0.3 else (ACCOUNT,)


def mutate(uri: str, actor: str, storage: dict[str, str]) -> Write:
    graph = og.open(uri, actor=actor, storage_options=storage)

    def write(line: AboutTo) -> str:
        name = "together" if len(line.tables) > 1 else "alone"
        params = {"name": line.key, "value": line.value, "token": line.token}
        commit = graph.mutate(PUT, name, params, token=line.token).commit
        assert commit is not None
        return commit.id

    return write


# -- the writer that loses rows


def delete_then_add(uri: str, actor: str, storage: dict[str, str]) -> Write:
    manifest = reopen(uri, storage_options=storage)
    updates = itertools.count(1)
    last = int(os.environ.get(DIE_BETWEEN, 0))

    def write(line: AboutTo) -> str:
        if _publish(manifest, line, actor, _delete) is not None and next(updates) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        commit = _publish(manifest, line, actor, _add, token=line.token)
        assert commit is not None
        return commit.id

    return write


def _publish(
    manifest: Manifest, line: AboutTo, actor: str, change: Callable[[Table, AboutTo], Staged | None], *, token: str | None = None
) -> Commit | None:
    """Lock, stage, commit, publish, as the protocol does, but with no intent and one change at a time."""
    with hold(manifest) as grant:
        found, _, state = manifest.look()
        rows = []
        for alias in line.tables:
            row = state.table(alias)
            assert row is not None
            if (staged := change(Tables(manifest.root).open(row.ref), line)) is not None:
                counts = staged.counts
                version = stage.commit(staged).ref.version
                rows.append(msgspec.structs.replace(row, version=version, rows=row.rows + counts.inserted - counts.deleted))
        if not rows:
            return None
        expect = Preconditions(branch=found, epoch=grant.epoch, head=state.head.commit)
        return publish(manifest, Publication(CommitKind.MUTATE, tables=tuple(rows), expect=expect, token=token, actor=actor)).commit


def _delete(table: Table, line: AboutTo) -> Staged | None:
    return stage.delete_keys(table, pa.array([line.key], pa.string()))


def _add(table: Table, line: AboutTo) -> Staged | None:
    row = {"id": line.key, "name": line.key, "value": line.value, "token": line.token}
    return stage.append(table, pa.table({name: [row[name]] for name in table.schema.names}, schema=table.schema))
