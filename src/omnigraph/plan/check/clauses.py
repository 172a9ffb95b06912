"""The clauses of a match block -> a typed block: variables bound, directions inferred, tests typed."""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.catalog.model import EdgeType, InterfaceType, NodeType
from omnigraph.catalog.types import ListOf, Plain, VectorOf
from omnigraph.lang.query import (
    Binding,
    Clause,
    Comparison,
    Conjunction,
    Containment,
    Disjunction,
    Either,
    Exists,
    Filter,
    Fuzzy,
    Inversion,
    ListTest,
    MatchText,
    Negation,
    Now,
    NullTest,
    Optional,
    Path,
    PropertyMatch,
    Search,
    Traversal,
    Truth,
    Variable,
)
from omnigraph.lang.tree import Name, Syntax
from omnigraph.plan.check.conditions import typed_test
from omnigraph.plan.check.literals import constant, fit_literal
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import BLOB, DATETIME, ID, STRING, Field
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import (
    Block,
    BlockTest,
    Condition,
    Direction,
    Link,
    NowCall,
    Operand,
    OptionalBlock,
    PathType,
    Pattern,
    Test,
    exprs_of,
    slots_of,
)
from omnigraph.plan.values import compatible, described

MOST_HOPS: Final = 1_000
"""The greatest number of hops of a walk. Each hop costs a pass over the nodes reached."""


