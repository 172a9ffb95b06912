"""`python -m scripts.damages`: the table in tests/damages.py -> docs/user/damage.md. Run it after a change."""

from __future__ import annotations

from pathlib import Path

from tests.damages import EXPECTED, FILES, Cell, Harm

PAGE = Path(__file__).resolve().parent.parent / "docs" / "user" / "damage.md"

HEAD = """# Damaged files

What reads, `verify` and `repair` do when files of a graph are lost or changed after they were written: by a failing disk, a partial
restore, or by hand. (What an interrupted write leaves is [resolved by the next writer](durability.md).)

```python
import omnigraph as og

g = og.memory(schema="node Person { name: String @key }")
g.load([{"type": "Person", "data": {"name": "Ada"}}])
for finding in g.verify(deep=True):  # on a disk: every byte, against the checksums that commits recorded
    print(finding.severity, finding.code, finding.path, finding.tables, finding.branches, finding.remedy)
report = g.repair()  # a preview; repair(confirm=True) mends main, repair("work", confirm=True) a branch
print(report.tables, report.lost)
```

## Checksums

- **Recorded at the commit.** On a disk every data, deletion, index and blob file is read once more before a commit names it, and its CRC-32
  becomes part of the commit. Merges carry it along, and a cleanup keeps it. Version files have theirs in the version of `__manifest` that
  names them, and in the next commit. The rows of `__manifest`, branches, tags, intents and the
  retention floor of a cleanup have checksums of their own, which every read checks.
- **Compared by every read and write,** before an answer leaves and before a row is written to a new file; the first time that an open graph
  uses a file. A file of more than 1 MiB also has a checksum for each MiB, and only the parts are compared in which a read finds its columns
  and rows. A data, deletion, blob or version file with another checksum is an error of the kind `corrupt`, with `path`, `table` and
  `reason: wrong_checksum`. An index is passed by, with a warning. Nothing of a changed file gets a new checksum: `optimize`, index
  builds, merges, copies and exports stop.
- **`verify --deep` compares every byte,** also of what no read has used, and of files that were right when an open graph used them. Run it
  as often as you would scrub a disk.
- **Cost.** 0.4 ms of CPU for a MiB, from the page cache, once for an open graph. With 1 million nodes and 1 million edges: the first
  lookup by key 26, 36 ms without and 43, 42 ms with it, the first hop 17, 25 and 44, 44, the first scan of a column 52, 196 and 119, 134
  (two runs each, in turn, on a busy machine). The second time, and small writes, take the same time as without. An index is compared as a
  whole, 10 MB for a million keys. [More](../design/checksums.md#cost).
- **The cached adjacency** has checksums too, on a disk and on an object store. A file with another one is built again, without a warning.
- **Not compared:** files that no commit recorded. **Object stores** keep checksums themselves, and files are not read back there. A graph
  copied from one to a disk has checksums for the files that are written from then on.

## What `verify` looks at

Every version that a branch or a tag keeps, now and in the past: version files, data and deletion files, blobs and indexes with their sizes;
`__manifest`, its commits and the checksums of its rows; branches, native branches, tags, intents and retention floors; for what branches
show now also ids, row counts and ends of edges. Each file is looked at once, however many versions share it. `--deep` reads every byte.
Versions that [cleanup](upkeep.md#cleanup) or a hard drop removed are no damage.

A finding names the file (`path`), the tables, the branches that show it now, the commits that show it, and the remedy; the rows in a lost
file and the newest commit that shows the table without it, if there is one. Damage that only earlier commits show is an error too, except
for an index: reads of those commits scan instead, so that is a warning.

## What `repair` does

| found | classification | with `confirm` |
|---|---|---|
| index files missing, truncated or changed | `damaged_index` | built again, in one commit |
| a table that another program compacted or indexed | `verified_maintenance` | published as it is, all tables in one commit |
| a table in which another program changed rows | `semantic_drift` | refused; with `force` published, if its columns fit the schema |
| a newest version that is incomplete and that no commit shows | `torn_version` | removed |
| what an interrupted hard drop gave up | `given_up_versions` | removed |
| anything else that `verify` finds | in `lost` | nothing: restore the file, or go on from a commit or branch that does not show it |

It never rewrites a row. It looks at the newest commit of one branch, reads every byte of its indexes, and is refused while a write to the
branch is not resolved (`recovery_required`). On the command line: [`omnigraph repair`](cli.md#omnigraph-repair).

To go on without a lost file: `g.branches.create("whole", at=COMMIT)` with a commit that the finding names, or restore the file from a copy
of the graph: files never change after their commit, so any copy that has it has the right one. If `__manifest` itself cannot be read,
restore `__manifest` from a copy; tables without it are plain Lance datasets.

## The table

`tests/unit/exec/test_damages.py` damages one file of a graph with every kind of file, asks eleven questions (by key, by index, words,
nearest, edges, an export, a blob, the commits, a branch, a tag, a diff), verifies and repairs. `./test` tries a third of the cells,
`./test --all` every one, flips with 24 bytes. This table is generated from the expectations of that test (`python -m scripts.damages`).

*tip*: the newest commit shows the file, and is asked. *past*: only earlier commits show it, and one of them is asked. Questions that do not
need the file are always answered right. A `code` under "reads" is the [kind](errors.md#all-kinds) of the error.

A *retention floor*, `_floor.json` in the directory of a line of `__manifest`, says which versions cleanups removed. If it is lost, one
finding names it, and not each of those versions: every such cleanup leaves a version of `__manifest` as only cleanup makes, by which
`verify` knows that there was a floor. The next cleanup that forgets a commit writes the file again. Until then a lost version of that line
is not found.
"""

TITLES = {
    Harm.REMOVED: "The file is removed",
    Harm.TRUNCATED: "The file is cut in half",
    Harm.FLIPPED: "One bit is flipped",
}
NOTES = {
    Harm.REMOVED: "A removed branch or tag looks like a deleted one. The files of the branch stay until the next cleanup.",
    Harm.TRUNCATED: "",
    Harm.FLIPPED: "What can happen, by where the byte is. No read gives a wrong answer.",
}


def page() -> str:
    parts = [HEAD]
    for harm, title in TITLES.items():
        parts += [f"### {title}", ""]
        parts += [NOTES[harm], ""] if NOTES[harm] else []
        parts += ["| file | | reads | `verify` | `verify --deep` | `repair` |", "|---|---|---|---|---|---|"]
        for (key, when, at), cell in EXPECTED.items():
            if at is harm:
                parts.append(f"| {FILES[key].name} | {when} | {' | '.join(map(_text, _columns(cell)))} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _columns(cell: Cell) -> tuple[frozenset[str], ...]:
    return cell.reads, cell.verify, cell.deep, cell.repair


def _text(words: frozenset[str]) -> str:
    return "; ".join(sorted(words, key=lambda word: (word.startswith("`"), word))) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page())
