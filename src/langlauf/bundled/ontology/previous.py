"""The version to compare with: the one that was sent along, or what the org's last job for this ontology kept."""

from collections.abc import Callable
from typing import Any

from .reading import read_index
from .terms import index_from


def from_text(text: str) -> dict[str, Any]:
    """The earlier version that was sent along."""
    return {"source": "parameter", "index": read_index(text, "previous")}


def from_last_job(last: Callable[[], Any]) -> dict[str, Any]:
    """What the last job kept; it is kept with this job as well, so that the next attempt compares with the same."""
    found = last()
    kept = found.get("index") if isinstance(found, dict) else None
    if kept is None:
        return {"source": None, "index": None}
    if index_from(kept) is None:
        return {"source": "unreadable", "index": None}
    return {"source": "last_job", "index": kept}
