"""The names a query can see while it is checked: parameters, and the variables bound so far."""

from __future__ import annotations

from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, InterfaceType, NodeType
from omnigraph.catalog.types import EnumOf, ValueType
from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.lang.query import PropertyRef, Variable
from omnigraph.lang.tree import Name
from omnigraph.plan.expr import ID, STRING, Field, whole
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import ROW, BoundVariable, Parameter, PathType
from omnigraph.plan.values import compatible, described

MAX_STEPS: Final = 100
"""Variables, anonymous ones included, blocks and rankings of one query: the depth of the plan grows with their number."""

ENDS: Final = {"from": "src", "to": "dst"}
"""The names of an edge's ends in a query -> their columns."""


class Parameters:
    """The parameters of a query. An anonymous query declares none: each takes the type of the place where it first stands."""

    def __init__(self, declared: tuple[Parameter, ...], *, variables: frozenset[str] | None = None) -> None:
        """`variables` are the names that an anonymous query binds, and that therefore are no parameters; None for a named query."""
        self._known = {parameter.name: parameter for parameter in declared}
        self._variables = variables

    def get(self, name: str) -> Parameter | None:
        return self._known.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def all(self) -> tuple[Parameter, ...]:
        """Every parameter, in the order of its declaration or first use."""
        return tuple(self._known.values())

    def is_open(self, name: str) -> bool:
        """Whether a name is a parameter whose type is not known yet."""
        return self._variables is not None and name not in self._variables and name not in self._known

    def infer(self, variable: Variable, type_: ValueType | None) -> Parameter:
        """Declare an open parameter with the type of its place."""
        if type_ is None:
            hint = f"declare it: `query name(${variable.name}: String) {{ .. }}`"
            raise refused(Code.PARAMETER, f"the type of parameter `{variable}` cannot be told from its place", variable, hint=hint)
        plain = STRING if isinstance(type_, EnumOf) else type_
        return self._known.setdefault(variable.name, Parameter(variable.name, plain, nullable=True, required=True))


