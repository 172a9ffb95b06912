"""Files and arguments -> texts and JSON, or an error that says which file, where, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang import Source, parse_queries, render, select_query


def read_text(path: str, what: str) -> Source:
    """A UTF-8 file; `what` it is, for messages. A byte order mark at its start is no part of the text."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"there is no {what} {path}; check the path", path=path) from error
    except IsADirectoryError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{path} is a folder, not a {what}", path=path) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read the {what} {path}: {reason}", path=path) from error
    try:
        return Source(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}, on line {line}; save the {what} as UTF-8",
            path=path,
            offset=error.start,
            line=line,
        ) from error


@contextmanager
def shown_in(source: Source) -> Iterator[None]:
    """Draw language errors under the name by which the user knows the text."""
    try:
        yield
    except LanguageError as error:
        error.rendered = render(error, source)
        raise


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


def read_params(text: str | None, path: str | None) -> dict[str, object] | None:
    """The JSON object of `--params`, or of the file of `--params-file`."""
    if text is None and path is None:
        return None
    source = Source(text, "--params") if text is not None else read_text(str(path), "parameter file")
    try:
        params = json.loads(source.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _invalid(source, f"invalid JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:
        raise _invalid(source, f"invalid JSON: {error}") from error
    if not isinstance(params, dict):
        raise _invalid(source, 'params must be a JSON object, as in {"name": "Ada"}')
    return params


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _invalid(source: Source, message: str, **position: int) -> InvalidInput:
    at = "".join(f":{number}" for number in position.values())
    return InvalidInput(Kind.INVALID_ARGUMENT, f"{source.name}{at}: {message}", source=source.name, **position)
