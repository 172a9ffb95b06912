"""The papers as records. The summaries are ours. Of long lists of authors, and of citations, only a part is here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Record = dict[str, Any]


class Paper(NamedTuple):
    slug: str
    title: str
    year: int
    authors: tuple[str, ...]
    topics: tuple[str, ...]
    cites: tuple[str, ...]
    summary: str


PAPERS = (
    Paper(
        "relational-model",
        "A Relational Model of Data for Large Shared Data Banks",
        1970,
        ("E. F. Codd",),
        ("storage", "query processing"),
        (),
        "Data is kept in tables, and programs ask for what they want without knowing how it is stored or which path leads to it.",
    ),
    Paper(
        "access-paths",
        "Access Path Selection in a Relational Database Management System",
        1979,
        ("Patricia Selinger", "Morton Astrahan", "Donald Chamberlin", "Raymond Lorie", "Thomas Price"),
        ("query processing",),
        ("relational-model",),
        "An optimizer estimates the cost of many ways to run an SQL query, orders the joins and picks the cheapest plan.",
    ),
    Paper(
        "volcano",
        "Volcano: An Extensible and Parallel Query Evaluation System",
        1994,
        ("Goetz Graefe",),
        ("query processing",),
        (),
        "Operators of a query call each other for the next row, so that plans can be composed and run in parallel.",
    ),
    Paper(
        "lsm-tree",
        "The Log-Structured Merge-Tree",
        1996,
        ("Patrick O'Neil", "Edward Cheng", "Dieter Gawlick", "Elizabeth O'Neil"),
        ("storage",),
        (),
        "Writes are gathered in memory and merged to disk in large sorted runs, which makes inserts cheap at high rates.",
    ),
    Paper(
        "c-store",
        "C-Store: A Column-oriented DBMS",
        2005,
        ("Michael Stonebraker", "Daniel Abadi", "Elizabeth O'Neil", "Patrick O'Neil", "Samuel Madden"),
        ("storage", "query processing"),
        (),
        "A database that stores columns instead of rows reads only what a query needs, and compresses it well.",
    ),
    Paper(
        "x100",
        "MonetDB/X100: Hyper-Pipelining Query Execution",
        2005,
        ("Peter Boncz", "Marcin Zukowski", "Niels Nes"),
        ("query processing",),
        ("volcano",),
        "Columns are processed in small vectors that fit into the cache of the processor, instead of one row at a time.",
    ),
    Paper(
        "mapreduce",
        "MapReduce: Simplified Data Processing on Large Clusters",
        2004,
        ("Jeffrey Dean", "Sanjay Ghemawat"),
        ("distribution",),
        (),
        "Two functions describe a computation on thousands of machines; the system splits the input and repeats what fails.",
    ),
    Paper(
        "bigtable",
        "Bigtable: A Distributed Storage System for Structured Data",
        2006,
        ("Fay Chang", "Jeffrey Dean", "Sanjay Ghemawat", "Wilson Hsieh"),
        ("distribution", "storage"),
        ("lsm-tree", "c-store", "mapreduce"),
        "A sorted map over many servers keeps petabytes of structured data in immutable files with several versions of each cell.",
    ),
    Paper(
        "paxos",
        "The Part-Time Parliament",
        1998,
        ("Leslie Lamport",),
        ("distribution",),
        (),
        "Processes that may stop and return agree on one value, told as the law-making of a Greek island.",
    ),
    Paper(
        "spanner",
        "Spanner: Google's Globally-Distributed Database",
        2012,
        ("James Corbett", "Jeffrey Dean", "Sanjay Ghemawat"),
        ("distribution", "storage"),
        ("bigtable", "paxos"),
        "Transactions across continents read a consistent snapshot, because clocks tell how uncertain they are.",
    ),
    Paper(
        "rdd",
        "Resilient Distributed Datasets: A Fault-Tolerant Abstraction for In-Memory Cluster Computing",
        2012,
        ("Matei Zaharia", "Mosharaf Chowdhury", "Michael Franklin", "Scott Shenker", "Ion Stoica"),
        ("distribution",),
        ("mapreduce",),
        "Data sets stay in the memory of a cluster and are computed again from their lineage when a machine is lost.",
    ),
    Paper(
        "pagerank",
        "The Anatomy of a Large-Scale Hypertextual Web Search Engine",
        1998,
        ("Sergey Brin", "Lawrence Page"),
        ("retrieval", "graphs"),
        (),
        "A search engine ranks pages by the links that lead to them, along with the words that they contain.",
    ),
    Paper(
        "bm25",
        "The Probabilistic Relevance Framework: BM25 and Beyond",
        2009,
        ("Stephen Robertson", "Hugo Zaragoza"),
        ("retrieval",),
        (),
        "How well a document answers words is estimated from how often they occur, how rare they are and how long it is.",
    ),
    Paper(
        "rrf",
        "Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods",
        2009,
        ("Gordon Cormack", "Charles Clarke", "Stefan Buettcher"),
        ("retrieval",),
        (),
        "Several rankings become one by adding the reciprocals of the ranks, which beats each of them and needs no training.",
    ),
    Paper(
        "pq",
        "Product Quantization for Nearest Neighbor Search",
        2011,
        ("Hervé Jégou", "Matthijs Douze", "Cordelia Schmid"),
        ("retrieval", "vectors"),
        (),
        "Vectors are cut into parts and each part is replaced by a short code, so that billions are compared in memory.",
    ),
    Paper(
        "hnsw",
        "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs",
        2016,
        ("Yury Malkov", "Dmitry Yashunin"),
        ("vectors", "graphs"),
        ("pq",),
        "Points are linked to their neighbours in layers; a greedy walk from the top finds the closest in few steps.",
    ),
    Paper(
        "word2vec",
        "Efficient Estimation of Word Representations in Vector Space",
        2013,
        ("Tomas Mikolov", "Kai Chen", "Greg Corrado", "Jeffrey Dean"),
        ("vectors", "language"),
        (),
        "Words become vectors by predicting their neighbours; sums and differences of the vectors carry meaning.",
    ),
    Paper(
        "glove",
        "GloVe: Global Vectors for Word Representation",
        2014,
        ("Jeffrey Pennington", "Richard Socher", "Christopher Manning"),
        ("vectors", "language"),
        ("word2vec",),
        "Meanings of words are learned as vectors from how often they occur together in a whole corpus.",
    ),
    Paper(
        "align",
        "Neural Machine Translation by Jointly Learning to Align and Translate",
        2015,
        ("Dzmitry Bahdanau", "Kyunghyun Cho", "Yoshua Bengio"),
        ("language",),
        (),
        "While it writes a sentence in another language, a network decides which words of the source to look at.",
    ),
    Paper(
        "attention",
        "Attention Is All You Need",
        2017,
        ("Ashish Vaswani", "Noam Shazeer", "Niki Parmar", "Jakob Uszkoreit", "Llion Jones", "Aidan Gomez"),
        ("language",),
        ("align",),
        "A network for translation without recurrence: every word attends to all others, and training runs in parallel.",
    ),
    Paper(
        "bert",
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
        2019,
        ("Jacob Devlin", "Ming-Wei Chang", "Kenton Lee", "Kristina Toutanova"),
        ("language",),
        ("attention", "glove"),
        "A model reads text in both directions by guessing hidden words, and is then tuned for any task with little data.",
    ),
    Paper(
        "dpr",
        "Dense Passage Retrieval for Open-Domain Question Answering",
        2020,
        ("Vladimir Karpukhin", "Barlas Oğuz", "Sewon Min", "Patrick Lewis"),
        ("retrieval", "language", "vectors"),
        ("bert", "bm25"),
        "Questions and passages are encoded as vectors, and the passage with the nearest one answers better than matching words.",
    ),
    Paper(
        "colbert",
        "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over BERT",
        2020,
        ("Omar Khattab", "Matei Zaharia"),
        ("retrieval", "language", "vectors"),
        ("bert",),
        "Each word of a query meets the most similar word of a passage, late, so that passages can be encoded beforehand.",
    ),
)


def records() -> Iterator[Record]:
    """Every node and edge as a line of a file would hold it, without vectors: these are made as the records are loaded."""
    for name in sorted({author for paper in PAPERS for author in paper.authors}):
        yield {"type": "Author", "data": {"name": name}}
    for name in sorted({topic for paper in PAPERS for topic in paper.topics}):
        yield {"type": "Topic", "data": {"name": name}}
    for paper in PAPERS:
        yield {"type": "Paper", "data": {"slug": paper.slug, "title": paper.title, "year": paper.year, "summary": paper.summary}}
        for place, author in enumerate(paper.authors, start=1):
            yield {"edge": "Wrote", "from": author, "to": paper.slug, "data": {"place": place}}
        for topic in paper.topics:
            yield {"edge": "About", "from": paper.slug, "to": topic}
        for cited in paper.cites:
            yield {"edge": "Cites", "from": paper.slug, "to": cited}
