"""A directory and a size -> graphs and input files in it, the input of operations.

Ids are not sorted, as in most data. Each preparation also records the size of its rows in memory (`data.bytes`), to which peak memory is
compared.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from bench.growth.operation import GRAPH

SIZE: Final = "data.bytes"
PEOPLE: Final = "people.parquet"
KNOWS: Final = "knows.parquet"
LINES: Final = "people.ndjson"
DEGREE: Final = 2
CITIES: Final = 50
BLOB_BYTES: Final = 512
SCHEMA: Final = """
node Person {
  name: String @key
  age: I32
  city: String
  score: F64?
}
node Account {
  number: String @key
  owner: String
}
edge Knows: Person -> Person { since: I32? }
"""
BLOBS: Final = "node Script { code: String @key  body: Blob? }"
DOCUMENTS: Final = "node Document { code: String @key  text: String  vector: Vector(16)? @embed(text) }"
HISTORY: Final = "node Person { name: String @key  age: I32 }"
ADD: Final = "query add($name: String) { insert Person { name: $name, age: 7 } }"


# -- rows


def people_rows(n: int, *, first: int = 0, seed: int = 7) -> pa.Table:
    chance = np.random.default_rng(seed)
    columns = {
        "name": labels("person-", first + chance.permutation(n)),
        "age": pa.array(chance.integers(0, 100, n), pa.int32()),
        "city": labels("city-", chance.integers(0, CITIES, n)),
        "score": pa.array(chance.random(n)),
    }
    return pa.table(columns)


def knows_rows(n: int) -> pa.Table:
    chance = np.random.default_rng(11)
    ends = chance.integers(0, n, (2, DEGREE * n))
    years = pa.array(chance.integers(1990, 2030, DEGREE * n), pa.int32())
    return pa.table({"from": labels("person-", ends[0]), "to": labels("person-", ends[1]), "since": years})


def account_rows(n: int) -> pa.Table:
    chance = np.random.default_rng(13)
    return pa.table({"number": labels("account-", chance.permutation(n)), "owner": labels("person-", chance.permutation(n))})


def labels(prefix: str, numbers: Any) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=8, padding="0"), "")


def _note(folder: Path, *tables: pa.Table) -> None:
    """Add the size of the rows to the recorded size."""
    file = folder / SIZE
    before = int(file.read_text()) if file.exists() else 0
    file.write_text(str(before + sum(table.nbytes for table in tables)))


# -- graphs


def empty(folder: Path, n: int) -> None:
    _graph(folder)


def people(folder: Path, n: int) -> None:
    rows = people_rows(n)
    _graph(folder).load({"Person": rows}, mode="append")
    _note(folder, rows)


def indexed_people(folder: Path, n: int) -> None:
    import omnigraph as og

    people(folder, n)
    og.open(folder / GRAPH).ensure_indices()


def social(folder: Path, n: int) -> None:
    """n people, two edges each."""
    rows, links = people_rows(n), knows_rows(n)
    _graph(folder).load({"Person": rows, "Knows": links}, mode="append")
    _note(folder, rows, links)


def indexed_social(folder: Path, n: int) -> None:
    import omnigraph as og

    social(folder, n)
    og.open(folder / GRAPH).ensure_indices()


def scattered_people(folder: Path, n: int) -> None:
    """n people in twenty fragments, a fifth of them deleted again, without indexes."""
    rows = people_rows(n)
    graph = _graph(folder)
    for part in range(20):
        graph.load({"Person": rows.slice(part * n // 20, n // 20)}, mode="append")
    graph.mutate("query q() { delete Person where age < 20 }")
    _note(folder, rows)


def compacted_people(folder: Path, n: int) -> None:
    """n people in twenty fragments, a branch with one change, and then an optimize of all rows."""
    rows = people_rows(n)
    graph = _graph(folder)
    for part in range(20):
        graph.load({"Person": rows.slice(part * n // 20, n // 20)}, mode="append")
    graph.branches.create("before")
    graph.mutate(ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": "ada"}, branch="before")
    graph.optimize()
    _note(folder, rows)


def optimized_social(folder: Path, n: int) -> None:
    import omnigraph as og

    social(folder, n)
    og.open(folder / GRAPH).optimize()


def accounts(folder: Path, n: int) -> None:
    """n people, and n accounts with one of their names as owner."""
    rows, owned = people_rows(n), account_rows(n)
    _graph(folder).load({"Person": rows, "Account": owned}, mode="append")
    _note(folder, rows, owned)


def blobs(folder: Path, n: int) -> None:
    codes = labels("script-", np.arange(n))
    bodies = pa.array([bytes([at % 251]) * BLOB_BYTES for at in range(n)], pa.binary())
    rows = pa.table({"code": codes, "body": bodies})
    graph = _graph(folder, BLOBS)
    graph.load({"Script": rows}, mode="append")
    graph.ensure_indices()
    _note(folder, rows)


def documents(folder: Path, n: int) -> None:
    """n texts without vectors."""
    rows = pa.table({"code": labels("document-", np.arange(n)), "text": labels("about ", np.arange(n))})
    _graph(folder, DOCUMENTS).load({"Document": rows}, mode="append")
    _note(folder, rows)


def history(folder: Path, n: int) -> None:
    """One row and n commits."""
    graph = _graph(folder, HISTORY)
    for at in range(n):
        graph.mutate(ADD, params={"name": f"person-{at % 10}"})
    _note(folder)


def branched(folder: Path, n: int) -> None:
    """A graph of one row with n branches, each with a change."""
    graph = _graph(folder, HISTORY)
    graph.mutate(ADD, params={"name": "ada"})
    for at in range(n):
        graph.branches.create(f"branch-{at}")
        graph.mutate(ADD, params={"name": "bob"}, branch=f"branch-{at}")
    _note(folder)


def tagged(folder: Path, n: int) -> None:
    """A graph of one row with n tags."""
    graph = _graph(folder, HISTORY)
    graph.mutate(ADD, params={"name": "ada"})
    for at in range(n):
        graph.tags.create(f"tag-{at}")
    _note(folder)


def schema_text(folder: Path, n: int) -> None:
    """A schema of n types."""
    (folder / "schema.pg").write_text("\n".join(f"node Type{at} {{ name: String @key  age: I32? }}" for at in range(n)))


def _graph(folder: Path, schema: str = SCHEMA) -> Any:
    import omnigraph as og

    return og.init(folder / GRAPH, schema=schema)


# -- killed loads


def killed_before_publish(folder: Path, n: int) -> None:
    """A load of n rows and their edges, killed between table commits and publication. The next writer completes it."""
    _killed(folder, n, "write.committed")


def killed_between_tables(folder: Path, n: int) -> None:
    """A load of n rows and their edges, killed after the commit of its first table. The next writer rolls it back."""
    _killed(folder, n, "write.between_tables")


def _killed(folder: Path, n: int, point: str) -> None:
    empty(folder, n)
    new_people(folder, n)
    new_edges(folder, n)
    code = (
        "import sys, omnigraph as og; folder = sys.argv[1]; "
        f"og.open(folder + '/{GRAPH}').load({{'Person': folder + '/{PEOPLE}', 'Knows': folder + '/{KNOWS}'}}, mode='append')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=os.environ | {"OMNIGRAPH_FAULT": f"{point}=kill"}, check=False)
    if done.returncode != -signal.SIGKILL:
        raise SystemExit(f"the load was not killed at {point}")


# -- input files


def new_people(folder: Path, n: int) -> None:
    """n people that `people` does not contain."""
    _people_file(folder, people_rows(n, first=n))


def same_people(folder: Path, n: int) -> None:
    """n people that `people` contains, with other values."""
    _people_file(folder, people_rows(n, seed=23))


def _people_file(folder: Path, rows: pa.Table) -> None:
    pq.write_table(rows, folder / PEOPLE)
    _note(folder, rows)


def new_edges(folder: Path, n: int) -> None:
    """Two edges for each of the people in `people`."""
    rows = knows_rows(n)
    if (folder / PEOPLE).exists():  # between the people of that file
        names = pq.read_table(folder / PEOPLE)["name"].combine_chunks()
        ends = np.random.default_rng(17).integers(0, n, (2, len(rows)))
        rows = rows.set_column(0, "from", names.take(pa.array(ends[0]))).set_column(1, "to", names.take(pa.array(ends[1])))
    pq.write_table(rows, folder / KNOWS)
    _note(folder, rows)


def ndjson(folder: Path, n: int) -> None:
    rows = people_rows(n)
    with (folder / LINES).open("w") as file:
        file.writelines(_lines(rows))
    _note(folder, rows)


def zipped(folder: Path, n: int) -> None:
    rows = people_rows(n)
    with gzip.open(folder / f"{LINES}.gz", "wt", compresslevel=1) as file:
        file.writelines(_lines(rows))
    _note(folder, rows)


def csv(folder: Path, n: int) -> None:
    rows = people_rows(n)
    pyarrow.csv.write_csv(rows, folder / "people.csv")
    _note(folder, rows)


def _lines(rows: pa.Table) -> Iterator[str]:
    for row in rows.to_pylist():
        yield json.dumps({"type": "Person", "data": row}) + "\n"
