"""The version to compare with: the one that was sent along, or what the org's last job for this ontology kept."""

from collections.abc import Callable
from typing import Any

from .reading import read_index
from .terms import index_from


def from_text(text: str) -> dict[str, Any]:
    """The earlier version that was sent along."""
    return {"source": "parameter", "index": read_index(text, "previous")}


def from_last_job(previous: Callable[..., Any], name: str) -> dict[str, Any]:
    """What the last job kept; it is kept with this job as well, so that the next attempt compares with the same.

    A job may have named the ontology or left that to its document; the one that read later counts.
    """
    found = [previous(ontology=name), previous(ontology=None)]
    kept = [result["index"] for result in found if _is_of(name, result)]
    if not kept:
        return {"source": None, "index": None}
    usable = [index for index in kept if index_from(index) is not None]
    if not usable:
        return {"source": "unreadable", "index": None}
    return {"source": "last_job", "index": max(usable, key=lambda index: str(index["read_at"]))}


def _is_of(name: str, result: Any) -> bool:
    return isinstance(result, dict) and result.get("ontology") == name and "index" in result
