"""An adjacency is what the tables say: built, extended, or read from the cache, on any branch, at any version."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency import topology as module
from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.plan.statistics import Availability

from .town import Town

NAMES = [f"p{number}" for number in range(12)]


def city(folder: Path, *, square: bool = True, people: int = 40, edges: int = 200) -> Town:
    """Large enough that one more edge is a small change."""
    town = Town(folder, square=square)
    town.add_people(f"p{number}" for number in range(people))
    if not square:
        town.add_films(f"f{number}" for number in range(people))
    other = "p" if square else "f"
    town.link((f"e{number}", f"p{number * 7 % people}", f"{other}{number * number % people}") for number in range(edges))
    return town


def mapped(adjacency: Adjacency) -> bool:
    """Read from a file rather than made."""
    return not adjacency.csr.edges.flags.writeable


@pytest.mark.parametrize("square", [True, False])
def test_an_adjacency_is_what_the_tables_say(tmp_path: Path, square: bool) -> None:
    town = city(tmp_path, square=square)
    found = town.check(town.topology())
    assert found.csr.square is square
    assert len(found.csr.near.targets) < len(found.csr.stored.targets), "some of the edges are parallel"


def test_edges_without_an_end_are_left_out(tmp_path: Path) -> None:
    town = city(tmp_path)
    town.link([("d1", "p1", "nobody"), ("d2", "nobody", "p1"), ("d3", "nobody", "nobody")])
    assert len(town.check(town.topology()).csr.edges) == 200


def test_empty_tables_have_an_empty_adjacency(tmp_path: Path) -> None:
    town = Town(tmp_path)
    topology = town.topology()
    assert len(town.check(topology)) == 0
    assert len(town.check(town.topology())) == 0, "and so from the file"
    town.add_people(["a", "b"])
    town.link([("e", "a", "b")])
    assert len(town.check(topology)) == 1


def test_an_edge_that_came_first_counts_once_its_end_is_there(tmp_path: Path) -> None:
    town = city(tmp_path)
    town.link([("early", "p1", "late")])
    topology = town.topology()
    assert len(town.check(topology)) == 200
    town.add_people(["late"])
    assert len(town.check(topology)) == 201


def test_a_version_of_the_past_has_the_topology_of_its_day(tmp_path: Path) -> None:
    """T-01: A version of the past has the adjacency of its time, also if it is derived from a newer one."""
    town = city(tmp_path)
    then = (town.people, town.knows)
    town.link([("new", "p1", "p2")])
    town.unlink(["e3", "e4"])
    town.remove_people(["p9"])
    topology = town.topology()
    town.check(topology)
    town.people, town.knows = then
    assert len(town.check(topology)) == 200


def test_the_rows_of_a_fragment_are_found_when_the_fragment_before_it_is_gone(tmp_path: Path) -> None:
    """Its ids are then a slice of the older column, and some of them are deleted at the same time."""
    town = Town(tmp_path)
    town.add_people(f"first{number}" for number in range(10))
    town.add_people(f"second{number}" for number in range(10))
    town.link((f"e{number}", f"second{number % 10}", f"second{number * 3 % 10}") for number in range(40))
    topology = town.topology()
    assert len(town.check(topology)) == 40
    town.remove_people([*(f"first{number}" for number in range(10)), "second1"])
    assert len(town.check(topology)) == 40 - 8


STEP = st.one_of(
    st.tuples(st.just("add_people"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("touch_people"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("remove_people"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)),
    st.tuples(st.just("link"), st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), min_size=1, max_size=4)),
    st.tuples(st.just("unlink"), st.lists(st.integers(0, 60), min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["compact", "branch", "restart", "back"]), st.none()),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(STEP, max_size=7))
def test_whatever_happens_to_the_tables_the_adjacency_follows(steps: list[tuple[str, object]]) -> None:
    """Law: extended = built. People come, move (an upsert) and go, edges too; tables are compacted and branched."""
    with tempfile.TemporaryDirectory() as folder:
        town = Town(Path(folder))
        people = set(NAMES[:8])
        town.add_people(sorted(people))
        town.link((f"e{at}", NAMES[at % 8], NAMES[at * 3 % 8]) for at in range(50))
        edges, topology = 50, town.topology()
        town.check(topology)
        before = (town.people, town.knows)
        for at, (kind, given_) in enumerate(steps):
            now = (town.people, town.knows)
            match kind, given_:
                case "add_people", list(names):
                    town.add_people(sorted(set(names) - people))
                    people |= set(names)
                case "touch_people", list(names):
                    town.touch_people(names)
                    people |= set(names)
                case "remove_people", list(names):
                    town.remove_people(names)
                    people -= set(names)
                case "link", list(pairs):
                    town.link((f"e{edges + n}", left, right) for n, (left, right) in enumerate(pairs))
                    edges += len(pairs)
                case "unlink", list(numbers):
                    town.unlink(f"e{number}" for number in numbers)
                case "compact", _:
                    town.compact()
                case "branch", _:
                    town.branch(f"b{at}-0000000000000000")
                case "restart", _:
                    topology = town.topology()
                case "back", _:
                    town.people, town.knows = before
                    town.check(topology)
                    town.people, town.knows = now
            before = now
            town.check(topology)


def test_a_new_process_maps_what_another_has_built(tmp_path: Path) -> None:
    town = city(tmp_path)
    assert town.topology().availability(*town.rows()) is Availability.MISSING
    assert not mapped(town.check(town.topology()))
    later = town.topology()
    assert later.availability(*town.rows()) is Availability.CACHE
    assert mapped(town.check(later))


@pytest.mark.parametrize("lookups", [2, 4])
def test_ids_are_read_once_lookups_have_cost_as_much(tmp_path: Path, lookups: int) -> None:
    town = Town(tmp_path)
    town.add_people(f"p{at}" for at in range(lookups * module.IDS_A_LOOKUP - 1))
    _, people, _ = town.rows()
    topology = town.topology()
    assert [topology.known_ids(people) is not None for _ in range(lookups + 2)] == [False] * lookups + [True] * 2
    assert town.topology().known_ids(people) is not None, "another process finds them in the cache"


def test_a_new_process_extends_what_another_has_written(tmp_path: Path) -> None:
    town = city(tmp_path)
    town.check(town.topology())
    files = len(list(town.cache.iterdir()))
    town.link([("one", "p1", "p2")])
    town.check(town.topology())
    assert len(list(town.cache.iterdir())) == files, "a small change is not worth a file"
    town.link((f"more{at}", "p1", "p2") for at in range(40))
    town.check(town.topology())
    assert len(list(town.cache.iterdir())) == files + 2, "one for each direction"


def test_a_direction_is_built_when_it_is_asked_for(tmp_path: Path) -> None:
    town = city(tmp_path)
    topology = town.topology()
    topology.adjacency(*town.rows(), back=True)
    assert sorted(file.name.split("-")[0] for file in town.cache.iterdir()) == ["back", "ids"]
    assert topology.availability(*town.rows()) is Availability.MEMORY
    assert town.topology().availability(*town.rows()) is Availability.CACHE
    assert town.topology().known_edges(*town.rows()) == 200
    town.check(town.topology())
    assert sorted(file.name.split("-")[0] for file in town.cache.iterdir()) == ["back", "edges", "ids"]


def test_two_directions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Both files are there and neither is whole: each direction could be turned from the other, which is not there either."""
    town = city(tmp_path)
    town.check(town.topology())
    for file in town.cache.iterdir():
        file.write_bytes(b"")
    topology, start = town.topology(), threading.Barrier(2)

    def ask(back: bool) -> None:
        start.wait()
        topology.adjacency(*town.rows(), back=back)

    threads = [threading.Thread(target=ask, args=(back,), daemon=True) for back in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    town.check(topology)


def test_two_threads_build_once(tmp_path: Path) -> None:
    town = city(tmp_path, people=500, edges=3000)
    topology, found, start = town.topology(), list[Adjacency](), threading.Barrier(4)

    def ask() -> None:
        start.wait()
        found.append(topology.adjacency(*town.rows()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one is found[0] for one in found)


def test_only_so_many_stay_in_memory(tmp_path: Path) -> None:
    town = city(tmp_path)
    topology = town.topology()
    first = town.rows()
    kept = topology.adjacency(*first)
    for at in range(module.ADJACENCIES):
        town.link([(f"x{at}", "p1", "p2")])
        topology.adjacency(*town.rows())
    assert topology.adjacency(*first) is not kept
