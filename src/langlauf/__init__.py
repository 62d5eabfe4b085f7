"""Langlauf turns a long-running Python function into a durable, observable, multi-tenant job API."""

from langlauf import views
from langlauf.analysis.handle import Job
from langlauf.analysis.payload import Result
from langlauf.analysis.plain import PlainJob
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
    "views",
]