class Scope:
    """Grows clause by clause. The scope of an inner block sees the outer names; its own names are not visible outside."""

    def __init__(self, catalog: Catalog, parameters: Parameters, *, row: EntityType | None = None) -> None:
        """`row` is the type of the row that a change is about: bare words are its properties."""
        self.catalog: Final = catalog
        self.parameters: Final = parameters
        self.row = row
        self._row_slot = ROW
        self.variables: Final[list[BoundVariable]] = []
        self._steps: Final[list[None]] = []
        self._names: dict[str, int] = {}

    def inner(self) -> Scope:
        """The scope of a block inside this one."""
        scope = Scope.__new__(Scope)
        scope.__dict__.update(self.__dict__)
        scope._names = dict(self._names)
        return scope

    def of_row(self, row: EntityType, *, slot: int = ROW) -> Scope:
        """The scope of a change of rows of a type: the same variables, and the row's own properties as fields of `slot`."""
        scope = self.inner()
        scope.row, scope._row_slot = row, slot
        return scope

    def slots(self) -> frozenset[int]:
        """The slots of all names."""
        return frozenset(self._names.values())

    def slot(self, variable: Variable) -> int | None:
        """Where a variable is bound. `$_` never is: `bind` does not keep its name."""
        return self._names.get(variable.name)

    def bind(self, variable: Variable, type_: EntityType | InterfaceType | PathType) -> int:
        """A new slot for a variable that has none here; `$_` gets one each time."""
        self.step()
        slot = len(self.variables)
        self.variables.append(BoundVariable(variable.name, type_))
        if not variable.wildcard:
            self._names[variable.name] = slot
        return slot

    def make_optional(self, first: int) -> tuple[int, ...]:
        """The variables from slot `first` on may be null from here on. Returns the slots that are visible."""
        visible = tuple(sorted(slot for slot in self._names.values() if slot >= first))
        for slot in visible:
            self.variables[slot] = msgspec.structs.replace(self.variables[slot], optional=True)
        return visible

    def step(self) -> None:
        """Count one more step of the plan."""
        self._steps.append(None)
        if len(self._steps) > MAX_STEPS:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"a query may have at most {MAX_STEPS} variables, blocks and rankings",
                resource="query_steps",
                limit=MAX_STEPS,
                actual=len(self._steps),
            )

    def node(self, variable: Variable) -> tuple[int, NodeType | InterfaceType] | None:
        """The slot and type of a bound node; an edge or a path is an error."""
        slot = self.slot(variable)
        if slot is None:
            return None
        type_ = self.variables[slot].type
        match type_:
            case EdgeType():
                raise refused(Code.EDGE_VARIABLE, f"`{variable}` is an edge and cannot be used as a node", variable)
            case PathType():
                hint = f"read it with `nodes({variable})`, `edges({variable})` or `length({variable})`"
                raise refused(Code.PROPERTY, f"`{variable}` is a path and cannot be used as a node", variable, hint=hint)
            case _:
                return slot, type_

    def types(self, type_: NodeType | InterfaceType) -> tuple[NodeType, ...]:
        """The node types of a bound node: its own, or all that implement its interface."""
        return (type_,) if isinstance(type_, NodeType) else self.catalog.implementing(type_)

    def entity(self, slot: int) -> Field:
        """The whole entity of a slot."""
        return whole(slot, nullable=self.variables[slot].optional)

    def field(self, ref: PropertyRef, *, code: Code = Code.PROPERTY) -> Field:
        """`$v.property`, resolved, or `code`."""
        slot = self.slot(ref.variable)
        if slot is None:
            hint = nearest_name(ref.variable.name, self._names, sign="$")
            raise refused(code, f"variable `{ref.variable}` is not bound", ref.variable, hint=hint)
        bound = self.variables[slot]
        if isinstance(bound.type, PathType):
            hint = f"read it with `nodes({ref.variable})`, `edges({ref.variable})` or `length({ref.variable})`"
            raise refused(code, f"`{ref.variable}` is a path and has no properties", ref.property, hint=hint)
        return self._column(slot, bound.type, ref.property, code=code, optional=bound.optional)

    def own(self, name: Name, *, code: Code = Code.WRITE_PROPERTY) -> Field:
        """A property of the row that a change is about."""
        assert self.row is not None
        return self._column(self._row_slot, self.row, name, code=code, optional=False)

    def _column(self, slot: int, type_: EntityType | InterfaceType, name: Name, *, code: Code, optional: bool) -> Field:
        if name.text == ID:
            return Field(slot, ID, STRING, optional)
        if isinstance(type_, EdgeType) and name.text in ENDS:
            return Field(slot, ENDS[name.text], STRING, optional)
        found = type_.property(name.text)
        if found is None:
            known = (ID, *(ENDS if isinstance(type_, EdgeType) else ()), *(property_.name for property_ in type_.properties))
            hint = nearest_name(name.text, known)
            raise refused(code, f"{type_.kind} type `{type_.name}` has no property `{name}`", name, hint=hint)
        return Field(slot, found.name, found.type, found.nullable or optional)

    def unbound(self, variable: Variable) -> Exception:
        hint = nearest_name(variable.name, (*self._names, *self.parameters.names()), sign="$")
        return refused(None, f"variable `{variable}` is not bound", variable, hint=hint)

    def parameter(self, variable: Variable, expected: ValueType | None) -> Parameter | None:
        """The parameter of that name; one that an anonymous query uses for the first time takes the expected type."""
        if (known := self.parameters.get(variable.name)) is not None:
            return known
        if not self.parameters.is_open(variable.name):
            return None
        return self.parameters.infer(variable, expected)

    def required_parameter(self, variable: Variable, wanted: ValueType, owner: str) -> Parameter:
        """The parameter that gives a value of `owner`."""
        parameter = self.parameter(variable, wanted)
        if parameter is None:
            raise self.unbound(variable)
        if not compatible(parameter.type, wanted):
            message = f"parameter `{variable}` of type {described(parameter.type)} does not fit `{owner}` of type {described(wanted)}"
            raise refused(Code.OPERANDS, message, variable)
        return parameter

    def of_edge(self, field: Field) -> bool:
        """Whether a field belongs to an edge variable."""
        return field.binding != ROW and isinstance(self.variables[field.binding].type, EdgeType)
