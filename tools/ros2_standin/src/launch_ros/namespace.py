"""Names of namespaces."""

from __future__ import annotations


def join_namespaces(outer: str | None, inner: str | None) -> str | None:
    """Return the absolute name of `inner` within `outer`, or None if neither names one."""
    if inner and inner.startswith("/"):
        return inner
    parts = [part.strip("/") for part in (outer, inner) if part and part.strip("/")]
    if parts:
        return "/" + "/".join(parts)
    return outer
