"""An engine, a call of a read and a snapshot -> its result, or an explanation of its plan."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.exec.compiled import CompiledRead, QueryCall
from omnigraph.exec.embedding import with_query_vectors
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.measure import Recorder
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.run import MEMORY_BYTES, Clause, run
from omnigraph.exec.read.table_statistics import statistics_from
from omnigraph.exec.read.view import View
from omnigraph.exec.read.watch import Watch
from omnigraph.lang import Source, located
from omnigraph.lang.query import Read
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan import ops
from omnigraph.plan.explain import Explanation, explain
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.template import plan_template


def query(
    engine: Engine,
    call: QueryCall,
    snapshot: BranchSnapshot,
    *,
    watch: Watch,
    route: ops.Route | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Result:
    """Run a read. With `route` every link is followed by that route; the result is the same. `memory_bytes` is the memory limit."""
    view = engine.view(snapshot)
    compiled = engine.compiled_read(call.source, call.name, snapshot)
    plan = _with_vectors(engine, _plan(engine, call, compiled, view), view)
    table = _run(call, compiled, plan, view, watch=watch, route=route, memory_bytes=memory_bytes)
    return Result(table, query_name=plan.name, branch=snapshot.branch.name, commit_id=snapshot.commit)


def explanation(engine: Engine, call: QueryCall, snapshot: BranchSnapshot, *, run_with: Watch | None = None) -> Explanation:
    """Explain the plan. With `run_with` it is run within those limits, and measurements are shown next to the estimates."""
    view = engine.view(snapshot)
    compiled = engine.compiled_read(call.source, call.name, snapshot)
    notes = engine.surveyor.damage(snapshot, compiled.types)  # before planning, because the plan does not use a damaged index
    plan = _plan(engine, call, compiled, view)
    if run_with is None:
        return explain(plan, notes=notes)
    plan = _with_vectors(engine, plan, view)
    recorder = Recorder()
    _run(call, compiled, plan, view, watch=run_with, recorder=recorder)
    return explain(plan, notes=notes, measured=recorder.measured)


def _plan(engine: Engine, call: QueryCall, compiled: CompiledRead, view: View) -> ops.ReadPlan:
    with located(call.source):
        parameters = bind_parameters(compiled.read.parameters, call.params)
        facts = engine.surveyor.facts(view.tables, types=compiled.types, edges=compiled.edges, state_of=view.adjacency_state)
        catalog = engine.catalog(view.snapshot)
        if not compiled.same_plan or None in parameters.values():
            return plan_read(compiled.read, parameters, now_ms=call.now_ms, statistics=statistics_from(catalog, view.tables, facts))
        key = (call.source.text, call.name, facts)
        if (template := view.plans.get(key)) is None:
            template = view.plans.put(key, plan_template(compiled.read, parameters, statistics_from(catalog, view.tables, facts)))
        return template.filled(parameters)


def _with_vectors(engine: Engine, plan: ops.ReadPlan, view: View) -> ops.ReadPlan:
    """Embed the texts of `nearest`. This comes after planning, so that a plan can be explained without a provider."""
    return with_query_vectors(plan, engine.catalog(view.snapshot), lambda: engine.embedder)


def _run(
    call: QueryCall,
    compiled: CompiledRead,
    plan: ops.ReadPlan,
    view: View,
    *,
    watch: Watch,
    route: ops.Route | None = None,
    memory_bytes: int = MEMORY_BYTES,
    recorder: Recorder | None = None,
) -> pa.Table:
    try:
        return run(plan, view, watch=watch, route=route, memory_bytes=memory_bytes, recorder=recorder)
    except ResourceLimitExceeded as error:
        raise _placed(error, compiled.tree, call.source) from error


def _placed(error: ResourceLimitExceeded, tree: Read, source: Source) -> ResourceLimitExceeded:
    """Return the error with the position of the clause that exceeded the limit."""
    part = {Clause.MATCH: tree.match, Clause.RETURN: tree.returns, Clause.ORDER: tree.order}[Clause(str(error.facts["clause"]))]
    at = source.position(part[0].span.start)
    message = f"{error.message} ({error.facts['clause']}, line {at.line}, column {at.column})"
    return ResourceLimitExceeded(error.kind, message, **{**error.facts, "line": at.line, "column": at.column})
