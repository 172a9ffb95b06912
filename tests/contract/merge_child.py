"""A process that writes to a branch, in transactions or not, optimizes it, or merges another into it: `main(URI, DOING, COUNT, [OPTIONS])`.

Prints what was acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import omnigraph as og
from tests.forks import Forked


def main(uri: str, doing: str, count: str, options: str = "{}") -> None:
    graph = og.open(uri, storage_options=json.loads(options))
    verb, branch, name = doing.split()
    for n in range(int(count)):
        if verb == "write":
            graph.mutate(
                f'query q() {{ upsert Person {{ name: "{name}-{n}", age: {n} }} upsert Counter {{ name: "{name}", n: {n} }} }}',
                branch=branch,
            )
            print(f"{name}-{n}", flush=True)
        elif verb == "transact":
            _transact(graph, branch, f"{name}-{n}")
            print(f"{name}-{n}", flush=True)
        elif verb == "raise":
            _raise(graph, branch)
            print(n, flush=True)
        elif verb == "optimize":
            print(graph.optimize(branch).commit is not None, flush=True)
        else:
            print(graph.merge(branch, name).outcome, flush=True)


def _transact(graph: og.Graph, branch: str, name: str) -> None:
    """Replace the newest row of all, which others do too, until there is no conflict."""
    while True:
        try:
            with graph.transaction(branch) as transaction:
                transaction.mutate(f'query q() {{ insert Person {{ name: "{name}" }} upsert Note {{ name: "last", text: "{name}" }} }}')
                transaction.mutate('query q() { delete Person where name = "seed" }')
                transaction.mutate(f'query q() {{ update Person set {{ age: 1 }} where name = "{name}" }}')
        except og.MergeConflicts:
            continue
        return


def _raise(graph: og.Graph, branch: str) -> None:
    """Add one to a number that others add to, until there is no conflict."""
    while True:
        try:
            with graph.transaction(branch) as transaction:
                transaction.mutate('query q() { update Counter set { n: n + 1 } where name = "all" }')
        except og.MergeConflicts:
            continue
        return


def start(uri: str, doing: str, count: int, *, options: Mapping[str, str] | None = None) -> Forked:
    return Forked("tests.contract.merge_child", uri, doing, str(count), json.dumps(dict(options or {})))
