"""Values -> text on stdout; notes and errors -> text on stderr, and with --json one JSON object. Only this module prints results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from omnigraph.cli.screen import Style, screen_of
from omnigraph.cli.table import blocks, printable, shorten, table, text_of
from omnigraph.errors import Kind, LanguageError, OmniGraphError


def _plain(value: object) -> object:
    """Return a struct as its members, and anything else that JSON does not know as text."""
    if hasattr(value, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    return str(value)


_ENCODE: Final = json.JSONEncoder(default=_plain).encode
_SCALAR: Final = (str, int, float, bool)


class OutputError(Exception):
    """A write to stdout failed: the reader closed the pipe, or the disk is full."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror)
        self.is_closed_pipe: Final = isinstance(cause, BrokenPipeError)


def line(text: str) -> None:
    _put(_encodable(printable(text)))


def fields(values: Mapping[str, object]) -> None:
    """Print `key: value` lines. Values of None are omitted."""
    for key, value in values.items():
        if value is not None:
            line(f"{key}: {('no', 'yes')[value] if isinstance(value, bool) else value}")


def document(value: Mapping[str, object]) -> None:
    """Print one JSON document, indented. A value that is an iterator becomes an array, and is printed item by item."""
    for at, (key, held) in enumerate(value.items()):
        _put(f"{',' if at else '{'}\n  {_ENCODE(key)}: ", end="")
        if isinstance(held, Iterator):
            _array(held)
        else:
            _put(_indented(held, by=2), end="")
    _put("\n}" if value else "{}")


def _array(items: Iterator[object]) -> None:
    some = False
    for item in items:
        _put(f"{',' if some else '['}\n    {_indented(item, by=4)}", end="")
        some = True
    _put("\n  ]" if some else "[]", end="")


def _indented(value: object, *, by: int) -> str:
    """Return a value as JSON. The lines after the first are indented by `by` spaces more."""
    if isinstance(value, dict) and value and all(item is None or isinstance(item, _SCALAR) for item in value.values()):
        # The encoder of Python is slow where it indents. A row of a result seldom needs it.
        pad = "\n" + " " * by
        cells = ",".join(f"{pad}  {_ENCODE(str(key))}: {_ENCODE(item)}" for key, item in value.items())
        return f"{{{cells}{pad}}}"
    return json.dumps(value, indent=2, default=_plain).replace("\n", "\n" + " " * by)  # a text holds no plain newline


def raw(data: bytes) -> None:
    """Write bytes to stdout, neither escaped nor encoded."""
    with _wrap_output_errors():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def lines(text: str) -> None:
    """Print a text of several lines, each escaped."""
    for one in text.splitlines():
        line(one)


def compact(value: Mapping[str, object]) -> None:
    """Print one JSON object on one line."""
    _put(json.dumps(value, separators=(",", ":"), default=str))


def verbatim(text: str) -> None:
    """Print a line for programs. Control characters are not escaped."""
    _put(_encodable(text))


def flush() -> None:
    """Flush stdout. A failure at interpreter exit could not be reported."""
    if sys.stdout is not None:
        with _wrap_output_errors():
            sys.stdout.flush()


def is_terminal() -> bool:
    """Return whether results are shown on a terminal. Where they are not, they are neither shortened nor coloured."""
    return screen_of(sys.stdout).width is not None


def shortened(text: str, style: Style | None = None) -> None:
    """Print a line in a style. On a terminal it is cut at the width."""
    screen = screen_of(sys.stdout)
    shown = printable(text)
    cut = shown if screen.width is None else shorten(shown, screen.width)
    _put(_encodable(cut if style is None else screen.paint(cut, style)))


def note(text: str) -> None:
    """Print a message to stderr. It is not a result."""
    print(printable(text), file=sys.stderr)


def ask(question: str) -> str:
    """Print a question to stderr and read the answer from stdin. Returns "" at the end of input."""
    print(printable(question), end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def error(message: str) -> None:
    print(f"{screen_of(sys.stderr).paint('Error:', Style.RED)} {message}", file=sys.stderr)


def failure(failed: OmniGraphError, *, as_json: bool) -> None:
    """Print an error, with its position in the text if it has one. With --json, print it as a JSON object as well."""
    error(str(failed))
    for added in getattr(failed, "__notes__", ()):
        note(f"  {added}")
    if as_json:
        _machine_error(failed.message, failed.kind, failed.facts, _place(failed))


def usage(message: str, *, as_json: bool) -> None:
    """Print a usage error as a JSON object. Click has printed the text."""
    if as_json:
        _machine_error(message, Kind.INVALID_ARGUMENT, {}, {})


def unexpected(failed: Exception) -> None:
    """Report a bug. The traceback is printed only with --verbose."""
    error(f"unexpected {type(failed).__name__}: {failed}")
    note("This is a bug in omnigraph. Please report it, with the output of --verbose.")


def output_failure(failed: OutputError) -> None:
    """Report that the command succeeded and its result was not written. A closed pipe, as with `| head`, is not reported."""
    if not failed.is_closed_pipe:
        error(f"done, but the result could not be written to stdout: {failed}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise the flush at exit fails again


def _put(text: str, *, end: str = "\n") -> None:
    with _wrap_output_errors():
        print(text, end=end)


@contextmanager
def _wrap_output_errors() -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise OutputError(failed) from failed


def _machine_error(message: str, kind: Kind, facts: Mapping[str, object], place: Mapping[str, object]) -> None:
    print(json.dumps({"error": message, "kind": kind.value, "facts": facts, **place}, default=_plain), file=sys.stderr)


def _place(failed: OmniGraphError) -> dict[str, object]:
    """Return the code and the position of a language error. Empty for other errors."""
    if not isinstance(failed, LanguageError):
        return {}
    line, column = failed.position or (None, None)
    return {"code": failed.code, "line": line, "column": column}


def _encodable(text: str) -> str:
    """Escape the characters that the encoding of stdout lacks. Python does this for stderr only."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


FORMATS: Final = ("table", "kv", "csv", "jsonl", "json")


def rows(form: str, headline: str, columns: Sequence[str], values: Iterable[Sequence[object]], *, count: int) -> None:
    """Print `count` rows in `form`, which is `table`, `kv` or `csv`."""
    if form == "csv":
        for one in _csv(columns, values):
            verbatim(one)
        return
    line(headline)
    screen = screen_of(sys.stdout)
    for one in (blocks if form == "kv" else table)(columns, values, count, screen):
        verbatim(one)


def _csv(columns: Sequence[str], values: Iterable[Sequence[object]]) -> Iterator[str]:
    yield ",".join(_quoted(name) for name in columns)
    for row in values:
        yield ",".join(_quoted(text_of(value)) for value in row)


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(char in text for char in ',"\r\n') else text
