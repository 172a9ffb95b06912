"""A declared type -> its checked annotations, and the values of those that the catalog knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from omnigraph.catalog.declarations import DeclaredProperty, DeclaredType
from omnigraph.catalog.model import Annotation, Embed, TypeKind
from omnigraph.catalog.schema_codes import SchemaCode, refuse
from omnigraph.catalog.types import ListOf, Plain, VectorOf, scalar_of
from omnigraph.errors import LanguageError
from omnigraph.lang import schema as tree
from omnigraph.lang.tree import Name, Scalar

CONSTRAINTS: Final = frozenset({"key", "unique", "index"})
"""Annotations that are short for a body constraint over their own property."""
PHYSICAL: Final = CONSTRAINTS | {"embed"}
"""Annotations that configure a column. They are legal on properties only."""
TEXTS: Final = ("description", "instruction")
RENAME: Final = "rename_from"

_KNOWN: Final = PHYSICAL | {*TEXTS, RENAME}
_RESERVED: Final = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})
_RESERVED_IN: Final = {
    TypeKind.INTERFACE: _RESERVED | {"id"},
    TypeKind.NODE: _RESERVED | {"id"},
    TypeKind.EDGE: _RESERVED | {"id", "src", "dst", "from", "to"},
}


def check_annotations(declared: DeclaredType) -> None:
    """Raise for a reserved or duplicate name and for a misplaced annotation: the type first, then each property."""
    match declared.tree:
        case tree.NodeType(annotations=annotations) | tree.EdgeType(annotations=annotations):
            _check_type(declared, annotations)
        case tree.InterfaceType():
            pass
    seen: set[str] = set()
    for property_ in declared.properties:
        _check_name(declared, property_.tree.name, seen)
        _check_property(declared, property_)


def find(annotations: Iterable[tree.Annotation], name: str) -> tree.Annotation | None:
    """The first annotation of that name."""
    return next((annotation for annotation in annotations if annotation.name == name), None)


def text_of(annotations: Iterable[tree.Annotation], name: str) -> str | None:
    """The value of an annotation that occurs at most once, as checked before."""
    annotation = find(annotations, name)
    return annotation.value.text if annotation is not None and annotation.value is not None else None


def embed_of(annotations: Iterable[tree.Annotation]) -> Embed | None:
    """The checked `@embed` of a property."""
    annotation = find(annotations, "embed")
    if annotation is None or annotation.value is None:
        return None
    model = next((option.value.text for option in annotation.options), None)
    return Embed(annotation.value.text, model)


def other_annotations(annotations: Iterable[tree.Annotation]) -> tuple[Annotation, ...]:
    """The annotations without a meaning to the catalog, sorted, so that the order of the text does not matter."""
    found = [
        Annotation(
            annotation.name,
            annotation.value.text if annotation.value is not None else None,
            tuple(sorted((option.key.text, option.value.text) for option in annotation.options)),
        )
        for annotation in annotations
        if annotation.name not in _KNOWN
    ]
    return tuple(sorted(found, key=lambda annotation: (annotation.name, annotation.value or "", annotation.options)))


def _check_name(declared: DeclaredType, name: Name, seen: set[str]) -> None:
    if name.text in _RESERVED_IN[declared.kind]:
        message = f"property name '{name}' is reserved for the table itself ({declared.label})"
        raise refuse(SchemaCode.RESERVED_NAME, message, span=name.span)
    if name.text in seen:
        raise refuse(SchemaCode.DUPLICATE, f"duplicate property '{declared.name}.{name}'", span=name.span)
    seen.add(name.text)


def _check_type(declared: DeclaredType, annotations: tuple[tree.Annotation, ...]) -> None:
    for annotation in annotations:
        if annotation.name in PHYSICAL:
            raise _misplaced(declared, annotation)
    for name in TEXTS:
        _check_text(declared.label, annotations, name)
    _check_rename(declared.label, annotations)


def _misplaced(declared: DeclaredType, annotation: tree.Annotation) -> LanguageError:
    name = annotation.name
    if declared.kind is TypeKind.EDGE:
        return refuse(SchemaCode.EDGE_ANNOTATION, f"@{name} is not supported on edges ({declared.label})", span=annotation.span)
    body = " or as body constraint" if name in CONSTRAINTS else ""
    message = f"@{name} is only supported on node properties{body} ({declared.label})"
    return refuse(SchemaCode.NODE_ANNOTATION, message, span=annotation.span)


def _check_property(declared: DeclaredType, property_: DeclaredProperty) -> None:
    at = f"{declared.name}.{property_.name}"
    annotations = property_.tree.annotations
    _check_physical(declared, property_, at)
    if embed := find(annotations, "embed"):
        _check_embed(declared, property_, embed, at)
    if instruction := find(annotations, "instruction"):
        message = f"@instruction is only supported on node and edge types (property {at})"
        raise refuse(SchemaCode.MISPLACED_INSTRUCTION, message, span=instruction.span)
    _check_text(f"property {at}", annotations, "description")
    _check_rename(f"property {at}", annotations)


def _check_physical(declared: DeclaredType, property_: DeclaredProperty, at: str) -> None:
    seen: set[str] = set()
    for annotation in property_.tree.annotations:
        name = annotation.name
        if name not in PHYSICAL:
            continue
        if declared.kind is TypeKind.EDGE and name in ("key", "embed"):
            message = f"@{name} is not supported on edge properties ({declared.label}.{property_.name})"
            raise refuse(SchemaCode.EDGE_PROPERTY_ANNOTATION, message, span=annotation.span)
        if name in seen:
            raise refuse(SchemaCode.REPEATED_ANNOTATION, f"property {at} declares @{name} multiple times", span=annotation.span)
        seen.add(name)
        match property_.type:
            case ListOf():
                raise refuse(SchemaCode.ON_LIST, f"@{name} is not supported on list property {at}", span=annotation.span)
            case VectorOf() if name in ("key", "unique"):
                raise refuse(SchemaCode.ON_VECTOR, f"@{name} is not supported on vector property {at}", span=annotation.span)
            case Plain(Scalar.BLOB):
                raise refuse(SchemaCode.ON_BLOB, f"@{name} is not supported on blob property {at}", span=annotation.span)


def _check_embed(declared: DeclaredType, property_: DeclaredProperty, embed: tree.Annotation, at: str) -> None:
    if not isinstance(property_.type, VectorOf):
        raise refuse(SchemaCode.BAD_EMBED, f"@embed is only supported on vector properties ({at})", span=embed.span)
    if embed.value is None or not embed.value.text.strip():
        raise refuse(SchemaCode.BAD_EMBED, f"@embed on {at} requires a source property name", span=embed.span)
    for position, option in enumerate(embed.options):
        if option.key.text != "model":
            message = f"@embed on {at} has unknown argument '{option.key}=' (only 'model' is supported)"
            raise refuse(SchemaCode.BAD_EMBED, message, span=option.span)
        if position:
            raise refuse(SchemaCode.BAD_EMBED, f"@embed on {at} declares 'model' multiple times", span=option.span)
    if declared.kind is TypeKind.INTERFACE:
        return  # the source may be a property of the node: each node that inherits this property checks it
    source = declared.property(embed.value.text)
    if source is None:
        message = f"@embed on {at} references unknown source property {embed.value.text}"
        raise refuse(SchemaCode.BAD_EMBED, message, span=embed.value.span)
    if scalar_of(source.type) is not Scalar.STRING:
        raise refuse(SchemaCode.BAD_EMBED, f"@embed source property {declared.name}.{source.name} must be String", span=embed.value.span)


def _check_text(label: str, annotations: tuple[tree.Annotation, ...], name: str) -> None:
    found = [annotation for annotation in annotations if annotation.name == name]
    if len(found) > 1:
        raise refuse(SchemaCode.BAD_TEXT, f"{label} declares @{name} multiple times", span=found[1].span)
    if found and (found[0].value is None or not found[0].value.text.strip()):
        raise refuse(SchemaCode.BAD_TEXT, f"@{name} on {label} requires a non-empty value", span=found[0].span)


def _check_rename(label: str, annotations: tuple[tree.Annotation, ...]) -> None:
    found = [annotation for annotation in annotations if annotation.name == RENAME]
    if len(found) > 1:
        raise refuse(SchemaCode.BAD_RENAME, f"{label} declares @{RENAME} multiple times", span=found[1].span)
    for hint in found:
        if hint.value is None or not hint.value.text.strip():
            message = f"@{RENAME} on {label} requires exactly one non-empty positional value"
            raise refuse(SchemaCode.BAD_RENAME, message, span=hint.span)
        if hint.options:
            raise refuse(SchemaCode.BAD_RENAME, f"@{RENAME} on {label} does not accept keyword arguments", span=hint.options[0].span)
