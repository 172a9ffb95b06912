"""Operations on branches, commits and snapshots, by number of rows, commits, branches and types."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from bench.growth import worlds
from bench.growth.operation import Kind, Operation, Place, Preparation

Work = Callable[[Place], object]

COMMITS = 20
BRANCHES = 5
TYPES = 10


def _open(place: Place) -> object:
    import omnigraph as og

    return og.open(place.uri).snapshot()


def _init(place: Place) -> object:
    import omnigraph as og

    with tempfile.TemporaryDirectory(dir=place.folder) as folder:
        return og.init(f"{folder}/graph.omni", schema=(place.folder / "schema.pg").read_text()).uri


def _in_memory(place: Place) -> None:
    import omnigraph as og

    og.memory(schema=(place.folder / "schema.pg").read_text()).close()


def _copy(place: Place) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return place.graph.copy_to(f"{folder}/copy.omni").uri


def _create(place: Place) -> object:
    return place.graph.branches.create(f"new-{place.turn}")


def _first_touch(place: Place) -> object:
    _create(place)
    return place.graph.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": "ada"}, branch=f"new-{place.turn}")


def _changed(place: Place) -> object:
    before = place.graph.snapshot().commit_id
    place.graph.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": "ada"})
    return list(place.graph.diff(before, "main"))


def _diff_of_one(place: Place) -> None:
    if len(found := list(place.graph.diff("main", "before"))) != 1:
        raise SystemExit(f"the diff found {found[:3]}")


def _merged(place: Place) -> object:
    _first_touch(place)
    return place.graph.merge(f"new-{place.turn}")


def _merged_late(place: Place) -> object:
    _create(place)
    place.graph.mutate(worlds.ADD, params={"name": "ada"}, branch=f"new-{place.turn}")
    return place.graph.merge(f"new-{place.turn}")


def _merge_all(place: Place) -> object:
    """Merge a branch on which every entity was changed into a target that got one more."""
    _create(place)
    everyone = "query all() { update Person set { age: 8 } where age >= 0 }"
    place.graph.mutate(everyone, branch=f"new-{place.turn}")
    place.graph.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": "ada"})
    return place.graph.merge(f"new-{place.turn}")


def _told_conflicts(place: Place) -> int:
    """Tell the conflicts of two branches on which every entity was changed."""
    _create(place)
    for branch, age in ((f"new-{place.turn}", 8), ("main", 9 + place.turn)):
        place.graph.mutate(f"query all() {{ update Person set {{ age: {age} }} where age >= 0 }}", branch=branch)
    return sum(1 for _ in place.graph.merge_conflicts(f"new-{place.turn}"))


def _reverted(place: Place) -> object:
    place.graph.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": f"ada-{place.turn}"})
    return place.graph.revert(place.graph.snapshot().commit_id)


def _transaction(place: Place) -> object:
    with place.graph.transaction() as transaction:
        for turn in range(2):
            transaction.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": f"ada-{place.turn}-{turn}"})
    return transaction.receipt


def _polled(place: Place) -> object:
    """One change, and the page that shows it."""
    cursor = place.graph.changes.poll().cursor
    place.graph.mutate(worlds.ADD.replace("age: 7", 'age: 7, city: "c"'), params={"name": "ada"})
    return place.graph.changes.poll(cursor).blocks


def _polled_late(place: Place) -> object:
    """The page of the last of n commits, for a reader that has all others."""
    last = place.graph.commits(limit=2)[1].id
    return place.graph.changes.poll(start=f"after:{last}").blocks


def _remove(place: Place) -> None:
    _create(place)
    place.graph.branches.delete(f"new-{place.turn}")


def _flat(name: str, covers: tuple[str, ...], world: Preparation, run: Work, *, base: int = 10_000, changes: bool = False) -> Operation:
    return Operation(
        name=name, covers=covers, needs=(world,), run=run, kind=Kind.FLAT, base=base, times=10, changes=changes, repeatable=changes
    )


def _listing(name: str, covers: tuple[str, ...], world: Preparation, run: Work, *, base: int) -> Operation:
    """An operation with a small cost for each entry. It runs 20 times to be measurable."""
    return Operation(name=name, covers=covers, needs=(world,), run=run, base=base, times=20)


def _cleanup(place: Place) -> object:
    return place.graph.cleanup(keep=1)


def _tag(place: Place) -> object:
    return place.graph.tags.create(f"new-{place.turn}", at=1)


def _untag(place: Place) -> None:
    place.graph.tags.create(f"new-{place.turn}")
    place.graph.tags.delete(f"new-{place.turn}")


CREATE = ("branches.create", "omnigraph branch")
MERGE = ("Graph.merge", "branches.merge", "omnigraph branch")
COMMIT = ("Graph.commits", "omnigraph commit")
POLL = ("changes.poll", "omnigraph changes")
SNAPSHOT = ("Graph.snapshot", "omnigraph snapshot")
OPERATIONS = (
    _flat("open a graph of n rows", ("open",), worlds.people, _open),
    _flat("open a graph of n commits", ("open",), worlds.history, _open, base=COMMITS),
    Operation(name="init with n types", covers=("init", "omnigraph init"), needs=(worlds.schema_text,), run=_init, base=TYPES),
    Operation(name="init and close in memory, n types", covers=("memory",), needs=(worlds.schema_text,), run=_in_memory, base=TYPES),
    _flat("snapshot", SNAPSHOT, worlds.people, lambda place: place.graph.snapshot()),
    _flat("snapshot after n commits", SNAPSHOT, worlds.history, lambda place: place.graph.snapshot(), base=COMMITS),
    _flat("branch create, n rows", CREATE, worlds.people, _create, changes=True),
    _flat("branch create, n commits", CREATE, worlds.history, _create, base=COMMITS, changes=True),
    _flat(
        "branch create at the first of n commits",
        CREATE,
        worlds.history,
        lambda place: place.graph.branches.create(f"new-{place.turn}", at=1),
        base=COMMITS,
        changes=True,
    ),
    _flat("branch create and first touch, n rows", CREATE, worlds.indexed_people, _first_touch, changes=True),
    _flat("branch create and delete, n rows", ("branches.delete", "omnigraph branch"), worlds.people, _remove, changes=True),
    _flat("tag create, n commits", ("tags.create", "omnigraph tag"), worlds.history, _tag, base=COMMITS, changes=True),
    _flat("tag create and delete beside n tags", ("tags.delete",), worlds.tagged, _untag, base=BRANCHES, changes=True),
    _listing("list n tags", ("tags.list",), worlds.tagged, lambda place: place.graph.tags.list(), base=BRANCHES),
    _listing("list n branches", ("branches.list",), worlds.branched, lambda place: place.graph.branches.list(), base=BRANCHES),
    _listing("list n commits", COMMIT, worlds.history, lambda place: place.graph.commits(), base=COMMITS),
    _listing("commits of a type among n", COMMIT, worlds.history, lambda place: place.graph.commits(types="Person"), base=COMMITS),
    _listing("graph of n commits", ("Graph.commit_graph",), worlds.history, lambda place: place.graph.commit_graph(), base=COMMITS),
    _listing(
        "commit graph of n branches", ("Graph.commit_graph",), worlds.branched, lambda place: place.graph.commit_graph(), base=BRANCHES
    ),
    _listing("the newest of n commits", COMMIT, worlds.history, lambda place: place.graph.commits(limit=1), base=COMMITS),
    _listing(
        "one of n commits by id",
        ("Graph.commit",),
        worlds.history,
        lambda place: place.graph.commit(place.graph.snapshot().commit_id),
        base=COMMITS,
    ),
    _listing(
        "one of n commits by the beginning of its id",
        ("Graph.commit",),
        worlds.history,
        lambda place: place.graph.commit(place.graph.snapshot().commit_id[:-1]),
        base=COMMITS,
    ),
    Operation(
        name="cleanup of n commits",
        covers=("Graph.cleanup", "omnigraph cleanup"),
        needs=(worlds.history,),
        run=_cleanup,
        base=COMMITS,
        changes=True,
    ),
    Operation(
        name="cleanup beside n forks",
        covers=("Graph.cleanup", "omnigraph cleanup"),
        needs=(worlds.branched,),
        run=_cleanup,
        base=BRANCHES,
        changes=True,
    ),
    _listing("info after n commits", ("Graph.info", "omnigraph info"), worlds.history, lambda place: place.graph.info(), base=COMMITS),
    _listing(
        "recoveries in n commits",
        ("Graph.recoveries", "omnigraph recovery"),
        worlds.history,
        lambda place: place.graph.recoveries(),
        base=COMMITS,
    ),
    Operation(
        name="refresh of n branches",
        covers=("Graph.refresh",),
        needs=(worlds.branched,),
        run=lambda place: place.graph.refresh(),
        base=BRANCHES,
        times=5,
    ),
    Operation(
        name="verify of n commits",
        covers=("Graph.verify",),
        needs=(worlds.history,),
        run=lambda place: place.graph.verify(),
        base=COMMITS,
    ),
    _flat("diff of one entity in n rows", ("Graph.diff",), worlds.indexed_people, _changed, changes=True),
    Operation(
        name="diff of n entities",
        covers=("Graph.diff",),
        needs=(worlds.people,),
        run=lambda place: sum(1 for _ in place.graph.diff(1, "main")),
    ),
    _flat(
        "changes of one commit of n",
        ("Graph.commit_changes", "omnigraph commit"),
        worlds.history,
        lambda place: list(place.graph.commit_changes(place.graph.snapshot().commit_id)),
        base=COMMITS,
    ),
    _flat(
        "page of one commit of n",
        ("changes.commit",),
        worlds.history,
        lambda place: place.graph.changes.commit(place.graph.snapshot().commit_id),
        base=COMMITS,
    ),
    _flat("poll without new commits, n commits", POLL, worlds.history, lambda place: place.graph.changes.poll(), base=COMMITS),
    _flat("poll without new commits, n rows", POLL, worlds.people, lambda place: place.graph.changes.poll()),
    _flat("poll of one change in n rows", POLL, worlds.indexed_people, _polled, changes=True),
    _flat("poll of the last of n commits", POLL, worlds.history, _polled_late, base=COMMITS),
    Operation(
        name="baseline of n rows",
        covers=("changes.baseline",),
        needs=(worlds.people,),
        run=lambda place: sum(1 for _ in place.graph.changes.baseline()),
    ),
    Operation(
        name="follow n commits",
        covers=("changes.follow",),
        needs=(worlds.history,),
        run=lambda place: sum(1 for _ in place.graph.changes.follow(start="beginning", wait=0)),
        base=COMMITS,
    ),
    _flat("merge of one entity, n rows", MERGE, worlds.indexed_people, _merged, changes=True),
    _flat("merge of one entity, n commits", MERGE, worlds.history, _merged_late, base=COMMITS, changes=True),
    _flat("diff across an optimize of n rows", ("Graph.diff", "omnigraph commit"), worlds.compacted_people, _diff_of_one),
    Operation(
        name="merge across an optimize of n rows",
        covers=MERGE,
        needs=(worlds.compacted_people,),
        run=lambda place: place.graph.merge("before"),
        kind=Kind.FLAT,
        times=3,
        changes=True,
    ),
    Operation(name="merge of n entities", covers=MERGE, needs=(worlds.people,), run=_merge_all, changes=True),
    Operation(name="conflicts of n entities", covers=("Graph.merge_conflicts",), needs=(worlds.people,), run=_told_conflicts, changes=True),
    Operation(
        name="log of an entity in n commits",
        covers=("Graph.log", "omnigraph log"),
        needs=(worlds.history,),
        run=lambda place: list(place.graph.log("Person", "person-1")),
        base=COMMITS,
    ),
    _flat("revert of one commit, n rows", ("Graph.revert", "omnigraph commit"), worlds.indexed_people, _reverted, changes=True),
    _flat("transaction of two mutations, n rows", ("Graph.transaction",), worlds.indexed_people, _transaction, changes=True),
    Operation(
        name="copy of n branches",
        covers=("Graph.copy_to",),
        needs=(worlds.branched,),
        run=_copy,
        base=BRANCHES,
    ),
)
