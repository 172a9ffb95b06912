"""The names a query can see while it is checked: parameters, and the variables bound so far."""

from __future__ import annotations

from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.lang.query import PropertyRef, Variable
from omnigraph.plan.expr import Field
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import BoundVariable, Parameter

MAX_STEPS: Final = 100
"""Variables, anonymous ones included, negations and rankings of one query: the depth of the plan grows with their number."""


class Scope:
    """Grows clause by clause. A scope inside a `not` sees the outer names; its own names are not visible outside."""

    def __init__(self, catalog: Catalog, parameters: tuple[Parameter, ...]) -> None:
        self.catalog: Final = catalog
        self.parameters: Final = {parameter.name: parameter for parameter in parameters}
        self.variables: Final[list[BoundVariable]] = []
        self._steps: Final[list[None]] = []
        self._names: dict[str, int] = {}

    def inner(self) -> Scope:
        """The scope of a block inside this one."""
        scope = Scope.__new__(Scope)
        scope.__dict__.update(self.__dict__)
        scope._names = dict(self._names)
        return scope

    def slots(self) -> frozenset[int]:
        """The slots of all names."""
        return frozenset(self._names.values())

    def slot(self, variable: Variable) -> int | None:
        """Where a variable is bound; `$_` never is."""
        return None if variable.wildcard else self._names.get(variable.name)

    def bind(self, variable: Variable, type_: EntityType) -> int:
        """A new slot for a variable that has none here; `$_` gets one each time."""
        self.step()
        slot = len(self.variables)
        self.variables.append(BoundVariable(variable.name, type_))
        if not variable.wildcard:
            self._names[variable.name] = slot
        return slot

    def step(self) -> None:
        """Count one more step of the plan."""
        self._steps.append(None)
        if len(self._steps) > MAX_STEPS:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"a query may have at most {MAX_STEPS} variables, negations and rankings",
                resource="query_steps",
                limit=MAX_STEPS,
                actual=len(self._steps),
            )

    def node(self, variable: Variable) -> tuple[int, NodeType] | None:
        """The slot and type of a bound node; an edge variable is an error."""
        slot = self.slot(variable)
        if slot is None:
            return None
        type_ = self.variables[slot].type
        if isinstance(type_, EdgeType):
            raise refused(Code.EDGE_VARIABLE, f"`{variable}` is an edge and cannot be used as a node", variable)
        return slot, type_

    def field(self, ref: PropertyRef, *, code: Code = Code.PROPERTY) -> Field:
        """`$v.property`, resolved, or `code`."""
        slot = self.slot(ref.variable)
        if slot is None:
            hint = nearest_name(ref.variable.name, self._names, sign="$")
            raise refused(code, f"variable `{ref.variable}` is not bound", ref.variable, hint=hint)
        type_ = self.variables[slot].type
        found = type_.property(ref.property.text)
        if found is None:
            hint = nearest_name(ref.property.text, (property_.name for property_ in type_.properties))
            raise refused(code, f"{type_.kind} type `{type_.name}` has no property `{ref.property}`", ref.property, hint=hint)
        return Field(slot, found.name, found.type, found.nullable)

    def unbound(self, variable: Variable) -> Exception:
        hint = nearest_name(variable.name, (*self._names, *self.parameters), sign="$")
        return refused(None, f"variable `{variable}` is not bound", variable, hint=hint)

    def of_edge(self, field: Field) -> bool:
        """Whether a field belongs to an edge variable."""
        return isinstance(self.variables[field.binding].type, EdgeType)
