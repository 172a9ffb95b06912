"""Values -> text on stdout; notes and errors -> text on stderr, and with --json one JSON object. Only this module prints results."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from omnigraph.cli.screen import Style, screen_of
from omnigraph.errors import Kind, LanguageError, OmniGraphError, bounded
from omnigraph.grid import cell_text, counted, display_width, escaped, fitted, table_lines


def _plain(value: object) -> object:
    """Return a struct as its members, and anything else that JSON does not know as text."""
    if hasattr(value, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    return str(value)


_ENCODE: Final = json.JSONEncoder(default=_plain, ensure_ascii=False).encode
_SCALAR: Final = (str, int, float, bool)


class OutputError(Exception):
    """A write to stdout failed: the reader closed the pipe, the caller closed stdout, or the disk is full."""

    def __init__(self, cause: OSError) -> None:
        super().__init__("it is closed" if cause.errno == errno.EBADF else cause.strerror)
        self.is_closed_pipe: Final = isinstance(cause, BrokenPipeError)


def line(text: str) -> None:
    _put(_encodable(escaped(text)))


def fields(values: Mapping[str, object]) -> None:
    """Print `key: value` lines. Values of None are omitted."""
    for key, value in values.items():
        if value is not None:
            line(f"{key}: {('no', 'yes')[value] if isinstance(value, bool) else value}")


def document(value: Mapping[str, object]) -> None:
    """Print one JSON document, indented. A value that is an iterator becomes an array, and is printed item by item."""
    members(iter(value.items()))


def members(pairs: Iterator[tuple[str, object]]) -> None:
    """Print one JSON document of which later members are known only after earlier ones were printed."""
    _object(pairs, by=0)
    _put("")


def _value(value: object, *, by: int) -> None:
    """Print a value. Iterators in it, also in the items of an iterator, are printed item by item."""
    if isinstance(value, Iterator):
        _array(value, by=by)
    elif isinstance(value, dict) and any(isinstance(held, Iterator) for held in value.values()):
        _object(iter(value.items()), by=by)
    else:
        _put_json(_indented(value, by=by), end="")


def _object(pairs: Iterator[tuple[str, object]], *, by: int) -> None:
    some = False
    for key, held in pairs:
        _put_json(f"{',' if some else '{'}\n{' ' * by}  {_ENCODE(key)}: ", end="")
        _value(held, by=by + 2)
        some = True
    _put(f"\n{' ' * by}}}" if some else "{}", end="")


def _array(items: Iterator[object], *, by: int) -> None:
    some = False
    for item in items:
        _put_json(f"{',' if some else '['}\n{' ' * by}  ", end="")
        _value(item, by=by + 2)
        some = True
    _put(f"\n{' ' * by}]" if some else "[]", end="")


def _indented(value: object, *, by: int) -> str:
    """Return a value as JSON. The lines after the first are indented by `by` spaces more."""
    if isinstance(value, dict) and value and all(item is None or isinstance(item, _SCALAR) for item in value.values()):
        # The encoder of Python is slow where it indents. A row of a result seldom needs it.
        pad = "\n" + " " * by
        cells = ",".join(f"{pad}  {_ENCODE(str(key))}: {_ENCODE(item)}" for key, item in value.items())
        return f"{{{cells}{pad}}}"
    return json.dumps(value, indent=2, default=_plain, ensure_ascii=False).replace("\n", "\n" + " " * by)  # a text holds no plain newline


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
    _put_json(json.dumps(value, separators=(",", ":"), default=str, ensure_ascii=False))


def verbatim(text: str) -> None:
    """Print a line for programs. Control characters are not escaped."""
    _put(_encodable(text))


def flush() -> None:
    """Flush stdout. A failure at interpreter exit could not be reported."""
    if sys.stdout is not None:
        with _wrap_output_errors():
            sys.stdout.flush()


def is_terminal() -> bool:
    """Return whether results are shown on a terminal. Where they are not, they are neither cut nor coloured."""
    return terminal_width() is not None


def cut_line(text: str, style: Style | None = None) -> None:
    """Print a line in a style. On a terminal it is cut at the width."""
    screen = screen_of(sys.stdout)
    shown = escaped(text)
    cut = shown if screen.width is None else fitted(shown, screen.width)
    _put(_encodable(cut if style is None else screen.paint(cut, style)))


def note(text: str) -> None:
    """Print a message to stderr. It is not a result."""
    print(escaped(text), file=sys.stderr)


def ask(question: str) -> str:
    """Print a question to stderr and read the answer from stdin. Returns "" at the end of input."""
    print(escaped(question), end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def error(message: str) -> None:
    print(f"{screen_of(sys.stderr).paint('Error:', Style.RED)} {message}", file=sys.stderr)


def interrupted() -> None:
    """Report Ctrl-C, which the terminal has shown as `^C`, on a line of its own."""
    if screen_of(sys.stderr).width is not None:
        note("")
    error("interrupted")


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
    error(f"unexpected {type(failed).__name__}: {bounded(str(failed))}")
    note("This is a bug in omnigraph. Please report it, with the output of --verbose.")


def output_failure(failed: OutputError) -> None:
    """Report that the command succeeded and its result was not written. A closed pipe, as with `| head`, is not reported."""
    if not failed.is_closed_pipe:
        error(f"done, but the result could not be written to stdout: {failed}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise the flush at exit fails again


def _put_json(text: str, *, end: str = "\n") -> None:
    """Print JSON. A character that the encoding of stdout lacks is escaped as JSON does it."""
    encoding = _encoding()
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
    _put(text, end=end)


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
    encoding = _encoding()
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


FORMATS: Final = ("table", "kv", "csv", "jsonl", "json")
TERMINAL_ROWS: Final = 1_000
"""The rows of a table on a terminal. A pipe and a file get all."""
NO_ROWS: Final = "(no rows)"


def terminal_width() -> int | None:
    """Return the width of the terminal that stdout is, or None for a pipe or a file."""
    return screen_of(sys.stdout).width


def rows(form: str, headline: str, columns: Sequence[str], values: Sequence[Sequence[object]]) -> None:
    """Print rows. On a terminal a table is cut to its width, and the names of its columns are bold."""
    screen = screen_of(sys.stdout)
    for at, one in enumerate(format_rows(form, headline, columns, values, width=screen.width if form == "table" else None)):
        if form == "csv":
            verbatim(one)
        elif form == "table" and at == 1 and columns:
            _put(_encodable(screen.paint(one, Style.BOLD)))  # escaped already
        else:
            line(one)


def format_rows(
    form: str, headline: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, width: int | None = None
) -> Iterator[str]:
    """Yield the rows as lines of `form`, which is `table`, `kv` or `csv`.

    With the `width` of a terminal, a table is cut to fit it: long values, columns that have no room, and rows after the first thousand.
    """
    if form == "csv":
        yield from _csv(columns, rows)
        return
    yield headline
    if not columns or (form == "kv" and not rows):
        yield NO_ROWS
    elif form == "kv":
        yield from _blocks(columns, rows)
    elif width is None:
        yield from table_lines(columns, rows, widest=None)
    else:
        yield from table_lines(columns, rows[:TERMINAL_ROWS], width=width)
        if len(rows) > TERMINAL_ROWS:
            more = counted(len(rows) - TERMINAL_ROWS, "more row")
            yield f"… {more}: a pipe, as in `| less`, gets all of them"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines, the cells two spaces apart and aligned."""
    if not rows:
        return []
    widths = [max(display_width(escaped(row[at])) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(f"{cell}{' ' * (width - display_width(escaped(cell)))}" for cell, width in zip(row, widths, strict=True)) for row in rows
    ]


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name, value in zip(columns, row, strict=True):
            yield f"{name}: {cell_text(value)}"


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield CSV that a load reads back: null is an empty cell, and an empty text is `""`."""
    yield ",".join(map(_quoted, columns))
    for row in rows:
        yield ",".join("" if value is None else _quoted(cell_text(value)) for value in row)


def _quoted(text: str) -> str:
    plain = text and not any(char in text for char in ',"\r\n')
    return text if plain else f'"{text.replace(chr(34), chr(34) * 2)}"'
