"""A query file + a catalog -> a report of syntax errors, type errors and probable omissions."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.errors import LanguageError, ResourceLimitExceeded
from omnigraph.lang import parse_queries
from omnigraph.lang.query import Query, Read
from omnigraph.plan.check import check
from omnigraph.plan.lint_warnings import changes_of, lint_warnings
from omnigraph.plan.operation import Operation, operation_of
from omnigraph.plan.typed import TypedQuery, UpdateBound, UpdateRows

PARSE_CODE = "Q000"
COVERAGE_CODE = "L201"
NO_PARAMETERS = "mutation declares no params; hardcoded mutations are easy to miss"


class LintSeverity(StrEnum):
    """Most severe first: findings are sorted in this order."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class LintStatus(StrEnum):
    OK = "ok"
    ERROR = "error"


class SchemaSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the schema came from: `kind` is "file" with a `path`, or "graph" with a `uri`."""

    kind: str
    path: str | None = None
    uri: str | None = None


class LintFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """About the file as a whole, or about a type across its queries."""

    severity: LintSeverity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] | None = None


class QueryResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One query: `operation` when it compiles, `error` when it does not. `warnings` are about what is legal and probably not meant."""

    name: str
    kind: str
    status: LintStatus
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: Operation | None = None


class LintReport(msgspec.Struct, frozen=True):
    """The whole report, in the form that `lint --json` prints."""

    status: LintStatus
    schema_source: SchemaSource
    query_path: str
    queries_processed: int
    errors: int
    warnings: int
    infos: int
    results: tuple[QueryResult, ...]
    findings: tuple[LintFinding, ...]


def lint(text: str, catalog: Catalog, *, query_path: str, schema_source: SchemaSource) -> LintReport:
    """Check every query by itself. An error in one query does not hide errors in another."""
    results: list[QueryResult] = []
    valid: list[tuple[str, TypedQuery]] = []
    findings: list[LintFinding] = []
    try:
        queries = parse_queries(text, name=query_path).queries
    except LanguageError as error:
        queries = ()
        place = "" if error.position is None else f" (line {error.position.line}, column {error.position.column})"
        findings.append(LintFinding(LintSeverity.ERROR, PARSE_CODE, f"{error.message}{place}"))
    except ResourceLimitExceeded as error:
        queries = ()
        findings.append(LintFinding(LintSeverity.ERROR, PARSE_CODE, error.message))
    for query in queries:
        result, typed = _checked(query, catalog)
        results.append(result)
        if typed is not None:
            valid.append((query.name.text, typed))
    findings.extend(_uncovered(valid))
    return _report(tuple(results), findings, query_path, schema_source)


def _report(results: tuple[QueryResult, ...], findings: list[LintFinding], query_path: str, schema_source: SchemaSource) -> LintReport:
    severities = list(LintSeverity)
    findings.sort(
        key=lambda finding: (severities.index(finding.severity), finding.type_name or "", finding.property or "", finding.message)
    )
    errors = sum(result.error is not None for result in results) + _count(findings, LintSeverity.ERROR)
    return LintReport(
        LintStatus.ERROR if errors else LintStatus.OK,
        schema_source,
        query_path,
        len(results),
        errors,
        sum(len(result.warnings) for result in results) + _count(findings, LintSeverity.WARNING),
        _count(findings, LintSeverity.INFO),
        results,
        tuple(findings),
    )


def _count(findings: list[LintFinding], severity: LintSeverity) -> int:
    return sum(finding.severity is severity for finding in findings)


def _checked(query: Query, catalog: Catalog) -> tuple[QueryResult, TypedQuery | None]:
    name = query.name.text
    kind = "read" if isinstance(query.body, Read) else "mutation"
    warnings = (NO_PARAMETERS,) if kind == "mutation" and not query.parameters else ()
    try:
        typed = check(query, catalog)
    except (LanguageError, ResourceLimitExceeded) as error:
        return QueryResult(name, kind, LintStatus.ERROR, warnings, error=error.message), None
    warnings = (*warnings, *lint_warnings(query, typed))
    return QueryResult(name, kind, LintStatus.OK, warnings, operation=operation_of(typed, catalog)), typed


def _uncovered(valid: list[tuple[str, TypedQuery]]) -> list[LintFinding]:
    """Nullable properties of updated types that no update sets: probably forgotten."""
    updated: dict[str, NodeType] = {}
    set_: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for name, query in valid:
        for change in changes_of(query):
            if isinstance(change, UpdateRows | UpdateBound) and isinstance(change.entity, NodeType):
                node = change.entity
                updated[node.name] = node
                set_.setdefault(node.name, set()).update(value.property for value in change.values)
                names.setdefault(node.name, set()).add(name)
    return [
        LintFinding(
            LintSeverity.WARNING,
            COVERAGE_CODE,
            f"{node.name}.{property_.name} exists in schema but no update query sets it",
            node.name,
            property_.name,
            tuple(sorted(names[node.name])),
        )
        for node in updated.values()
        for property_ in node.properties
        if property_.nullable
        and property_.name not in set_[node.name]
        and property_.embed is None
        and (node.key is None or property_.name not in node.key.columns)
    ]
