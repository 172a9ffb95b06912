"""Values -> text on stdout; notes and errors -> text (and one JSON object, when asked for) on stderr. Only this module prints results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import Kind, LanguageError, OmniGraphError


class Unheard(Exception):
    """Stdout takes no more: a pipe that nobody reads, a full disk."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror)
        self.reader_left: Final = isinstance(cause, BrokenPipeError)


def line(text: str) -> None:
    _put(_in_alphabet(_plain(text)))


def fields(values: Mapping[str, object]) -> None:
    """`key: value` lines; what is None is left out."""
    for key, value in values.items():
        if value is not None:
            line(f"{key}: {('no', 'yes')[value] if isinstance(value, bool) else value}")


def document(value: Mapping[str, object]) -> None:
    """One JSON document, indented, on stdout."""
    _put(json.dumps(value, indent=2, default=str))


def raw(data: bytes) -> None:
    """Bytes that are a result themselves: neither escaped nor put into a terminal's alphabet."""
    with _heard():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def lines(text: str) -> None:
    """A text of several lines, each made plain."""
    for one in text.splitlines():
        line(one)


def compact(value: Mapping[str, object]) -> None:
    """One JSON object on one line."""
    _put(json.dumps(value, separators=(",", ":"), default=str))


def verbatim(text: str) -> None:
    """A line for programs, whose bytes are their own: nothing is made plain."""
    _put(_in_alphabet(text))


def flush() -> None:
    """Now, and not when the interpreter ends, where a failure could no longer be told."""
    if sys.stdout is not None:
        with _heard():
            sys.stdout.flush()


def note(text: str) -> None:
    """For the person at the terminal: not a result."""
    print(_plain(text), file=sys.stderr)


def ask(question: str) -> str:
    """The answer of the person at the terminal; "" when there is none."""
    print(_plain(question), end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def error(message: str) -> None:
    print(f"Error: {message}", file=sys.stderr)


def failure(failed: OmniGraphError, *, as_json: bool) -> None:
    """An error for a person, with the place in the text if it has one; and with --json for a program too."""
    error(str(failed))
    for added in getattr(failed, "__notes__", ()):
        note(f"  {added}")
    if as_json:
        _machine_error(failed.message, failed.kind, failed.facts, _place(failed))


def usage(message: str, *, as_json: bool) -> None:
    """The command line itself was wrong, and a person has been told: with --json a program is told too."""
    if as_json:
        _machine_error(message, Kind.INVALID_ARGUMENT, {}, {})


def unexpected(failed: Exception) -> None:
    """A mistake of ours: no traceback for somebody who cannot mend it."""
    error(f"unexpected {type(failed).__name__}: {failed}")
    note("This is a bug in omnigraph. Please report it, with what --verbose says.")


def unheard(lost: Unheard) -> None:
    """The command was done. Behind `| head` nobody needs to be told."""
    if not lost.reader_left:
        error(f"done, but the result could not be written to stdout: {lost}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush fails once more


def _put(text: str) -> None:
    with _heard():
        print(text)


@contextmanager
def _heard() -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise Unheard(failed) from failed


def _machine_error(message: str, kind: Kind, facts: Mapping[str, object], place: Mapping[str, object]) -> None:
    print(json.dumps({"error": message, "kind": kind.value, "facts": facts, **place}, default=str), file=sys.stderr)


def _place(failed: OmniGraphError) -> dict[str, object]:
    """What a language error knows besides: the code of the language reference, and where the text is wrong."""
    if not isinstance(failed, LanguageError):
        return {}
    line, column = failed.position or (None, None)
    return {"code": failed.code, "line": line, "column": column}


def _plain(text: str) -> str:
    """One line that moves no cursor, whatever somebody put into a name."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _in_alphabet(text: str) -> str:
    """Stdout may not have all letters; stderr escapes those it lacks by itself."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


FORMATS: Final = ("table", "kv", "csv", "jsonl", "json")
WIDEST: Final = 60
"""A longer cell is cut in a table."""
NARROWEST: Final = 8
NO_ROWS: Final = "(no rows)"


def printed(form: str, headline: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of `form`, which is `table`, `kv` or `csv`."""
    if form == "csv":
        yield from _csv(columns, rows)
        return
    yield headline
    if not columns or (form == "kv" and not rows):
        yield NO_ROWS
    elif form == "kv":
        yield from _blocks(columns, rows)
    else:
        yield from _table(columns, rows)


def _cell(value: object) -> str:
    """A text as it is, everything else as JSON spells it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [[_cut(_cell(value)) for value in row] for row in rows]
    widths = [
        max(NARROWEST, len(_cut(name)), *(len(row[at]) for row in cells)) if cells else max(NARROWEST, len(_cut(name)))
        for at, name in enumerate(columns)
    ]
    yield _padded([_cut(name) for name in columns], widths)
    yield "-+-".join("-" * width for width in widths)
    for row in cells:
        yield _padded(row, widths)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cut(text: str) -> str:
    shown = text.replace("\r", "\\r").replace("\n", "\\n")
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name, value in zip(columns, row, strict=True):
            yield f"{name}: {_cell(value)}"


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield ",".join(_quoted(name) for name in columns)
    for row in rows:
        yield ",".join(_quoted(_cell(value)) for value in row)


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(char in text for char in ',"\r\n') else text