class BlockChecker:
    """Collects one block while its clauses are checked in textual order. An optional block ends a pattern."""

    def __init__(self, scope: Scope, *, visible: frozenset[int] = frozenset()) -> None:
        self.scope: Final = scope
        self._visible: Final = visible
        """The slots of the blocks around this one."""
        self._parts: list[Pattern | OptionalBlock] = []
        self._mentioned: set[int] = set()
        """The slots that the clauses of this block mention themselves."""
        self._mentioned_inside: set[int] = set()
        self._begin_pattern()

    def _begin_pattern(self) -> None:
        self._nodes: list[int] = []
        self._declared: list[int] = []
        self._links: list[Link] = []
        self._conditions: list[Test] = []
        self._tests: list[BlockTest] = []

    def _end_pattern(self) -> None:
        if self._nodes or self._links or self._conditions or self._tests:
            nodes, declared, links = tuple(self._nodes), tuple(self._declared), tuple(self._links)
            self._parts.append(Pattern(nodes, declared, links, tuple(self._conditions), tuple(self._tests)))
        self._begin_pattern()

    def block(self, clauses: tuple[Clause, ...]) -> Block:
        for clause in clauses:
            self._clause(clause)
        self._end_pattern()
        return Block(tuple(self._parts), tuple(sorted((self._mentioned | self._mentioned_inside) & self._visible)))

    @property
    def linked(self) -> bool:
        """Whether the block mentions a variable of the blocks around it."""
        return bool(self._mentioned & self._visible)

    def _clause(self, clause: Clause) -> None:
        match clause:
            case Binding():
                self._binding(clause)
            case Traversal():
                self._traversal(clause)
            case Filter() | ListTest() | NullTest() | Truth() | Search() | MatchText() | Fuzzy():
                self._condition(typed_test(clause, self.scope))
            case Conjunction() | Disjunction() | Inversion():
                self._condition(typed_test(clause, self.scope))
            case Negation(clauses):
                self._test((clauses,), clause, "a negation", wanted=False)
            case Exists(clauses):
                self._test((clauses,), clause, "`exists`", wanted=True)
            case Either(blocks):
                self._test(blocks, clause, "each block of `either`", wanted=True)
            case Optional():
                self._optional(clause)
            case Path():
                self._path(clause)
            case _:
                assert_never(clause)

    def _condition(self, test: Test) -> None:
        self._conditions.append(test)
        self._mentioned.update(*map(slots_of, exprs_of(test)))

    # blocks

    def _test(self, blocks: tuple[tuple[Clause, ...], ...], at: Syntax, what: str, *, wanted: bool) -> None:
        typed_blocks = []
        for clauses in blocks:
            self.scope.step()
            checker = BlockChecker(self.scope.inner(), visible=self.scope.slots())
            block = checker.block(clauses)
            if not checker.linked:
                hint = "link it by a traversal or a comparison"
                raise refused(Code.GROUPING, f"{what} must mention a variable bound outside it", at, hint=hint)
            typed_blocks.append(block)
            self._mentioned_inside.update(block.outer)
        self._tests.append(BlockTest(tuple(typed_blocks), wanted))

    def _optional(self, clause: Optional) -> None:
        self.scope.step()
        self._end_pattern()
        first = len(self.scope.variables)
        # The variables stay visible, so the block shares this scope; they may be null only after it.
        block = BlockChecker(self.scope, visible=self.scope.slots()).block(clause.clauses)
        self._mentioned_inside.update(block.outer)
        self._parts.append(OptionalBlock(block, self.scope.make_optional(first)))

    # bindings

    def _binding(self, clause: Binding) -> None:
        name = clause.type_name.text
        found = self.scope.catalog.node(name) or self.scope.catalog.interface(name)
        if found is None:
            catalog = self.scope.catalog
            hint = nearest_name(name, (known.name for known in (*catalog.nodes, *catalog.interfaces)))
            raise refused(Code.NODE_TYPE, f"unknown node type `{clause.type_name}`", clause.type_name, hint=hint)
        self._refuse_optional(clause.variable)
        slot = self._bound(clause.variable, found)
        if slot not in self._declared:
            self._declared.append(slot)
        for match in clause.matches:
            self._condition(self._property_match(match, slot, found))

    def _refuse_optional(self, variable: Variable) -> None:
        slot = self.scope.slot(variable)
        if slot is not None and self.scope.variables[slot].optional:
            hint = f"test it with `{variable} is not null`, or bind it before the optional block"
            raise refused(Code.OPTIONAL, f"`{variable}` of an optional block may be null and cannot be bound again", variable, hint=hint)

    def _bound(self, variable: Variable, type_: NodeType | InterfaceType) -> int:
        """The slot of a node variable, new or known; a second binding may only repeat the type."""
        found = self.scope.node(variable)
        if found is None:
            return self._new(variable, type_)
        slot, known = found
        if known.name != type_.name:
            message = f"variable `{variable}` already bound to type `{known.name}`, cannot rebind to `{type_.name}`"
            raise refused(None, message, variable)
        self._mentioned.add(slot)
        return slot

    def _new(self, variable: Variable, type_: NodeType | InterfaceType) -> int:
        """The slot of a node variable that is not bound yet."""
        slot = self.scope.bind(variable, type_)
        self._nodes.append(slot)
        self._mentioned.add(slot)
        return slot

    def _property_match(self, match: PropertyMatch, slot: int, type_: NodeType | InterfaceType) -> Condition:
        if match.property.text == ID:
            field = Field(slot, ID, STRING)
        else:
            found = type_.property(match.property.text)
            if found is None:
                hint = nearest_name(match.property.text, (ID, *(property_.name for property_ in type_.properties)))
                message = f"{type_.kind} type `{type_.name}` has no property `{match.property}`"
                raise refused(Code.MATCH_PROPERTY, message, match.property, hint=hint)
            field = Field(slot, found.name, found.type, found.nullable)
        owner = f"{type_.name}.{field.column}"
        if field.type == BLOB:
            raise refused(Code.LITERAL, f"Blob property `{owner}` cannot be matched", match)
        operator = Containment.CONTAINS if isinstance(field.type, ListOf) else Comparison.EQ
        return Condition(field, operator, self._match_value(match, field, owner))

    def _match_value(self, match: PropertyMatch, field: Field, owner: str) -> Operand:
        value = match.value
        # A list property is matched by one of its items.
        wanted = Plain(field.type.item) if isinstance(field.type, ListOf) else field.type
        match value:
            case Variable():
                parameter = self.scope.parameter(value, None if isinstance(wanted, VectorOf) else wanted)
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

    def _path(self, clause: Path) -> None:
        variable, traversal = clause.variable, clause.traversal
        if variable.wildcard or self.scope.slot(variable) is not None:
            raise refused(Code.EDGE_VARIABLE, f"`{variable}` cannot name a path: its variable must be new", variable)
        if traversal.edge_variable is not None:
            hint = f"`edges({variable})` gives the ids of its edges"
            raise refused(Code.EDGE_VARIABLE, "a path takes no edge variable", traversal.edge_variable, hint=hint)
        if variable.name in (traversal.left.name, traversal.right.name):
            raise refused(Code.EDGE_VARIABLE, f"`{variable}` cannot be both a path and its end", variable)
        self._traversal(traversal, path=variable)

    def _traversal(self, clause: Traversal, *, path: Variable | None = None) -> None:
        edges = self._edges(clause)
        edge = edges[0]
        if clause.undirected and edge.source != edge.target:
            message = (
                f"undirected traversal needs an edge between nodes of one type; `{edge.name}` goes from `{edge.source}` to `{edge.target}`"
            )
            raise refused(Code.UNDIRECTED, message, clause.edges[0])
        low, high = _hops(clause)
        self._check_edge_variable(clause)
        direction = self._direction(clause, edge)
        left_type, right_type = (edge.target, edge.source) if direction is Direction.IN else (edge.source, edge.target)
        left = self._endpoint(clause.left, left_type, edge)
        right = self._endpoint(clause.right, right_type, edge)
        edge_slot = None
        if clause.edge_variable is not None and not clause.edge_variable.wildcard:
            edge_slot = self.scope.bind(clause.edge_variable, edge)
        path_slot = None if path is None else self.scope.bind(path, PathType())
        self._links.append(Link(edges, left, right, direction, low, high, edge_slot, path_slot))

    def _edges(self, clause: Traversal) -> tuple[EdgeType, ...]:
        """The edge types of a traversal, each once; all of them have the same ends."""
        edges: list[EdgeType] = []
        for name in clause.edges:
            edge = self._edge(name)
            if edges and (edge.source, edge.target) != (edges[0].source, edges[0].target):
                message = (
                    f"`{edges[0].name}` goes from `{edges[0].source}` to `{edges[0].target}`, "
                    f"and `{edge.name}` from `{edge.source}` to `{edge.target}`"
                )
                hint = "edges joined by `|` must have the same ends; use `either { .. } or { .. }`"
                raise refused(Code.EDGES, message, name, hint=hint)
            if edge not in edges:
                edges.append(edge)
        if len(clause.edges) > 1 and clause.edge_variable is not None:
            raise refused(Code.EDGE_VARIABLE, "an edge variable stands for an edge of one type", clause.edge_variable)
        return tuple(edges)

    def _edge(self, name: Name) -> EdgeType:
        edge = self.scope.catalog.edge(name.text)
        if edge is None:
            hint = nearest_name(name.text, (known.name[0].lower() + known.name[1:] for known in self.scope.catalog.edges))
            raise refused(Code.EDGE, f"unknown edge `{name}`", name, hint=hint)
        return edge

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
            return self._side(left[1], clause.left, edge, out=edge.source, into=edge.target)
        if right is not None:
            return self._side(right[1], clause.right, edge, out=edge.target, into=edge.source)
        return Direction.OUT

    def _side(self, bound: NodeType | InterfaceType, variable: Variable, edge: EdgeType, *, out: str, into: str) -> Direction:
        names = {node.name for node in self.scope.types(bound)}
        if out in names:
            return Direction.OUT
        if into in names:
            return Direction.IN
        message = f"`{variable}` is of type `{bound.name}`, but edge `{edge.name}` goes from `{edge.source}` to `{edge.target}`"
        raise refused(Code.ENDPOINT, message, variable)

    def _endpoint(self, variable: Variable, type_name: str, edge: EdgeType) -> int:
        node = self.scope.catalog.node(type_name)
        assert node is not None
        found = self.scope.node(variable)
        if found is None:
            return self._new(variable, node)
        slot, type_ = found
        if node not in self.scope.types(type_):
            message = f"`{variable}` is of type `{type_.name}`, but this end of edge `{edge.name}` is `{type_name}`"
            raise refused(Code.ENDPOINT, message, variable)
        self._mentioned.add(slot)
        return slot


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


def block_of(clauses: tuple[Clause, ...], scope: Scope) -> Block:
    """The typed form of a whole match block; `scope` then knows its variables."""
    return BlockChecker(scope).block(clauses)


def names_bound_by(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """The variables that clauses bind, at any depth: they are no parameters of an anonymous query."""
    names: set[str] = set()
    for clause in clauses:
        match clause:
            case Binding(variable=variable):
                names.add(variable.name)
            case Traversal(left=left, right=right, edge_variable=edge):
                names.update((left.name, right.name, *(() if edge is None else (edge.name,))))
            case Path(variable, traversal):
                names.update((variable.name, traversal.left.name, traversal.right.name))
            case Negation(inner) | Exists(inner) | Optional(inner):
                names |= names_bound_by(inner)
            case Either(blocks):
                names.update(*(names_bound_by(block) for block in blocks))
            case _:
                pass
    return frozenset(names)
