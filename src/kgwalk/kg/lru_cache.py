"""The cache of remote graphs: a dictionary that forgets the least recently used entry.

`HttpGraph` keeps answers in one, `SparqlGraph` replies and names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Holds entries up to `capacity` in weight, where an entry weighs 1 + its `weight`; safe in threads."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.weight = capacity, 0
        self.hits = self.misses = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value of a key, which is now the most recently used; None if it is not there."""
        with self._lock:
            if key not in self._entries:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, weight: int = 0) -> None:
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self._entries[key] = (value, 1 + weight)
            self.weight += 1 + weight - before
            while self.weight > self.capacity:
                _, (_, freed) = self._entries.popitem(last=False)
                self.weight -= freed

    def recent(self, most: int) -> list[K]:
        """The keys that were used last, the latest first."""
        with self._lock:
            return [key for key, _ in zip(reversed(self._entries), range(most), strict=False)]
