"""The text of a JSON value -> the value, strictly: no repeated members, no NaN, no halves of surrogate pairs. Numbers keep their text."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final, NoReturn

from omnigraph.exec.load.json_values import InvalidValue, Real, Whole
from omnigraph.exec.problems import ProblemCode


def loads(text: str) -> dict[str, object]:
    """Parse one value. Raises `InvalidValue`, `ValueError` or `RecursionError`."""
    value = _DECODER.decode(text)
    if "\\ud" in text or "\\uD" in text:
        _refuse_surrogates(value)
    return value  # type: ignore[no-any-return]  # json is untyped; `_object` checks


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InvalidValue(ProblemCode.DUPLICATE_MEMBER, f"duplicate JSON member '{twice}'")
    return members


def _constant(name: str) -> NoReturn:
    raise InvalidValue(ProblemCode.JSON, f"{name} is not JSON")


def _refuse_surrogates(value: object) -> None:
    """Refuse half of a surrogate pair: it has no UTF-8 form, so it cannot be stored."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(ProblemCode.JSON, f"\\u{ord(error.object[error.start]):04x} is half of a surrogate pair") from error


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=Whole, parse_float=Real, parse_constant=_constant)
