"""Langlauf turns a long-running Python function into a durable, observable, multi-tenant job API."""

from typing import TYPE_CHECKING, Any

from langlauf import views
from langlauf.analysis.handle import Job
from langlauf.analysis.payload import Result
from langlauf.analysis.plain import PlainJob
from langlauf.app import Langlauf
from langlauf.domain.errors import PermanentError, TransientError

if TYPE_CHECKING:
    from langlauf.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "Job",
    "Langlauf",
    "PermanentError",
    "PlainJob",
    "Result",
    "TransientError",
    "views",
]


def __getattr__(name: str) -> Any:
    """The clients, imported when they are asked for: a server needs none."""
    if name in ("AsyncClient", "Client"):
        from langlauf import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
