"""The query language by brute force: a catalog, rows in dicts and a query's text -> its answer or what it changes, straight from the rules.

Nothing is shared with the planner's rewrites or with the executor: clauses run one after another, as they are written, in
nested loops. What is shared is the parser, the type checker (which refuses, and no more) and the reading of parameters.
"""

from tests.harness.brute.answer import Answer, answer
from tests.harness.brute.changes import Changed, change
from tests.harness.brute.data import Data, Row, read_lines, write_lines
from tests.harness.brute.match import TooManyRows

__all__ = ["Answer", "Changed", "Data", "Row", "TooManyRows", "answer", "change", "read_lines", "write_lines"]
