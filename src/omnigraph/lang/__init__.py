"""Text <-> syntax trees with spans. Pure: no files, no clock, no catalog."""

from omnigraph.lang.grammar.query import parse_queries
from omnigraph.lang.grammar.schema import parse_schema
from omnigraph.lang.printer import print_queries, print_schema
from omnigraph.lang.query import select_query
from omnigraph.lang.source import Source, located, render

__all__ = ["Source", "located", "parse_queries", "parse_schema", "print_queries", "print_schema", "render", "select_query"]
