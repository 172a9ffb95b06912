"""The change feed on an object store: the same pages, cursors and refusals as on a disk."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.feeds import apply, brief, every_page, exported
from tests.mutations import run
from tests.s3 import S3Server

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


@pytest.mark.s3
def test_a_feed_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    writer = og.init(s3_uri, schema=SCHEMA, storage_options=s3_server.storage_options)
    writer.load([{"type": "Person", "data": {"name": name}} for name in "ab"])
    reader = og.open(s3_uri, mode="r", storage_options=s3_server.storage_options)
    rows = exported(baseline := reader.changes.baseline())
    run(writer, 'update Person set { age: 1 } where name = "a"')
    writer.branches.create("work")
    begun = reader.changes.poll(branch="work").cursor
    writer.load([{"type": "Person", "data": {"name": "c"}}], branch="work")
    run(writer, 'delete Person where name = "b"')
    writer.merge("work")
    pages = every_page(reader, cursor=baseline.cursor, limit=1)
    assert [block for page in pages for block in brief(page.blocks)] == [[("update", "a")], [("delete", "b")], [("insert", "c")]]
    for page in pages:
        apply(rows, page.blocks)
    assert rows == exported(writer.export())
    assert [brief(page.blocks) for page in reader.changes.follow(begun, branch="work", wait=0)] == [[[("insert", "c")]]]
    writer.branches.delete("work")
    writer.branches.create("work")
    with pytest.raises(og.ChangeCursorRejected):
        reader.changes.poll(begun, branch="work")
