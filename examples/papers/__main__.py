"""`python -m examples.papers [FOLDER]`: papers are loaded and embedded, then found by words, by meaning, by both, and along citations.

The embedder is `local`: a small model that runs in the process, without a key or a network (`pip install 'omnigraph[local]'`). The
graph is made anew in FOLDER (`.papers` by default) by every run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import omnigraph as og
from examples.papers import data
from examples.printing import empty_folder, heading, table, tell

HOME = Path(__file__).resolve().parent
QUERIES = (HOME / "queries.gq").read_text("utf-8")
LISTS = "combine two lists of results into one"
TERMS = "synonyms and related terms"


def main() -> None:
    folder = empty_folder(Path(sys.argv[1] if len(sys.argv) > 1 else ".papers"), ours="papers.omni")
    embedder = og.EmbeddingProvider(kind="local")
    graph = og.init(folder / "papers.omni", schema=(HOME / "schema.pg").read_text("utf-8"), actor="act-ines", embedding=embedder)

    heading("1. Load: the summaries are embedded on the way in")
    loaded = graph.load(data.records(), mode="append", message="papers, authors, topics")
    counts = ", ".join(f"{name} {count}" for name, count in {**loaded.nodes, **loaded.edges}.items())
    missing = graph.query("match { $p: Paper  $p.vec is null } return { count($p) as papers }").rows[0]["papers"]
    tell(f"{loaded.total} records in one commit: {counts}\npapers without a vector: {missing}")

    heading("2. One question, three rankings")
    ask(graph, "by_words", words=LISTS)
    ask(graph, "by_meaning", question=LISTS)
    ask(graph, "hybrid", question=LISTS)

    heading("3. Words that no summary has")
    ask(graph, "by_words", words=TERMS)
    ask(graph, "by_meaning", question=TERMS)

    heading("4. Search inside the graph: a topic, a year, the first author; then what the hits build on")
    hits = ask(graph, "hybrid_on_topic", question="answers to questions", topic="retrieval", after=2000)
    ask(graph, "foundations", papers=[row["paper"] for row in hits])
    ask(graph, "lineage", **{"from": "colbert", "to": "word2vec"})

    heading("5. Without a search: counts, and words with mistakes")
    ask(graph, "prolific")
    ask(graph, "misspelt", words="quantisation neighbour")

    heading("6. A better summary, on a branch: its vector follows")
    graph.branches.create("edit")
    better = "Ranked lists of results from several systems are combined into one list by their ranks alone."
    graph.mutate(QUERIES, "rewrite", {"slug": "rrf", "summary": better}, branch="edit", message="a clearer summary")
    (change,) = graph.diff("main", "edit")
    assert change.before is not None
    assert change.after is not None
    changed = [name for name, value in change.after.properties.items() if value != change.before.properties[name]]
    tell(f"{change.op} {change.type_name} {change.id}: {', '.join(sorted(changed))}")
    for branch in ("main", "edit"):
        best = graph.query(QUERIES, "by_meaning", {"question": LISTS}, branch=branch).rows[0]
        tell(f"nearest on {branch}: {best['paper']}, distance {best['distance']:.3f}")
    tell(f"merge: {graph.merge('edit', delete_source=True).outcome}")

    heading("7. Indexes make it faster, and change no answer")
    before = graph.query(QUERIES, "hybrid", {"question": LISTS}).rows
    built = graph.ensure_indices()
    tell(f"{len(built.built)} built, {len(built.pending)} pending: {', '.join(f'{one.column} ({one.reason})' for one in built.pending)}")
    tell(f"the same answer: {graph.query(QUERIES, 'hybrid', {'question': LISTS}).rows == before}")


def ask(graph: og.Graph, name: str, **params: object) -> list[dict[str, object]]:
    tell(f"\n{name}({', '.join(f'{key}: {value}' for key, value in params.items())})")
    rows = graph.query(QUERIES, name, params).rows
    table(rows)
    return rows


if __name__ == "__main__":
    main()
