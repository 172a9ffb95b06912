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
    COLLECT = "collect"


class Aggregate(Syntax, frozen=True):
    """`count(x)`, `sum(distinct x)`, ... `argument` is None for `count(*)`."""

    function: AggregateFunction
    argument: Expr | None
    distinct: bool = False


class ArithmeticOperator(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


class Arithmetic(Syntax, frozen=True):
    """`left operator right`"""

    left: Expr
    operator: ArithmeticOperator
    right: Expr


class Negative(Syntax, frozen=True):
    """`-expression`. A negative number is a literal."""

    operand: Expr


class FunctionCall(Syntax, frozen=True):
    """`name(arguments)`: a scalar function. The checker knows which exist."""

    name: Name
    arguments: tuple[Expr, ...] = ()


Expr = (
    Literal
    | Variable
    | Now
    | PropertyRef
    | AliasRef
    | Nearest
    | Bm25
    | Rrf
    | Search
    | Fuzzy
    | MatchText
    | Aggregate
    | Arithmetic
    | Negative
    | FunctionCall
)


class Comparison(StrEnum):
    """The operators that compare two values."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Containment(StrEnum):
    """The operators on texts and lists."""

    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"


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
    """`$left $edge_variable:edge{hops} $right`, or `<edge>` when undirected. Edges keep their case as written; `a|b` follows either."""

    left: Variable
    edges: tuple[Name, ...]
    right: Variable
    edge_variable: Variable | None = None
    undirected: bool = False
    hops: Hops | None = None


class Path(Syntax, frozen=True):
    """`path $variable = traversal`"""

    variable: Variable
    traversal: Traversal


class Filter(Syntax, frozen=True):
    """`left operator right`"""

    left: Expr
    operator: Comparison | Containment
    right: Expr


class ListTest(Syntax, frozen=True):
    """`item in options`, `item not in options`. The options are a list literal or a list parameter."""

    item: Expr
    options: ListLiteral | Variable
    negated: bool = False


class NullTest(Syntax, frozen=True):
    """`value is null`, `value is not null`"""

    value: Expr
    negated: bool = False


class Truth(Syntax, frozen=True):
    """A Bool by itself: `$p.active`"""

    value: Expr


class Conjunction(Syntax, frozen=True):
    """`a and b`: at least two terms."""

    terms: tuple[Condition, ...]


class Disjunction(Syntax, frozen=True):
    """`a or b`: at least two terms."""

    terms: tuple[Condition, ...]


class Inversion(Syntax, frozen=True):
    """`not (condition)`"""

    term: Condition


Condition = Filter | ListTest | NullTest | Truth | Search | Fuzzy | MatchText | Conjunction | Disjunction | Inversion


class Negation(Syntax, frozen=True):
    """`not { clauses }`, at least one."""

    clauses: tuple[Clause, ...]


class Exists(Syntax, frozen=True):
    """`exists { clauses }`, at least one."""

    clauses: tuple[Clause, ...]


class Optional(Syntax, frozen=True):
    """`optional { clauses }`, at least one."""

    clauses: tuple[Clause, ...]


class Either(Syntax, frozen=True):
    """`either { clauses } or { clauses }`: at least two blocks."""

    blocks: tuple[tuple[Clause, ...], ...]


Clause = Negation | Exists | Optional | Either | Binding | Traversal | Path | Condition


class Projection(Syntax, frozen=True):
    """`expression as alias`"""

    value: Expr
    alias: Name | None = None


class NullOrder(StrEnum):
    """Where nulls stand in an order."""

    FIRST = "first"
    LAST = "last"


class Ordering(Syntax, frozen=True):
    """`expression desc nulls last`; `asc` is the default. A `Nearest` key is never descending."""

    key: Expr
    descending: bool = False
    nulls: NullOrder | None = None


class Read(Syntax, frozen=True):
    """`match { .. } return { .. } order { .. } skip n limit n`: at least one clause and one projection.

    `skip` and `limit` are integers or parameters.
    """

    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    skip: int | Variable | None = None
    limit: int | Variable | None = None


class Assignment(Syntax, frozen=True):
    """`property: value` in a change. For edges, `from` and `to` are assignments too. A bare word in the value is the row's own property."""

    property: Name
    value: Expr


class Insertion(StrEnum):
    """What a new row does where a row with its identity exists."""

    INSERT = "insert"
    """Replaces it as a whole."""
    CREATE = "create"
    """Is refused."""
    UPSERT = "upsert"
    """Sets the properties it names."""


class Insert(Syntax, frozen=True):
    """`insert Type { assignments }`, or `create`, or `upsert`."""

    type_name: Name
    assignments: tuple[Assignment, ...]
    insertion: Insertion = Insertion.INSERT


class Update(Syntax, frozen=True):
    """`update Type set { assignments } where condition`. Bare words in the condition are properties of the row."""

    type_name: Name
    assignments: tuple[Assignment, ...]
    where: Condition


class UpdateBound(Syntax, frozen=True):
    """`update $v set { assignments }`, after a match."""

    variable: Variable
    assignments: tuple[Assignment, ...]


class Delete(Syntax, frozen=True):
    """`delete Type where condition`"""

    type_name: Name
    where: Condition


class DeleteBound(Syntax, frozen=True):
    """`delete $a, $b`, after a match."""

    variables: tuple[Variable, ...]


Change = Insert | Update | UpdateBound | Delete | DeleteBound


class MatchedChanges(Syntax, frozen=True):
    """`match { .. } change ..`: at least one clause and one change."""

    match: tuple[Clause, ...]
    changes: tuple[Change, ...]


Statement = Insert | Update | UpdateBound | Delete | DeleteBound | MatchedChanges


class Mutation(Syntax, frozen=True):
    """One or more statements that take effect together."""

    statements: tuple[Statement, ...]


class Parameter(Syntax, frozen=True):
    """`$name: type?`; `name` without its `$`."""

    name: Name
    shape: ParameterShape
    nullable: bool = False


class Query(Syntax, frozen=True):
    """`query name(parameters) @description("..") @instruction("..") { body }`. Parameter names are unique.

    A bare body is an anonymous query: its name is empty, and it may use parameters that it does not declare.
    """

    name: Name
    parameters: tuple[Parameter, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None

    @property
    def anonymous(self) -> bool:
        return not self.name.text


class QueryFile(Syntax, frozen=True):
    """A whole file: its queries in textual order. Query names are unique."""

    queries: tuple[Query, ...] = ()


def select_query(file: QueryFile, name: str | None) -> Query:
    """Return the query with that name, or the only query if `name` is None."""
    if name is None:
        if len(file.queries) == 1:
            return file.queries[0]
        message = f"{_listed(file)}; name one of them" if file.queries else _listed(file)
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, queries=[query.name.text for query in file.queries])
    for query in file.queries:
        if query.name.text == name:
            return query
    raise InvalidInput(Kind.INVALID_ARGUMENT, f"query '{name}' not found; {_listed(file)}", query=name)


def _listed(file: QueryFile) -> str:
    """Say which queries a text has, if they have names."""
    names = [query.name.text for query in file.queries if not query.anonymous]
    if not names:
        return "the text has one query, without a name" if file.queries else "the text has no query"
    return f"the text has {f'{len(names)} queries' if len(names) > 1 else 'one query'}: {', '.join(names)}"
