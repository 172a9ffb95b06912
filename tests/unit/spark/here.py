"""Tasks of a Spark load, run in this process one by one: no Spark, but everything that would travel does."""

from __future__ import annotations

from omnigraph.exec.load.load import Intake
from omnigraph.graph import Graph, LoadReceipt
from omnigraph.spark.messages import PartTask, Reply, TaskAssignment, decode_reply, encode_assignment
from omnigraph.spark.runner import OnDone
from omnigraph.spark.tasks import run_part


class Here:
    """Runs tasks in this process, with everything that would travel made into bytes and back."""

    def on_parts(self, task: PartTask, *, on_done: OnDone | None = None) -> list[Reply]:
        encoded = encode_assignment(TaskAssignment(task))
        return [decode_reply(run_part(encoded, number)) for number in range(len(task.parts))]


def loaded(graph: Graph, intake: Intake, mode: str, *, branch: str, report_errors: int) -> LoadReceipt:
    """A load of what an intake reads."""
    return graph.load_intake(
        intake, mode, branch=branch, from_branch=None, token=None, message=None, report_errors=report_errors, on_progress=None
    )
