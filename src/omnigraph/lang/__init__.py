"""Text -> syntax trees with spans. Pure: no files, no clock, no catalog."""

from omnigraph.lang.grammar.query_file import parse_queries
from omnigraph.lang.grammar.schema_file import parse_schema
from omnigraph.lang.query import select_query
from omnigraph.lang.source import Source, located, render

__all__ = ["Source", "located", "parse_queries", "parse_schema", "render", "select_query"]
