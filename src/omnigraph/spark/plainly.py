"""An error of ours in a process that Spark started to plan something -> one line for the reader of a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import OmniGraphError

_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Say what is wrong and what to do, without the way it came through our code.

    The process plans or commits this one read or write and ends, so that nobody else's errors are shortened.
    """
    try:
        yield
    except OmniGraphError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
