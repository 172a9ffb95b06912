"""A random generator -> the text of a small schema: keyed and unkeyed nodes of all types, edges of every shape."""

from __future__ import annotations

from random import Random
from typing import Final

NODES: Final = ("Alpha", "Beta", "Gamma", "Delta")
EDGES: Final = ("Knows", "Near", "Owns", "PartOf", "Likes", "Follows", "In", "Path", "Optional")
INTERFACES: Final = ("Shape", "Match")

_PLAIN: Final = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
_NUMBERS: Final = ("I32", "I64", "I64", "U64", "F64", "F64", "F64", "F32")
_LISTS: Final = ("[String]", "[I32]", "[F32]", "[U64]", "[Date]", "[DateTime]", "[Bool]")
_OTHERS: Final = ("enum(red, green, blue)", "enum(a, b)", "Vector(2)")
_KEYS: Final = ("String", "String", "String", "I32", "U64", "Date", "F64", "Bool")
# Words of SQL and of the language are names like any other.
# fmt: off
_NAMES: Final = (
    "name", "rank", "order", "size", "select", "level", "match", "group", "mark", "count", "tag", "limit", "kind", "note", "in", "is",
    "null", "distinct", "exists", "skip", "nulls", "type", "not",
)
# fmt: on
_SHARED: Final = ("label: String", "score: I64?", "flag: Bool?", "since: DateTime?", "weight: F64?", "tags: [String]?", "day: Date?")
"""Properties of interfaces; no type has one of these names for itself."""


def random_schema(rng: Random, *, large: bool, close: bool) -> str:
    """Two to four node types, and edges that join them to themselves, to each other, back again and in parallel.

    In a large graph the first type has a key of which there are many; in one of `close` values most properties are numbers.
    """
    names = NODES[: rng.randint(2, 4)]
    plain = _PLAIN if not close else (*_PLAIN, *_NUMBERS, *_NUMBERS)
    # Few properties to an interface: they add to what every one of its types has.
    interfaces = {name: rng.sample(_SHARED, rng.randint(1, 3)) for name in INTERFACES[: rng.choice((0, 1, 1, 1, 2))]}
    parents = {name: [interface for interface in interfaces if rng.random() < 0.6] for name in names}
    declared = [f"interface {name} {{ {'  '.join(columns)} }}" for name, columns in interfaces.items()]
    nodes = [_node(rng, name, plain, parents[name], many=large and name == NODES[0]) for name in names]
    return "\n".join([*declared, *nodes, *_edges(rng, names, plain)]) + "\n"


def _node(rng: Random, name: str, plain: tuple[str, ...], parents: list[str], *, many: bool) -> str:
    names = rng.sample(_NAMES, rng.randint(4, 8))
    columns = [f"{property_}: {_type(rng, plain)}" for property_ in names]
    match rng.choice(("none", "one", "one", "one", "two")):
        case _ if many:
            columns.insert(0, "key: String @key")
        case "one":
            columns.insert(0, f"key: {rng.choice(_KEYS)} @key")
        case "two":
            columns[:0] = ["first: String", "last: I32", "@key(last, first)"]
        case _:
            pass
    implements = f" implements {', '.join(parents)}" if parents else ""
    return f"node {name}{implements} {{\n  " + "\n  ".join(_indexed(rng, column) for column in columns) + "\n}"


def _type(rng: Random, plain: tuple[str, ...]) -> str:
    written = rng.choice(rng.choices((plain, _LISTS, _OTHERS), (7, 2, 2))[0])
    return written + rng.choice(("", "?", "?"))


def _indexed(rng: Random, column: str) -> str:
    indexable = "[" not in column and "Vector" not in column and "@" not in column
    return f"{column} @index" if indexable and rng.random() < 0.3 else column


def _edges(rng: Random, nodes: tuple[str, ...], plain: tuple[str, ...]) -> list[str]:
    """One edge inside a type and one between two at least; then anything, which often runs parallel to another or back."""
    ends = [(nodes[0], nodes[0]), (nodes[0], nodes[1])]
    while len(ends) < rng.randint(3, len(EDGES)):
        ends.append(rng.choice([(rng.choice(nodes), rng.choice(nodes)), (ends[1][1], ends[1][0]), ends[0], ends[1]]))
    names = rng.sample(EDGES, len(ends))
    return [_edge(rng, name, source, target, plain) for name, (source, target) in zip(names, ends, strict=True)]


def _edge(rng: Random, name: str, source: str, target: str, plain: tuple[str, ...]) -> str:
    names = rng.sample(_NAMES, rng.randint(0, 3))
    body = " ".join(_indexed(rng, f"{property_}: {_type(rng, plain)}") for property_ in names)
    return f"edge {name}: {source} -> {target}" + (f" {{ {body} }}" if body else "")
