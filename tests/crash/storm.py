"""What writers say they wrote, and what the graph shows -> every way in which the two do not fit. The checker of the storm.

Nothing here knows how the writes were made, so that the same checker can be turned on a writer that is known to be wrong.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

import omnigraph as og
from omnigraph.exec.upkeep.verify import Finding
from omnigraph.graph import Recovery
from omnigraph.manifest import intents
from omnigraph.manifest.model import Commit, Resolution
from omnigraph.store.tables import Table, Tables, open_newest
from tests.graphs import reopen

ACCOUNT, MIRROR = "node:Account", "node:Mirror"
ALIASES = (ACCOUNT, MIRROR)
SCHEMA = """
node Account { name: String @key  value: I64  token: String }
node Mirror { name: String @key  value: I64  token: String }
"""


class AboutTo(msgspec.Struct, frozen=True, tag="about to write"):
    """Said before a write: one row, the same in every table named. The token is used once; the actor is one life of a writer."""

    key: str
    value: int
    token: str
    tables: tuple[str, ...]
    actor: str


class Acknowledged(msgspec.Struct, frozen=True, tag="acknowledged"):
    """Said after it: the commit that the writer was told."""

    token: str
    commit: str


Line = AboutTo | Acknowledged


def say(log: int, line: Line) -> None:
    """Append one line, durable before we go on: a writer must not know more than its log."""
    os.write(log, msgspec.json.encode(line) + b"\n")
    os.fsync(log)


def read_log(path: Path) -> list[Line]:
    """What a writer said. A last line without an end was never said."""
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().split(b"\n")[:-1]]


class Row(msgspec.Struct, frozen=True):
    """A row as the graph shows it."""

    key: str
    value: int
    token: str


class Image(msgspec.Struct, frozen=True):
    """A graph at rest, with everything in it that a lost write could have left a trace in."""

    commits: Sequence[Commit]
    rows: Mapping[str, Sequence[Row]]
    shown: Mapping[str, int]
    heads: Mapping[str, int]
    findings: Sequence[Finding]
    pending: int
    recoveries: Sequence[Recovery]


def look(uri: str, *, options: Mapping[str, str] | None = None) -> Image:
    """Read-only: looking repairs nothing."""
    graph, manifest = og.open(uri, mode="r", storage_options=options), reopen(uri, storage_options=options)
    state, tables = manifest.snapshot().state, Tables(manifest.root)
    named = {row.alias: row for row in state.tables.values()}
    return Image(
        commits=graph.commits(),
        rows={alias: _rows(tables.open(row.ref)) for alias, row in named.items()},
        shown={alias: row.version for alias, row in named.items()},
        heads={alias: int(open_newest(manifest.root, row.path, branch=row.native).version) for alias, row in named.items()},
        findings=graph.verify(),
        pending=len(intents.pending(manifest.root.objects)),
        recoveries=graph.recoveries(),
    )


def _rows(table: Table) -> list[Row]:
    found = table.scan(["name", "value", "token"]).read_all().to_pylist()
    return [Row(row["name"], row["value"], row["token"]) for row in found]


# -- the checker


def problems(said: Sequence[Line], image: Image) -> list[str]:
    """Every contradiction between what the writers said and what the graph shows. Empty: no write was lost, halved or doubled."""
    begun = {line.token: line for line in said if isinstance(line, AboutTo)}
    acked = {line.token: line.commit for line in said if isinstance(line, Acknowledged)}
    return [
        *_chain(image),
        *_acknowledged(acked, image),
        *_unheard_of(begun, image),
        *_content(begun, acked, image),
        *_halves(begun, image),
        *_at_rest(image),
        *_recovered(begun, acked, image),
    ]


def _chain(image: Image) -> Iterator[str]:
    for child, parent in pairwise(image.commits):
        if child.parents != (parent.id,):
            yield f"the chain is broken: {child.id} has parents {child.parents}, not {parent.id}"
    if image.commits[-1].parents:
        yield f"the chain has no beginning: {image.commits[-1].id}"
    for commit, times in Counter(commit.id for commit in image.commits).items():
        if times > 1:
            yield f"commit {commit} is in the chain {times} times"


def _acknowledged(acked: Mapping[str, str], image: Image) -> Iterator[str]:
    landed: dict[str, str | None] = {commit.id: commit.token for commit in image.commits}
    for token, commit in acked.items():
        if landed.get(commit, "") != token:
            yield f"lost commit: {commit} was acknowledged for {token} and is not in the chain"


def _unheard_of(begun: Mapping[str, AboutTo], image: Image) -> Iterator[str]:
    for token, times in Counter(commit.token for commit in image.commits if commit.token is not None).items():
        if token not in begun:
            yield f"nobody ever began {token}"
        if times > 1:
            yield f"{token} was written {times} times"


def _content(begun: Mapping[str, AboutTo], acked: Mapping[str, str], image: Image) -> Iterator[str]:
    """What is there is what the commits say, applied in their order: each key once, with the last value written to it."""
    expected: dict[str, dict[str, Row]] = {alias: {} for alias in ALIASES}
    for commit in reversed(image.commits):
        if commit.token is not None and (line := begun.get(commit.token)) is not None:
            for alias in line.tables:
                expected[alias][line.key] = Row(line.key, line.value, line.token)
    for alias, rows in image.rows.items():
        for key, times in Counter(row.key for row in rows).items():
            if times > 1:
                yield f"{alias} {key} is there {times} times"
        found = {row.key: row for row in rows}
        for key in sorted({*expected[alias], *found}):
            want, got = expected[alias].get(key), found.get(key)
            if got is None and want is not None:
                yield f"lost row: {alias} {key} of {want.token}, {'acknowledged' if want.token in acked else 'published'}, is gone"
            elif want != got:
                yield f"{alias} {key} is {got}; the last commit to it wrote {want}"


def _halves(begun: Mapping[str, AboutTo], image: Image) -> Iterator[str]:
    """Keys that were only ever written to both tables together are equal in both. This does not trust the commits."""
    alone = {line.key for line in begun.values() if len(line.tables) == 1}
    together = {line.key for line in begun.values()} - alone
    one, other = ({row.key: row for row in image.rows[alias]} for alias in ALIASES)
    for key in sorted(together):
        if one.get(key) != other.get(key):
            yield f"half a write: {key} is {one.get(key)} in one table and {other.get(key)} in the other"


def _at_rest(image: Image) -> Iterator[str]:
    for alias, version in image.shown.items():
        if image.heads[alias] != version:
            yield f"{alias} is at version {image.heads[alias]}, the graph shows {version}"
    yield from (f"verify: {finding.message} ({finding.where})" for finding in image.findings)
    if image.pending:
        yield f"{image.pending} intents are left"


def _recovered(begun: Mapping[str, AboutTo], acked: Mapping[str, str], image: Image) -> Iterator[str]:
    """Each record speaks of one write that was begun and never acknowledged: a life ends once, so it is recovered once at most."""
    records = [commit.audit for commit in image.commits if commit.audit is not None]
    if sorted(r.operation_id for r in image.recoveries) != sorted(record.operation for record in records):
        yield f"{len(image.recoveries)} recoveries are told, {len(records)} are in the chain"
    dead = {line.actor for token, line in begun.items() if token not in acked}
    for actor, times in Counter(record.actor for record in records).items():
        if actor not in dead:
            yield f"a write of {actor} was recovered, which left none unfinished"
        if times > 1:
            yield f"{actor} died once and was recovered {times} times"
    for commit in image.commits:
        if commit.audit is not None and commit.token in acked:
            yield f"{commit.id} was acknowledged by its writer and finished by somebody else"
        if commit.audit is not None and (commit.audit.outcome is Resolution.ROLLED_FORWARD) != (commit.token is not None):
            yield f"{commit.id} says {commit.audit.outcome} and carries token {commit.token}"
