"""The clauses of a match block -> a typed block: variables bound, directions inferred, tests typed."""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.types import ListOf, Plain, VectorOf, scalar_of
from omnigraph.lang.query import (
    Binding,
    Clause,
    Comparison,
    Containment,
    Filter,
    Fuzzy,
    MatchText,
    Negation,
    Now,
    PropertyMatch,
    Search,
    Traversal,
    Variable,
)
from omnigraph.lang.query import Expr as ExprTree
from omnigraph.lang.tree import Scalar
from omnigraph.plan.check.expressions import text_search, typed
from omnigraph.plan.check.literals import constant, fit_literal, require_u64
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import DATETIME, TRUE, Constant, Field
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import (
    AggregateCall,
    Block,
    Bm25Score,
    Condition,
    Direction,
    Expr,
    Link,
    NearestScore,
    NowCall,
    Operand,
    Parameter,
    RrfScore,
    TextSearch,
    type_of,
)
from omnigraph.plan.values import compatible, described

MOST_HOPS: Final = 1_000
"""The greatest number of hops of a walk. Each hop costs a pass over the nodes reached."""


class BlockChecker:
    """Collects one block while its clauses are checked in textual order."""

    def __init__(self, scope: Scope, *, visible: frozenset[int] = frozenset()) -> None:
        self.scope: Final = scope
        self._visible: Final = visible
        """The slots of the blocks around this one."""
        self._nodes: list[int] = []
        self._declared: list[int] = []
        self._links: list[Link] = []
        self._conditions: list[Condition] = []
        self._negations: list[Block] = []
        self._mentioned: set[int] = set()

    def block(self, clauses: tuple[Clause, ...]) -> Block:
        for clause in clauses:
            self._clause(clause)
        inner = {slot for negation in self._negations for slot in negation.outer}
        outer = (self._mentioned | inner) & self._visible
        return Block(
            tuple(self._nodes),
            tuple(self._declared),
            tuple(self._links),
            tuple(self._conditions),
            tuple(self._negations),
            tuple(sorted(outer)),
        )

    def _clause(self, clause: Clause) -> None:
        match clause:
            case Binding():
                self._binding(clause)
            case Traversal():
                self._traversal(clause)
            case Filter():
                self._filter(clause)
            case Search() | MatchText() | Fuzzy():
                self._condition(Condition(text_search(clause, self.scope), Comparison.EQ, TRUE))
            case Negation():
                self._negation(clause)
            case _:
                assert_never(clause)

    def _condition(self, test: Condition) -> None:
        self._conditions.append(test)
        self._mentioned.update(slots_of(test.left), slots_of(test.right))

    # bindings

    def _binding(self, clause: Binding) -> None:
        node = self.scope.catalog.node(clause.type_name.text)
        if node is None:
            hint = nearest_name(clause.type_name.text, (known.name for known in self.scope.catalog.nodes))
            raise refused(Code.NODE_TYPE, f"unknown node type `{clause.type_name}`", clause.type_name, hint=hint)
        slot = self._bound(clause.variable, node)
        if slot not in self._declared:
            self._declared.append(slot)
        for match in clause.matches:
            self._condition(self._property_match(match, slot, node))

    def _bound(self, variable: Variable, node: NodeType) -> int:
        """The slot of a node variable, new or known; a second binding may only repeat the type."""
        found = self.scope.node(variable)
        if found is None:
            slot = self.scope.bind(variable, node)
            self._nodes.append(slot)
        else:
            slot, known = found
            if known.name != node.name:
                raise refused(None, f"variable `{variable}` already bound to type `{known.name}`, cannot rebind to `{node.name}`", variable)
        self._mentioned.add(slot)
        return slot

    def _property_match(self, match: PropertyMatch, slot: int, node: NodeType) -> Condition:
        found = node.property(match.property.text)
        if found is None:
            hint = nearest_name(match.property.text, (property_.name for property_ in node.properties))
            raise refused(Code.MATCH_PROPERTY, f"node type `{node.name}` has no property `{match.property}`", match.property, hint=hint)
        owner = f"{node.name}.{found.name}"
        if found.type == Plain(Scalar.BLOB):
            raise refused(Code.LITERAL, f"Blob property `{owner}` cannot be matched", match)
        field = Field(slot, found.name, found.type, found.nullable)
        operator = Containment.CONTAINS if isinstance(found.type, ListOf) else Comparison.EQ
        return Condition(field, operator, self._match_value(match, field, owner))

    def _match_value(self, match: PropertyMatch, field: Field, owner: str) -> Operand:
        value = match.value
        # A list property is matched by one of its items.
        wanted = Plain(field.type.item) if isinstance(field.type, ListOf) else field.type
        match value:
            case Variable():
                parameter = self.scope.parameters.get(value.name)
                if parameter is None:
                    raise self.scope.unbound(value)
                if not compatible(parameter.type, wanted) or isinstance(wanted, VectorOf):
                    message = (
                        f"parameter `{value}` of type {described(parameter.type)} does not match `{owner}` of type {described(field.type)}"
                    )
                    raise refused(Code.OPERANDS, message, value)
                return parameter
            case Now():
                if wanted != DATETIME:
                    raise refused(Code.OPERANDS, f"now() does not match `{owner}` of type {described(field.type)}", value)
                return NowCall()
            case _:
                typed_value = constant(value)
                if isinstance(field.type, ListOf) and isinstance(typed_value.type, ListOf):
                    raise refused(Code.LITERAL, f"list equality is not supported (`{owner}`); match one item", value)
                fitted = fit_literal(value, wanted, owner)
                if isinstance(wanted, VectorOf):
                    raise refused(Code.LITERAL, f"vector equality is not supported (`{owner}`); use nearest()", value)
                return fitted

    # traversals

    def _traversal(self, clause: Traversal) -> None:
        edge = self.scope.catalog.edge(clause.edge.text)
        if edge is None:
            hint = nearest_name(clause.edge.text, (known.name[0].lower() + known.name[1:] for known in self.scope.catalog.edges))
            raise refused(Code.EDGE, f"unknown edge `{clause.edge}`", clause.edge, hint=hint)
        if clause.undirected and edge.source != edge.target:
            message = (
                f"undirected traversal needs an edge between nodes of one type; `{edge.name}` goes from `{edge.source}` to `{edge.target}`"
            )
            raise refused(Code.UNDIRECTED, message, clause.edge)
        low, high = _hops(clause)
        self._check_edge_variable(clause)
        direction = self._direction(clause, edge)
        left_type, right_type = (edge.target, edge.source) if direction is Direction.IN else (edge.source, edge.target)
        left = self._endpoint(clause.left, left_type, edge)
        right = self._endpoint(clause.right, right_type, edge)
        edge_slot = None
        if clause.edge_variable is not None and not clause.edge_variable.wildcard:
            edge_slot = self.scope.bind(clause.edge_variable, edge)
        self._links.append(Link(edge, left, right, direction, low, high, edge_slot))

    def _check_edge_variable(self, clause: Traversal) -> None:
        variable = clause.edge_variable
        if variable is None:
            return
        if clause.hops is not None:
            raise refused(Code.EDGE_VARIABLE, "an edge variable stands for one edge and takes no hop bounds", clause.hops)
        if variable.wildcard:
            return
        if variable.name in (clause.left.name, clause.right.name):
            raise refused(Code.EDGE_VARIABLE, f"`{variable}` cannot be both an edge and its endpoint", variable)
        if self.scope.slot(variable) is not None:
            raise refused(Code.EDGE_VARIABLE, f"`{variable}` is already bound; an edge variable must be new", variable)

    def _direction(self, clause: Traversal, edge: EdgeType) -> Direction:
        """The direction from the bound variables: the left end decides, else the right, else the declaration of the edge."""
        left, right = self.scope.node(clause.left), self.scope.node(clause.right)
        if clause.undirected:
            return Direction.BOTH
        if left is not None:
            return _side(left[1], clause.left, edge, out=edge.source, into=edge.target)
        if right is not None:
            return _side(right[1], clause.right, edge, out=edge.target, into=edge.source)
        return Direction.OUT

    def _endpoint(self, variable: Variable, type_name: str, edge: EdgeType) -> int:
        node = self.scope.catalog.node(type_name)
        assert node is not None
        found = self.scope.node(variable)
        if found is not None and found[1].name != type_name:
            message = f"`{variable}` is of type `{found[1].name}`, but this end of edge `{edge.name}` is `{type_name}`"
            raise refused(Code.ENDPOINT, message, variable)
        return self._bound(variable, node)

    # tests

    def _filter(self, clause: Filter) -> None:
        left = self._filter_operand(clause.left)
        right = self._filter_operand(clause.right)
        match clause.operator:
            case Comparison():
                self._check_comparison(left, right, clause)
            case Containment.CONTAINS:
                _check_contains(left, right, clause)
            case Containment.STARTS_WITH:
                if _scalar(left) is not Scalar.STRING or _scalar(right) is not Scalar.STRING:
                    raise _operands(clause, left, right)
            case _:
                assert_never(clause.operator)
        for side, other, tree in ((left, right, clause.left), (right, left, clause.right)):
            if isinstance(side, Constant):
                require_u64(side, type_of(other), tree, Code.OPERANDS)
        self._condition(Condition(left, clause.operator, right))

    def _filter_operand(self, tree: ExprTree) -> Expr:
        expr = typed(tree, self.scope)
        if isinstance(expr, NearestScore | Bm25Score | RrfScore | AggregateCall):
            raise refused(None, "unsupported expression in filter", tree, hint="scores and aggregates exist only after the match")
        return expr

    def _check_comparison(self, left: Expr, right: Expr, clause: Filter) -> None:
        for side, tree in ((left, clause.left), (right, clause.right)):
            if _scalar(side) in (None, Scalar.BLOB):
                raise refused(Code.OPERANDS, f"{_what(side)} cannot be compared with `{clause.operator}`", tree)
        if not compatible(type_of(left), type_of(right)):
            raise _operands(clause, left, right)

    # negations

    def _negation(self, clause: Negation) -> None:
        self.scope.step()
        visible = self.scope.slots()
        checker = BlockChecker(self.scope.inner(), visible=visible)
        block = checker.block(clause.clauses)
        if not checker._mentioned & visible:
            message = "a negation must mention a variable bound outside it"
            raise refused(Code.GROUPING, message, clause, hint="link it by a traversal or a comparison")
        self._negations.append(block)


