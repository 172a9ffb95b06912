"""Keys and values -> a map of bounded weight that evicts the least recently used values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """A bounded map that evicts the least recently used values first. It is safe to use from several threads.

    `limit` bounds the sum of the weights. A value weighs 1 unless `weigh` is given, so by default `limit` is a number of values. With
    `weigh=lambda array: array.nbytes`, it is a number of bytes. A value is weighed once, when it is put. None is not a valid value.
    """

    def __init__(self, limit: int, *, weigh: Callable[[V], int] | None = None) -> None:
        self._limit: Final = limit
        self._weigh: Final = weigh
        self._values: Final[OrderedDict[K, tuple[V, int]]] = OrderedDict()
        self._weight = 0
        self._mutex: Final = threading.Lock()

    def get(self, key: K) -> V | None:
        """Returns the value and marks it as just used. Returns None if the key is missing."""
        with self._mutex:
            if (entry := self._values.get(key)) is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V) -> V:
        """Stores a value, replaces the old one under that key, evicts as needed, and returns the value.

        A value heavier than the limit is returned but not stored, and evicts only the old value under its own key.
        """
        weight = 1 if self._weigh is None else self._weigh(value)
        with self._mutex:
            self._remove(key)
            if weight <= self._limit:
                self._values[key] = (value, weight)
                self._weight += weight
                while self._weight > self._limit:
                    self._remove(next(iter(self._values)))
        return value

    def discard(self, key: K) -> None:
        """Removes the key if it is there."""
        with self._mutex:
            self._remove(key)

    def values(self) -> list[V]:
        """The stored values, the least recently used first. Does not mark them as used."""
        with self._mutex:
            return [value for value, _ in self._values.values()]

    @property
    def weight(self) -> int:
        """The sum of the weights of the stored values."""
        return self._weight

    def __contains__(self, key: K) -> bool:
        """Whether the key is stored. Does not mark it as used."""
        with self._mutex:
            return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def _remove(self, key: K) -> None:
        if (entry := self._values.pop(key, None)) is not None:
            self._weight -= entry[1]
