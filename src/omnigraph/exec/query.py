"""An engine, a call of a read and a snapshot -> its plan, its result, or an explanation of both."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.exec.compiled import Call, CompiledRead, refuse_search
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.measure import Recorder
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.run import HELD_BYTES, Clause, run
from omnigraph.exec.read.view import View
from omnigraph.exec.read.watch import Watch
from omnigraph.lang import Source, located
from omnigraph.lang.query import Read
from omnigraph.manifest.read import Snapshot
from omnigraph.plan import ops
from omnigraph.plan.explain import Explanation, explain
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read


def query(
    engine: Engine, call: Call, snapshot: Snapshot, *, watch: Watch, route: ops.Route | None = None, held_bytes: int = HELD_BYTES
) -> Result:
    """Run a read. With `route` every link is followed that way; the result is the same. `held_bytes` bounds what it may hold."""
    view = engine.view(snapshot)
    compiled = engine.compiled_read(call.source, call.name, snapshot)
    plan = _plan(engine, call, compiled, view)
    table = _run(call, compiled, plan, view, watch=watch, route=route, held_bytes=held_bytes)
    return Result(table, query_name=plan.name, branch=snapshot.branch.name, commit_id=snapshot.commit)


def explanation(engine: Engine, call: Call, snapshot: Snapshot, *, run_with: Watch | None = None) -> Explanation:
    """The plan; with `run_with` it is run within those limits, and what each operator did stands beside the estimates."""
    view = engine.view(snapshot)
    compiled = engine.compiled_read(call.source, call.name, snapshot)
    notes = engine.surveyor.damage(snapshot, compiled.types)  # before the plan, which leaves a damaged index out
    plan = _plan(engine, call, compiled, view)
    if run_with is None:
        return explain(plan, notes=notes)
    recorder = Recorder()
    _run(call, compiled, plan, view, watch=run_with, recorder=recorder)
    return explain(plan, notes=notes, measured=recorder.measured)


def _plan(engine: Engine, call: Call, compiled: CompiledRead, view: View) -> ops.ReadPlan:
    with located(call.source):
        parameters = bind_parameters(compiled.read.parameters, call.params)
        statistics = engine.surveyor.statistics(
            view.snapshot,
            engine.catalog(view.snapshot),
            types=compiled.types,
            availability=view.availability,
            spent_ms=view.spent_ms,
            known=view.known_edges,
        )
        return plan_read(compiled.read, parameters, now_ms=call.now_ms, statistics=statistics)


def _run(
    call: Call,
    compiled: CompiledRead,
    plan: ops.ReadPlan,
    view: View,
    *,
    watch: Watch,
    route: ops.Route | None = None,
    held_bytes: int = HELD_BYTES,
    recorder: Recorder | None = None,
) -> pa.Table:
    refuse_search(compiled, call.source)
    try:
        return run(plan, view, watch=watch, route=route, held_bytes=held_bytes, recorder=recorder)
    except ResourceLimitExceeded as error:
        raise _placed(error, compiled.tree, call.source) from error


def _placed(error: ResourceLimitExceeded, tree: Read, source: Source) -> ResourceLimitExceeded:
    """The error with the place of the clause that asked for too much."""
    part = {Clause.MATCH: tree.match, Clause.RETURN: tree.returns, Clause.ORDER: tree.order}[Clause(str(error.facts["clause"]))]
    at = source.position(part[0].span.start)
    message = f"{error.message} ({error.facts['clause']}, line {at.line}, column {at.column})"
    return ResourceLimitExceeded(error.kind, message, **{**error.facts, "line": at.line, "column": at.column})
