"""Langlauf turns a long-running Python function into a durable, observable, multi-tenant job API."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langlauf import views
    from langlauf.analysis.chunks import source
    from langlauf.analysis.job import Job
    from langlauf.analysis.payload import Result
    from langlauf.analysis.plain_job import PlainJob
    from langlauf.app import Langlauf
    from langlauf.client import AsyncClient, Client
    from langlauf.domain.errors import PermanentError, TransientError

__all__ = [
    "AsyncClient",
    "Client",
    "Job",
    "Langlauf",
    "PermanentError",
    "PlainJob",
    "Result",
    "TransientError",
    "source",
    "views",
]

#: Where the names are. Each is imported at its first use: no process loads what it does not need.
_PLACES = {
    "AsyncClient": "langlauf.client",
    "Client": "langlauf.client",
    "Job": "langlauf.analysis.job",
    "Langlauf": "langlauf.app",
    "PermanentError": "langlauf.domain.errors",
    "PlainJob": "langlauf.analysis.plain_job",
    "Result": "langlauf.analysis.payload",
    "TransientError": "langlauf.domain.errors",
    "source": "langlauf.analysis.chunks",
}


def __getattr__(name: str) -> Any:
    if name == "views":
        return import_module("langlauf.views")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found
