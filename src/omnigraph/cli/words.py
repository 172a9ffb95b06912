"""The text before the cursor, a catalog and names -> the words that may stand there, for the shell. Pure.

It looks at the words around the cursor and never parses: a text that is being typed is seldom whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

COMMANDS: Final = ("\\at", "\\branch", "\\explain", "\\help", "\\quit", "\\schema", "\\set", "\\timing", "\\unset")
KEYWORDS: Final = (
    *("match", "return", "distinct", "order", "asc", "desc", "nulls", "first", "last", "skip", "limit", "as", "path"),
    *("not", "exists", "optional", "either", "or", "and", "in", "is", "null", "true", "false", "contains", "starts_with", "ends_with"),
    *("insert", "create", "upsert", "update", "set", "where", "delete", "from", "to", "query"),
    *("count", "sum", "avg", "min", "max", "collect", "search", "match_text", "fuzzy", "nearest", "bm25", "rrf", "now", "nodes"),
    *("lower", "upper", "trim", "length", "substring", "coalesce", "abs", "round", "floor", "ceil"),
    *("year", "month", "day", "hour", "date", "datetime"),
)

_WORD: Final = re.compile(r"\\?[\w]*$")
_MEMBER: Final = re.compile(r"\$(\w+)\.\w*$")
_VARIABLE: Final = re.compile(r"\$\w*$")
_AFTER_COLON: Final = re.compile(r":\s*\w*$")
_AFTER_CHANGE: Final = re.compile(r"\b(?:insert|create|upsert|update|delete)\s+\w*$")
_AFTER_NODE: Final = re.compile(r"\$\w+\s+(?:<?(?:\w+\|)*)\w*$")
_IN_BRACES: Final = re.compile(r"\b([A-Z]\w*)\s*\{[^{}]*?(?:\{|,|\s)\s*\w*$|\b([A-Z]\w*)\s*\{\w*$")


class KnownNames(NamedTuple):
    """What names there are: the schema, the branches, the tags, and the parameters that have been set."""

    catalog: Catalog
    branches: Sequence[str] = ()
    tags: Sequence[str] = ()
    parameters: Sequence[str] = ()


def words(before: str, known: KnownNames) -> tuple[str, list[str]]:
    """Return the beginning of the word at the cursor, and the words that begin like it, sorted."""
    if before.lstrip().startswith("\\") and not before.lstrip().startswith("\\explain "):
        begun, found = _of_command(before.lstrip(), known)
    else:
        begun, found = _of_query(before, known)
    folded = begun.lower()
    return begun, sorted({word for word in found if word.lower().startswith(folded)})


def _of_command(line: str, known: KnownNames) -> tuple[str, Sequence[str]]:
    command, space, rest = line.partition(" ")
    if not space:
        return command, COMMANDS
    found: dict[str, Sequence[str]] = {
        "\\branch": known.branches,
        "\\at": (*known.tags, "now"),
        "\\schema": _types(known.catalog),
        "\\set": known.parameters,
        "\\timing": ("on", "off"),
        "\\unset": known.parameters,
    }
    return rest.lstrip(), found.get(command, ())


def _of_query(before: str, known: KnownNames) -> tuple[str, Sequence[str]]:
    catalog = known.catalog
    matched = _WORD.search(before)
    word = matched.group() if matched is not None else ""
    if (member := _MEMBER.search(before)) is not None:
        return word, _properties(catalog, _type_of(before, member.group(1), catalog))
    if (variable := _VARIABLE.search(before)) is not None:
        return variable.group(), [*re.findall(r"\$\w+", before[: variable.start()]), *(f"${name}" for name in known.parameters)]
    if _AFTER_CHANGE.search(before) is not None:
        return word, [*(node.name for node in catalog.nodes), *(edge.name for edge in catalog.edges)]
    if _AFTER_COLON.search(before) is not None:
        return word, [*_nodes(catalog), *_edges(catalog)]
    if (held := _IN_BRACES.search(before)) is not None:
        ends = ("from", "to") if catalog.edge_named(held.group(1) or held.group(2)) is not None else ()
        return word, [*_properties(catalog, held.group(1) or held.group(2)), *ends]
    if _AFTER_NODE.search(before) is not None:
        return word, [*_edges(catalog), *KEYWORDS]
    return word, KEYWORDS


def _types(catalog: Catalog) -> list[str]:
    return [*_nodes(catalog), *(edge.name for edge in catalog.edges)]


def _nodes(catalog: Catalog) -> list[str]:
    return [*(node.name for node in catalog.nodes), *(interface.name for interface in catalog.interfaces)]


def _edges(catalog: Catalog) -> list[str]:
    """The names of edges as queries write them: with a small first letter."""
    return [edge.name[0].lower() + edge.name[1:] for edge in catalog.edges]


def _properties(catalog: Catalog, name: str | None) -> list[str]:
    """The properties of a type, or of all types if the type is not known."""
    declared = (*catalog.nodes, *catalog.edges, *catalog.interfaces)
    chosen = [one for one in declared if one.name == name] or declared
    return [property_.name for one in chosen for property_ in one.properties]


def _type_of(text: str, variable: str, catalog: Catalog) -> str | None:
    """Return the type of a variable: from its binding, or from an edge that leads to it."""
    if (bound := re.search(rf"\${variable}\s*:\s*(\w+)", text)) is not None:
        edge = catalog.edge(bound.group(1))
        return bound.group(1) if edge is None or catalog.node(bound.group(1)) is not None else edge.name
    for one, name, other in re.findall(r"\$(\w+)\s+(?:\$\w+:)?<?(\w+)>?(?:\{[\d,]*\})?\s+\$(\w+)", text):
        edge = catalog.edge(name)
        if edge is None or variable not in (one, other):
            continue
        if edge.source == edge.target:
            return edge.source
        known = _type_of(text.replace(f"${one} ", "").replace(f"${other} ", ""), other if one == variable else one, catalog)
        return edge.source if known == edge.target else edge.target if known == edge.source else None
    return None
