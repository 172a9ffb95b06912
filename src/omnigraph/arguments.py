"""The methods of a public class -> the same methods, which refuse an argument of another type than its annotation names.

Without it a wrong argument fails somewhere inside, in words that say nothing of the call, or is taken for another value: `confirm="no"`
is true. Annotations that name other types than those here are not checked; their methods check them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from inspect import unwrap
from types import FunctionType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from omnigraph.errors import VALUE_CHARACTERS, InvalidInput, Kind, shortened

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Allowed(NamedTuple):
    """One alternative of an annotation: its name in messages, and the test of a value."""

    words: str
    holds: Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool)


def _is_names(value: object) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, Collection) or all(map(_is_text, value))


_TEXTS: Final = _Allowed(
    "a mapping of texts to texts", lambda value: isinstance(value, Mapping) and all(map(_is_text, (*value.keys(), *value.values())))
)
_ALLOWED: Final = {
    "None": _Allowed("None", lambda value: value is None),
    "str": _Allowed("text", _is_text),
    "bool": _Allowed("True or False", lambda value: isinstance(value, bool)),
    "int": _Allowed("a whole number", _is_integer),
    "float": _Allowed("a number", _is_number),
    "datetime": _Allowed("a datetime", lambda value: isinstance(value, datetime)),
    "timedelta": _Allowed("a timedelta", lambda value: isinstance(value, timedelta)),
    "os.PathLike[str]": _Allowed("a path", lambda value: isinstance(value, os.PathLike)),
    "Mapping[str, str]": _TEXTS,
    "Iterable[str]": _Allowed("a list of texts", _is_names),
    "Collection[str]": _Allowed("a list of texts", _is_names),
}
_MAPPING: Final = _Allowed("a mapping", lambda value: isinstance(value, Mapping))
_CALLABLE: Final = _Allowed("a function", callable)
_BETWEEN: Final = re.compile(r" \| (?![^\[]*\])")
"""What separates the alternatives of an annotation, outside of brackets."""


def checked(call: Callable[P, R], *, but: Collection[str] = ()) -> Callable[P, R]:
    """Return the function with its arguments checked, except for those whose own check says more."""
    code = unwrap(call).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    allowed = {name: found for name in names if name not in but and (found := _alternatives(call.__annotations__.get(name, "")))}

    @wraps(call)
    def strict(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in allowed and not any(one.holds(value) for one in allowed[name]):
                raise _wrong(call.__name__, name, value, allowed[name])
            if isinstance(value, str) and not value.isascii():
                _refuse_surrogates(call.__name__, name, value)
        return call(*args, **kwargs)

    return strict


def checked_methods(*, but: Collection[str] = ()) -> Callable[[type[T]], type[T]]:
    """Check the arguments of every public method of a class."""

    def decorate(cls: type[T]) -> type[T]:
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, checked(method, but=but))
        return cls

    return decorate


def _alternatives(annotation: object) -> tuple[_Allowed, ...]:
    """Return what an annotation allows. Empty if it names a type that is not known here."""
    found = []
    for part in _BETWEEN.split(str(annotation)):
        known = _ALLOWED.get(part)
        if known is None:
            known = _MAPPING if part.startswith("Mapping[") else _CALLABLE if part.startswith("On") else None
        if known is None:
            return ()
        found.append(known)
    return tuple(found)


def _wrong(method: str, name: str, value: object, allowed: tuple[_Allowed, ...]) -> InvalidInput:
    words = [one.words for one in allowed]
    choice = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    given = "None" if value is None else f"{type(value).__name__}: {shortened(repr(value), VALUE_CHARACTERS)}"
    return InvalidInput(Kind.INVALID_ARGUMENT, f"`{name}` of {method.strip('_')}() takes {choice}, not {given}", argument=name)


def _refuse_surrogates(method: str, name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        shown = shortened(ascii(value), VALUE_CHARACTERS)
        what = f"`{name}` of {method.strip('_')}() is not text that UTF-8 can hold: {shown}"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what, argument=name) from None
