"""Query texts and parameters from the command line -> the query that is meant and its JSON, or an error that says where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from omnigraph.cli.files import read_source
from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang import Source, parse_queries, render, select_query


@contextmanager
def shown_in(source: Source) -> Iterator[None]:
    """Draw language errors under the name by which the user knows the text."""
    try:
        yield
    except LanguageError as error:
        error.rendered = render(error, source)
        raise


def query_source(path: Path | None, text: str | None, *, what: str) -> Source:
    """The text of `--query` or `--query-string`."""
    if path is not None:
        return read_source(path, what="query file")
    if text is None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"by-name invocation needs a server, and this release has none: give the {what} with --query FILE or -e GQ",
        )
    if not text.strip():
        raise InvalidInput(Kind.INVALID_ARGUMENT, "--query-string must not be empty")
    return Source(text, "--query-string")


def query_named(source: Source, name: str | None) -> str:
    """The name of the query that `name` selects in a text."""
    with shown_in(source):
        file = parse_queries(source.text, name=source.name)
    try:
        return select_query(file, name).name.text
    except InvalidInput as error:
        there = ", ".join(query.name.text for query in file.queries)
        how = f" (NAME, the command's argument): one of {there}" if name is None and there else f"; there is {there}" if there else ""
        raise InvalidInput(error.kind, f"{source.name}: {error.message}{how}", **error.facts) from None


def read_params(text: str | None, path: Path | None) -> dict[str, object] | None:
    """The JSON object of `--params`, or of the file of `--params-file`."""
    if text is not None:
        source = Source(text, "--params")
    elif path is not None:
        source = read_source(path, what="parameter file")
    else:
        return None
    try:
        params = json.loads(source.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _invalid(source, f"invalid JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise _invalid(source, "invalid JSON: it is nested too deeply") from error
    except ValueError as error:
        raise _invalid(source, f"invalid JSON: {error}") from error
    if not isinstance(params, dict):
        raise _invalid(source, 'params must be a JSON object, as in {"name": "Ada"}')
    return params


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _invalid(source: Source, message: str, **position: int) -> InvalidInput:
    at = "".join(f":{number}" for number in position.values())
    return InvalidInput(Kind.INVALID_ARGUMENT, f"{source.name}{at}: {message}", source=source.name, **position)
