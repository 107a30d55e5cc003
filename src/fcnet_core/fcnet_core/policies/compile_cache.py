"""numba's cache of compiled functions, on any computer: its files may be missing, damaged or impossible to write."""

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
    """Raises no error of a full disk, or of a file cut by a power loss, which pickle reports by any exception."""

    def load_overload(self, *arguments: Any) -> Any:
        with suppress(Exception):
            return super().load_overload(*arguments)

    def save_overload(self, *arguments: Any) -> None:
        try:
            super().save_overload(*arguments)
        except Exception:  # noqa: BLE001 see above
            with suppress(OSError):
                self.flush()
