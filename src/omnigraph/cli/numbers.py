"""The text of a numeric option -> its number, or a usage error that says which numbers the option takes."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

from omnigraph.errors import VALUE_CHARACTERS, shortened


class WholeNumber(click.IntRange):
    """A whole number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            upto = "or more" if self.max is None else f"to {self.max}"
            self.fail(f"it takes a whole number, {self.min} {upto}, not {_shown(value)}", param, ctx)


class Seconds(click.FloatRange):
    """A time in seconds that a clock can wait for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = super().convert(value, param, ctx)
        except click.BadParameter:
            seconds = None
        if seconds is None or not isfinite(seconds):
            least = "above zero" if self.min_open else "zero or more"
            self.fail(f"it takes a number of seconds {least}, not {_shown(value)}", param, ctx)
        return seconds


def _shown(value: object) -> str:
    return repr(shortened(str(value), VALUE_CHARACTERS))
