"""Physical operators: the plan that an executor runs, with every choice made and its estimates. Closed union, frozen.

`rows` is the estimated number of output rows. Expressions and predicates are those of the logical plan (`ir`), whose
operators are called `LogicalScan`, `LogicalExpand` and so on.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from omnigraph.plan import ir
from omnigraph.plan.expr import Field, TypeRef
from omnigraph.plan.statistics import Availability


class _Op(msgspec.Struct, frozen=True, tag=True, tag_field="op"):
    pass


class Route(StrEnum):
    """How a link is followed."""

    INDEX = "index"
    """Look up the edges of the input rows in the index on `src` or `dst`."""
    SCAN = "scan"
    """Read the edge table once and keep the edges of the input rows."""
    ADJACENCY = "adjacency"
    """Multiply with the adjacency of the whole edge type, which is built first if it does not exist."""


class Restrict(StrEnum):
    """When the predicates on the far end of a link are applied."""

    NONE = "none"
    BEFORE = "before"
    """Find the nodes that satisfy them first. A walk ends only at those; it may pass through others."""
    AFTER = "after"
    """Walk, then test the nodes where the walk ended."""


class LinkCosts(_Op, frozen=True):
    """What following a link costs, in milliseconds. The number of start nodes is known only at run time."""

    key_ms: float | None
    """The edges of one node, from an index; None without an index."""
    pass_ms: float
    """One pass over all edges."""
    far_key_ms: float | None
    """The row of one far end, from an index on its id."""
    far_pass_ms: float
    degree: float
    directions: int
    most: float
    """The greatest number of nodes that a hop reaches."""
    ready_ms: float
    """Time until the adjacency is ready: building it, or mapping its file."""
    linked_ms: float
    """One pass over all edges that only finds out which nodes have one."""


class RouteChoice(_Op, frozen=True):
    """The route with the lowest estimate, in milliseconds. `lookup` is the cheaper route without an adjacency: index or scan.

    The executor chooses again from `costs` once it knows the number of nodes.
    """

    route: Route
    lookup: Route
    lookup_ms: float
    adjacency_ms: float
    adjacency: Availability
    costs: LinkCosts


class Scan(_Op, frozen=True):
    """Bind the entities of a type for which `where` holds; `indexes` are the columns whose indexes are used."""

    binding: int
    type: TypeRef
    where: tuple[ir.Predicate, ...]
    columns: tuple[str, ...]
    indexes: tuple[str, ...]
    rows: float


class Argument(_Op, frozen=True):
    bindings: tuple[int, ...]
    rows: float


class Expand(_Op, frozen=True):
    """`reverse`: the walk starts at the right end, though the search is defined from the left."""

    input: Op
    link: ir.Link
    reverse: bool
    target: Scan
    restrict: Restrict
    choice: RouteChoice
    rows: float

    @property
    def is_bare(self) -> bool:
        """Whether the query neither filters nor reads the far end and the edges."""
        return self.link.edge_binding is None and not (self.target.where or self.target.columns or self.link.where)


class Connect(_Op, frozen=True):
    input: Op
    link: ir.Link
    choice: RouteChoice
    rows: float


class CrossProduct(_Op, frozen=True):
    left: Op
    right: Op
    rows: float


class Join(_Op, frozen=True):
    """A hash join: pairs of rows whose fields are equal, first of each pair on the left."""

    left: Op
    right: Op
    on: tuple[tuple[Field, Field], ...]
    rows: float


class Filter(_Op, frozen=True):
    input: Op
    where: tuple[ir.Predicate, ...]
    rows: float


class InnerOp(_Op, frozen=True):
    """A block inside a match, started from the distinct rows of the outer bindings `on`."""

    root: Op
    on: tuple[int, ...]


class SemiJoin(_Op, frozen=True):
    """Keep rows for which at least one inner plan has a row, or, if not `wanted`, for which none has."""

    input: Op
    inners: tuple[InnerOp, ...]
    wanted: bool
    rows: float


class Optional(_Op, frozen=True):
    """Left outer join with the inner plan; `binds` are null where it has no row."""

    input: Op
    inner: InnerOp
    binds: tuple[int, ...]
    rows: float


class Paths(_Op, frozen=True):
    """Read `columns` (`nodes`, `edges`, `length`) of the path of a link."""

    input: Op
    link: ir.Link
    columns: tuple[str, ...]
    choice: RouteChoice
    rows: float


class IndexSearch(_Op, frozen=True):
    """How an index is searched for the nearest vectors: `probes` parts of it at least, and `refine` times as many rows as wanted are
    then compared exactly. It finds most of the nearest rows, not always all."""

    column: str
    probes: int
    refine: int


class WordLookup(_Op, frozen=True):
    """The rows with the words of a query are looked up in the index on a column."""

    column: str


class Rank(_Op, frozen=True):
    """Score the ranked entity of every row; with `top`, the `top` best of the scan below, by `index` if there is one."""

    input: Op
    slot: int
    ranking: ir.Ranking
    only_candidates: bool
    top: int | None
    index: IndexSearch | WordLookup | None
    rows: float


class Fetch(_Op, frozen=True):
    input: Op
    reads: tuple[ir.Read, ...]
    rows: float


class Aggregate(_Op, frozen=True):
    input: Op
    outputs: tuple[ir.Expr | ir.Call, ...]
    ties: tuple[int, ...]
    rows: float


class Project(_Op, frozen=True):
    input: Op
    outputs: tuple[ir.Expr, ...]
    rows: float


class Distinct(_Op, frozen=True):
    input: Op
    rows: float


class Sort(_Op, frozen=True):
    """With `limit`, only the first rows are kept; the first `skip` of them are left out."""

    input: Op
    keys: tuple[ir.SortKey, ...]
    ties: tuple[int, ...]
    limit: int | None
    skip: int
    rows: float


class Limit(_Op, frozen=True):
    """The rows after the first `skip`, at most `count` of them; None is no limit."""

    input: Op
    count: int | None
    skip: int
    rows: float


class Empty(_Op, frozen=True):
    rows: float = 0.0


Op = (
    Scan
    | Argument
    | Expand
    | Connect
    | CrossProduct
    | Join
    | Filter
    | SemiJoin
    | Optional
    | Paths
    | Rank
    | Fetch
    | Aggregate
    | Project
    | Distinct
    | Sort
    | Limit
    | Empty
)


class ReadPlan(_Op, frozen=True):
    """A read, ready to run."""

    name: str
    root: Op
    bindings: tuple[ir.Binding, ...]
    columns: tuple[ir.Column, ...]
