"""numba's cache of compiled functions, for computers on which its files are missing, damaged or cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache


def cached_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator `njit` with these options, and a cache if there is a folder that can be written."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        with suppress(RuntimeError):  # of numba: no folder can be written
            dispatcher._cache = _OptionalCache(function)
        return dispatcher

    return decorate


class _OptionalCache(FunctionCache):  # type: ignore[misc]
    """A cache that never ends its program: numba's raises errors of a full disk and of an index cut by a power loss."""

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # noqa: BLE001 unpickling a damaged file can raise any error
            return None  # compile it again

    def save_overload(self, *arguments: Any) -> None:
        try:
            super().save_overload(*arguments)
        except Exception:  # noqa: BLE001 as above: the index is read first
            with suppress(OSError):
                self.flush()
