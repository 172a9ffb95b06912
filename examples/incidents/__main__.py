"""`python -m examples.incidents [FOLDER]`: three agents fill a graph on branches of their own, and a person reviews, merges and reverts.

The agents are scripted: each loads a file of `findings/` and says what it takes for the cause. The graph is made anew in FOLDER
(`.incidents` by default) by every run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import omnigraph as og
from examples.printing import empty_folder, heading, table, tell

HOME = Path(__file__).resolve().parent
QUERIES = (HOME / "queries.gq").read_text("utf-8")
INCIDENT = "inc-482"


def main() -> None:
    folder = empty_folder(Path(sys.argv[1] if len(sys.argv) > 1 else ".incidents"), ours="incidents.omni")
    place = folder / "incidents.omni"
    graph = og.init(place, schema=(HOME / "schema.pg").read_text("utf-8"), actor="act-mara")

    heading("1. What is known")
    loaded = graph.load(HOME / "data.ndjson", mode="append", message="services, deploys, incidents")
    graph.tags.create("before-agents", message="no agent has written yet")
    tell(f"{loaded.total} records in one commit; tag before-agents")
    ask(graph, "incident", slug=INCIDENT)

    heading("2. Three agents write at the same time, each on a branch of its own")
    with ThreadPoolExecutor() as pool:
        for line in pool.map(lambda agent: agent(place), (logs, deploys, metrics)):
            tell(line)
    tell(f"main is as it was: {graph.query(QUERIES, 'findings', {'slug': INCIDENT}).row_count} findings")

    heading("3. Read what an agent changed, and merge it")
    show_changes(graph, "agent/logs")
    merged = graph.merge("agent/logs", message="logs: the pool of payments is empty")
    tell(f"merge: {merged.outcome}, {merged.inserted} inserted, {merged.updated} updated")

    heading("4. Two agents name two causes: a conflict, which is data")
    try:
        graph.merge("agent/deploys", strategy="property")
    except og.MergeConflicts as error:
        tell(f"{error.kind}: {error.message}")
    review = folder / "review.json"
    review.write_text(omnigraph("branch", "merge", "agent/deploys", "--strategy", "property", "--dry-run", "--json", "--uri", str(place)))
    settle(review, "theirs")
    command = ("branch", "merge", "agent/deploys", "--strategy", "property", "--resolve", str(review), "--message", "deploys: the cause")
    done = json.loads(omnigraph(*command, "--as", "act-mara", "--json", "--uri", str(place)))
    tell(f"with the file: {done['outcome']}, {done['inserted']} inserted, {done['updated']} updated")
    ask(graph, "incident", slug=INCIDENT)

    heading("5. A merge that was a mistake is reverted")
    ask(graph, "teams", slug=INCIDENT)
    hasty = graph.merge("agent/metrics", message="metrics: the cache")
    assert hasty.commit is not None
    tell(f"merge of agent/metrics: {hasty.outcome}, {hasty.inserted} inserted; a second team is called:")
    ask(graph, "teams", slug=INCIDENT)
    undone = graph.revert(hasty.commit.id, message="the cache was slow before, and recovered by itself")
    tell(f"revert: {undone.deleted} deleted")
    ask(graph, "teams", slug=INCIDENT)

    heading("6. What the graph knows now")
    graph.tags.create("reviewed", message="for the report")
    for name in ("findings", "blast_radius", "seen_before"):
        ask(graph, name, slug=INCIDENT)
    ask(graph, "suspects", slug=INCIDENT, minutes=30)

    heading("7. Who said what, and when it changed")
    rows = []
    for entry in graph.log("Incident", INCIDENT):
        cause = entry.change.after.properties["cause"] if entry.change.after else None
        rows.append({"actor": entry.commit.actor, "branch": entry.commit.branch, "cause": cause})
    table(rows)
    then = graph.query(QUERIES, "incident", {"slug": INCIDENT}, at="before-agents").rows[0]
    tell(f"at the tag before-agents: {then}")
    for branch in ("agent/logs", "agent/deploys", "agent/metrics"):
        graph.branches.delete(branch)
    tell(f"branches: {', '.join(graph.branches.list())}; tags: {', '.join(tag.name for tag in graph.tags.list())}")
    tell(f"verify: {graph.verify() or 'no errors'}")


# -- agents: each opens the graph as itself and writes to its own branch


def logs(place: Path) -> str:
    graph = og.open(place, actor="agent-logs")
    graph.load(HOME / "findings/logs.ndjson", mode="append", branch="agent/logs", from_branch="main", token="logs-482")
    judged = {"slug": INCIDENT, "severity": "sev1", "cause": "payments runs out of connections"}
    graph.mutate(QUERIES, "judge", judged, branch="agent/logs", message="every fifth checkout is sev1")
    return "agent/logs     2 commits: findings, then severity and cause"


def deploys(place: Path) -> str:
    """Replaces its first guess. A finding is withdrawn and others come, so it is a transaction: one commit or none."""
    graph = og.open(place, actor="agent-deploys")
    branch = "agent/deploys"
    graph.branches.create(branch)
    graph.mutate(QUERIES, "first_guess", {"slug": INCIDENT}, branch=branch, message="a first guess")
    with graph.transaction(branch, message="the guess was wrong: payments-311") as together:
        together.mutate(QUERIES, "withdraw", {"code": "deploys-1"})
        together.load(HOME / "findings/deploys.ndjson", mode="append")
        cause = {"slug": INCIDENT, "status": "mitigated", "cause": "payments-311 shrinks the connection pool to 4"}
        together.mutate(QUERIES, "explain", cause)
    assert together.receipt is not None
    return (
        f"agent/deploys  2 commits: a guess, then a transaction: {together.receipt.inserted} inserted, {together.receipt.deleted} deleted"
    )


def metrics(place: Path) -> str:
    graph = og.open(place, actor="agent-metrics")
    graph.load(HOME / "findings/metrics.ndjson", mode="append", branch="agent/metrics", from_branch="main", token="metrics-482")
    return "agent/metrics  1 commit:  the cache was slow, so it must be the cache"


# -- parts


def show_changes(graph: og.Graph, branch: str) -> None:
    changes = []
    for change in sorted(graph.diff("main", branch), key=lambda change: (change.kind != "node", change.type_name, change.id)):
        image = change.after or change.before
        assert image is not None
        ends = f"{image.endpoints.from_} -> {image.endpoints.to}" if image.endpoints else change.id
        changes.append({"change": str(change.op), "type": change.type_name, "entity": ends})
    table(changes)


def settle(review: Path, choice: str) -> None:
    """Write a choice into each conflict of the file, as a person would in an editor."""
    document = json.loads(review.read_text())
    for conflict in document["conflicts"]:
        cause = {side: conflict[side]["properties"]["cause"] for side in ("ours", "theirs")}
        tell(f"review.json: {conflict['type_name']} {conflict['id']}, of which both changed: {', '.join(conflict['properties'])}")
        tell(f"  ours:   {cause['ours']}\n  theirs: {cause['theirs']}\n  choice: {choice}")
        conflict["choice"] = choice
    review.write_text(json.dumps(document, indent=2))


def omnigraph(*arguments: str) -> str:
    """Run a command of the command line. Returns what it printed."""
    command = [sys.executable, "-m", "omnigraph.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def ask(graph: og.Graph, name: str, **params: object) -> None:
    tell(f"\n{name}({', '.join(f'{key}: {value}' for key, value in params.items())})")
    table(graph.query(QUERIES, name, params).rows)


if __name__ == "__main__":
    main()
