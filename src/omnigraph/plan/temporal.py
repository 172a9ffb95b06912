"""The texts of dates and times -> days and milliseconds since 1970-01-01 UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[Tt ](?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d+))?(?P<zone>[Zz]|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)
_EPOCH: Final = date(1970, 1, 1)
_EPOCH_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def parse_date(text: str) -> int | None:
    """Days since the epoch of `YYYY-MM-DD`, or None."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return (date.fromisoformat(text) - _EPOCH).days
    except ValueError:
        return None


def parse_datetime(text: str) -> int | None:
    """Milliseconds since the epoch, or None. No zone means UTC, a bare date midnight; finer digits are cut off."""
    found = _DATETIME.fullmatch(text)
    if found is None:
        return None
    try:
        day = date.fromisoformat(found["date"])
        time = datetime(day.year, day.month, day.day, *_clock(found), tzinfo=UTC)
    except ValueError:
        return None
    offset = _offset_minutes(found["zone"])
    if offset is None:
        return None
    # Counted from the epoch without building the shifted instant, which may lie before year 1 or after 9999.
    return (time - _EPOCH_TIME) // _MILLISECOND - offset * 60_000


def _clock(found: re.Match[str]) -> tuple[int, int, int, int]:
    if found["hour"] is None:
        return 0, 0, 0, 0
    milliseconds = int(((found["fraction"] or "") + "000")[:3])
    return int(found["hour"]), int(found["minute"]), int(found["second"]), milliseconds * 1000


def _offset_minutes(zone: str | None) -> int | None:
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)
