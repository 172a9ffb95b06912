"""Pages of the change feed -> short forms to compare, and a copy of the graph that is built from them alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.exec.feed.pages import ChangeBlock, ChangePage
from omnigraph.exec.history.changes import EntityChange, EntityImage
from omnigraph.graph import Graph

Rows = dict[str, str]
"""Entities by kind, type and id, as lines that an export has."""


def brief(blocks: Iterable[ChangeBlock]) -> list[list[tuple[str, str]]]:
    """Each block as its changes: operation and id."""
    return [[(change.op.value, change.id) for change in block.changes] for block in blocks]


def exported(lines: Iterable[str]) -> Rows:
    """The rows of an export or a baseline. A null is left out: a schema that adds a property changes no row."""
    found = [json.loads(line) for line in lines]
    return {_key("node" if "type" in line else "edge", line.get("type") or line["edge"], line["data"]["id"]): _text(line) for line in found}


def apply(rows: Rows, blocks: Iterable[ChangeBlock]) -> None:
    """Change a copy as the feed says. To apply a block twice is to apply it once: delivery is at least once."""
    for block in blocks:
        for change in block.changes:
            key = _key(change.kind, change.type_name, change.id)
            if change.after is None:
                rows.pop(key, None)
            else:
                rows[key] = _text(_line(change, change.after))


def _text(line: Mapping[str, Any]) -> str:
    data = {name: value for name, value in line["data"].items() if value is not None}
    return json.dumps({**line, "data": data}, sort_keys=True)


def _line(change: EntityChange, image: EntityImage) -> Mapping[str, Any]:
    data = {"id": change.id, **image.properties}
    if image.endpoints is None:
        return {"type": change.type_name, "data": data}
    return {"edge": change.type_name, "from": image.endpoints.from_, "to": image.endpoints.to, "data": data}


def _key(kind: str, type_name: str, id_: str) -> str:
    return f"{kind} {type_name} {id_}"


def every_page(graph: Graph, **arguments: Any) -> list[ChangePage]:
    """The pages of a feed up to its end, each asked for by what the one before gave."""
    pages = [graph.changes.poll(**arguments)]
    again = {name: value for name, value in arguments.items() if name not in ("cursor", "start", "page")}
    while not pages[-1].caught_up:
        last = pages[-1]
        pages.append(graph.changes.poll(cursor=last.cursor, page=last.next_page, **again))
    return pages


def stitched(pages: Iterable[ChangePage]) -> list[ChangeBlock]:
    """The blocks of pages, with the parts of a commit put together."""
    found: list[ChangeBlock] = []
    for block in (block for page in pages for block in page.blocks):
        if found and found[-1].cause == block.cause:
            found[-1] = ChangeBlock(block.cause, found[-1].changes + block.changes, block.schema)
        else:
            found.append(block)
    return found