def _hops(clause: Traversal) -> tuple[int, int]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    if hops.low < 1:
        raise refused(Code.HOPS_OR_NEAREST, "hop bounds start at 1", hops)
    if hops.high is None:
        raise refused(Code.HOPS_OR_NEAREST, "hop bounds need an upper end", hops, hint=f"write `{{{hops.low},{hops.low + 2}}}`")
    if hops.high < hops.low:
        raise refused(Code.HOPS_OR_NEAREST, f"hop bounds run backwards: {hops.low} is more than {hops.high}", hops)
    if hops.high > MOST_HOPS:
        message = f"at most {MOST_HOPS} hops can be asked for, not {hops.high}"
        raise refused(Code.HOPS_OR_NEAREST, message, hops, hint="a search ends by itself where there is nothing new to reach")
    return hops.low, hops.high


def _side(node: NodeType, variable: Variable, edge: EdgeType, *, out: str, into: str) -> Direction:
    if node.name == out:
        return Direction.OUT
    if node.name == into:
        return Direction.IN
    message = f"`{variable}` is of type `{node.name}`, but edge `{edge.name}` goes from `{edge.source}` to `{edge.target}`"
    raise refused(Code.ENDPOINT, message, variable)


def _check_contains(left: Expr, right: Expr, clause: Filter) -> None:
    match type_of(left):
        case ListOf(item):
            fits = _scalar(right) is not None and compatible(Plain(item), type_of(right))
        case _:
            fits = _scalar(left) is Scalar.STRING and _scalar(right) is Scalar.STRING
    empty = isinstance(left, Constant) and left.value == ()
    if not fits and not (empty and _scalar(right) is not None):
        raise _operands(clause, left, right)


def _operands(clause: Filter, left: Expr, right: Expr) -> Exception:
    return refused(Code.OPERANDS, f"`{clause.operator}` does not apply to {_what(left)} and {_what(right)}", clause)


def _scalar(expr: Expr) -> Scalar | None:
    """The scalar an operand can be compared by; a node has none."""
    return None if isinstance(expr, Field) and expr.whole else scalar_of(type_of(expr))


def _what(expr: Expr) -> str:
    return "a node" if isinstance(expr, Field) and expr.whole else described(type_of(expr))


def slots_of(expr: Expr) -> tuple[int, ...]:
    """The variables an operand of a filter reads."""
    match expr:
        case Field(binding=slot):
            return (slot,)
        case TextSearch(field=field):
            return (field.binding,)
        case Constant() | Parameter() | NowCall():
            return ()
        case NearestScore() | Bm25Score() | RrfScore() | AggregateCall():
            raise AssertionError("filters hold no scores and no aggregates")
        case _:
            assert_never(expr)


def block_of(clauses: tuple[Clause, ...], scope: Scope) -> Block:
    """The typed form of a whole match block; `scope` then knows its variables."""
    return BlockChecker(scope).block(clauses)
