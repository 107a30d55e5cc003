"""Names of namespaces."""

from __future__ import annotations


def join_namespaces(outer: str | None, inner: str | None) -> str | None:
    """Return the absolute name of `inner` within `outer`: an absolute one alone, None if there is neither."""
    if inner is None and outer is None:
        return None
    if inner and inner.startswith("/"):
        return inner
    parts = [part.strip("/") for part in (outer, inner) if part and part.strip("/")]
    return "/" + "/".join(parts)
