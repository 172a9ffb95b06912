"""The trees of a query file (`.gq`): reads and mutations, their clauses, expressions and statements."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.tree import Name, ParameterShape, Syntax


class IntegerLiteral(Syntax, frozen=True):
    """`7`, `-7`: within -2^63 .. 2^64 - 1. A value above 2^63 - 1 fits only U64; the checker enforces that."""

    value: int


class FloatLiteral(Syntax, frozen=True):
    """`7.5`, `-7.5`: always finite."""

    value: float


class StringLiteral(Syntax, frozen=True):
    """`"text"`, with its escapes resolved."""

    value: str


class BoolLiteral(Syntax, frozen=True):
    """`true` or `false`."""

    value: bool


class DateLiteral(Syntax, frozen=True):
    """`date("1979-05-25")`: the text as written, not parsed here."""

    text: str


class DateTimeLiteral(Syntax, frozen=True):
    """`datetime("1979-05-25T12:00:00Z")`: the text as written, not parsed here."""

    text: str


class ListLiteral(Syntax, frozen=True):
    """`[a, b]`. It may be nested or of mixed types; the checker rejects both."""

    items: tuple[Literal, ...] = ()


Literal = IntegerLiteral | FloatLiteral | StringLiteral | BoolLiteral | DateLiteral | DateTimeLiteral | ListLiteral


class Variable(Syntax, frozen=True):
    """`$name`, without its `$`: a match variable or a parameter."""

    name: str

    @property
    def wildcard(self) -> bool:
        """`$_`: each occurrence is its own anonymous node."""
        return self.name == "_"

    def __str__(self) -> str:
        return f"${self.name}"


class Now(Syntax, frozen=True):
    """`now()`"""


Value = Literal | Variable | Now
"""A value that a property is matched with, compared with in a mutation, or set to."""


class PropertyRef(Syntax, frozen=True):
    """`$v.property`"""

    variable: Variable
    property: Name


class AliasRef(Syntax, frozen=True):
    """A bare word: the alias or output column of that name."""

    name: str


class Nearest(Syntax, frozen=True):
    """`nearest($v.vector, query)`: the distance."""

    field: PropertyRef
    query: Expr


class Bm25(Syntax, frozen=True):
    """`bm25(field, query)`: the score."""

    field: Expr
    query: Expr


class Rrf(Syntax, frozen=True):
    """`rrf(a, b, k)`: two rankings fused. Without `k` the default constant is used."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expr | None = None


class Search(Syntax, frozen=True):
    """`search(field, query)`"""

    field: Expr
    query: Expr


class Fuzzy(Syntax, frozen=True):
    """`fuzzy(field, query, max_edits)`"""

    field: Expr
    query: Expr
    max_edits: Expr | None = None


class MatchText(Syntax, frozen=True):
    """`match_text(field, query)`"""

    field: Expr
    query: Expr


TextSearch = Search | Fuzzy | MatchText
"""The calls that may be a clause by themselves. Compared with a Bool they are one side of a Filter."""


class AggregateFunction(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Aggregate(Syntax, frozen=True):
    """`count(x)`, `sum(x)`, ..."""

    function: AggregateFunction
    argument: Expr


Expr = Literal | Variable | Now | PropertyRef | AliasRef | Nearest | Bm25 | Rrf | Search | Fuzzy | MatchText | Aggregate


class Comparison(StrEnum):
    """The operators of filters and of mutation predicates."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Containment(StrEnum):
    """The operators that only filters have."""

    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


class PropertyMatch(Syntax, frozen=True):
    """`property: value` inside a binding's braces."""

    property: Name
    value: Value


class Binding(Syntax, frozen=True):
    """`$v: Type { matches }`. Without matches the braces are absent."""

    variable: Variable
    type_name: Name
    matches: tuple[PropertyMatch, ...] = ()


class Hops(Syntax, frozen=True):
    """`{low,high}` or `{low,}` after an edge, as written. The checker decides which bounds are legal."""

    low: int
    high: int | None = None


class Traversal(Syntax, frozen=True):
    """`$left $edge_variable:edge{hops} $right`, or `<edge>` when undirected. `edge` keeps its case as written."""

    left: Variable
    edge: Name
    right: Variable
    edge_variable: Variable | None = None
    undirected: bool = False
    hops: Hops | None = None


class Filter(Syntax, frozen=True):
    """`left operator right`"""

    left: Expr
    operator: Comparison | Containment
    right: Expr


class Negation(Syntax, frozen=True):
    """`not { clauses }`, at least one."""

    clauses: tuple[Clause, ...]


Clause = Negation | Binding | Traversal | Filter | Search | Fuzzy | MatchText


class Projection(Syntax, frozen=True):
    """`expression as alias`"""

    value: Expr
    alias: Name | None = None


class Ordering(Syntax, frozen=True):
    """`expression desc`; `asc` is the default. A `Nearest` key is never descending."""

    key: Expr
    descending: bool = False


class Read(Syntax, frozen=True):
    """`match { .. } return { .. } order { .. } limit n`: at least one clause and one projection."""

    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    order: tuple[Ordering, ...] = ()
    limit: int | None = None


class Assignment(Syntax, frozen=True):
    """`property: value` in an insert or update. For edges, `from` and `to` are assignments too."""

    property: Name
    value: Value


class Predicate(Syntax, frozen=True):
    """`property comparison value`: the one test of an update or delete."""

    property: Name
    comparison: Comparison
    value: Value


class Insert(Syntax, frozen=True):
    """`insert Type { assignments }`"""

    type_name: Name
    assignments: tuple[Assignment, ...]


class Update(Syntax, frozen=True):
    """`update Type set { assignments } where predicate`"""

    type_name: Name
    assignments: tuple[Assignment, ...]
    where: Predicate


class Delete(Syntax, frozen=True):
    """`delete Type where predicate`"""

    type_name: Name
    where: Predicate


Statement = Insert | Update | Delete


class Mutation(Syntax, frozen=True):
    """One or more statements that take effect together."""

    statements: tuple[Statement, ...]


class Parameter(Syntax, frozen=True):
    """`$name: type?`; `name` without its `$`."""

    name: Name
    shape: ParameterShape
    nullable: bool = False


class Query(Syntax, frozen=True):
    """`query name(parameters) @description("..") @instruction("..") { body }`. Parameter names are unique."""

    name: Name
    parameters: tuple[Parameter, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None


class QueryFile(Syntax, frozen=True):
    """A whole file: its queries in textual order. Query names are unique."""

    queries: tuple[Query, ...] = ()


def select_query(file: QueryFile, name: str | None) -> Query:
    """Return the query with that name, or the only query if `name` is None."""
    if name is None:
        if len(file.queries) == 1:
            return file.queries[0]
        message = "query file contains multiple queries; pass --name" if file.queries else "query file contains no query"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, queries=[query.name.text for query in file.queries])
    for query in file.queries:
        if query.name.text == name:
            return query
    raise InvalidInput(Kind.INVALID_ARGUMENT, f"query '{name}' not found", query=name)
