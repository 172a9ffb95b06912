"""A holder that is put to sleep: holds main, waits for a line, publishes."""

from __future__ import annotations

import json
import sys

from omnigraph.errors import ConflictError
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from tests.graphs import reopen

TTL_SECONDS = 1.0


def main(uri: str, options: str) -> None:
    manifest = reopen(uri, storage_options=json.loads(options))
    locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
    with hold(manifest) as grant:
        print("holding", flush=True)
        sys.stdin.readline()
        try:
            publish(manifest, Publication(CommitKind.LOAD, message="from the grave", expect=Preconditions(epoch=grant.epoch)))
            print("published", flush=True)
        except ConflictError as error:
            print(error.kind.value, flush=True)
    del locks
