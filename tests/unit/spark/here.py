"""Tasks of a Spark load, run in this process one by one: no Spark, but everything that would travel does."""

from __future__ import annotations

import msgspec

from omnigraph.exec.load.load import Intake
from omnigraph.graph import Graph, LoadReceipt
from omnigraph.spark import tasks
from omnigraph.spark.tasks import Payload, Reply, TablePayload, encode_payload
from omnigraph.spark.watched import OnDone


class Here:
    """Runs tasks in this process, with everything that would travel made into bytes and back."""

    def on_parts(self, doing: str, payload: Payload | TablePayload, *, on_done: OnDone | None = None) -> list[Reply]:
        encoded = encode_payload(payload)
        return [msgspec.json.decode(getattr(tasks, doing)(encoded, number), type=Reply) for number in range(len(payload.parts))]


def loaded(graph: Graph, intake: Intake, mode: str, *, branch: str, report_errors: int) -> LoadReceipt:
    """A load of what an intake reads."""
    return graph._load(
        intake, mode, branch=branch, from_branch=None, token=None, message=None, report_errors=report_errors, on_progress=None
    )
