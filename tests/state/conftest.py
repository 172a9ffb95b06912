"""State machines count steps, not flushes."""

from __future__ import annotations

import pytest

from omnigraph.store.root import FSYNC_ENVIRONMENT


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
