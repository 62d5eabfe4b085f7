"""A server that asks for keys, and how tests of this folder call it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from langlauf.api.operations import Operation
from langlauf.clock import new_id
from tests.support.keys import EFFECT_SECONDS
from tests.support.live import Live


class KeyedServer(NamedTuple):
    """A server that asks for keys, its store, and a key of org-a for everything that a key can do."""

    live: Live
    store: Path | str
    admin: str


def run_job(server: Live, headers: dict[str, str]) -> dict[str, Any]:
    """A job that has ended, with its result."""
    made = server.http.post("/analyze", json={"query": "Bern"}, headers=headers)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found


def path_of(operation: Operation, job: dict[str, Any]) -> str:
    """The address of an operation, for a job."""
    ids = {"job_id": job["job_id"], "result_id": job["result_id"], "key_id": "llk_none"}
    ids |= {"endpoint_id": "none", "notification_id": "none", "analysis_name": "echo", "schedule": "none"}
    return operation.path_under("/analyze").format(**ids)


def call(server: Live, operation: Operation, job: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
    """Calls an operation in a way that would work, or at least would not be refused for its form."""
    bodies: dict[str, dict[str, Any]] = {"analyze": {"query": "Bern"}, "createKey": {"scopes": ["admin"]}}
    bodies["createWebhook"] = {"url": f"https://hooks.example/{new_id()}"}
    bodies["notifyJob"] = {"email": "a@mail.example"}
    bodies["pauseAnalysis"] = {"because": "the source is down", "until": "2020-01-01T00:00:00Z"}
    body = bodies.get(operation.name, {}) if operation.body else None
    return server.http.request(operation.method, path_of(operation, job), json=body, headers=headers)


def stable(response: httpx2.Response) -> dict[str, str]:
    """The headers that do not change by themselves."""
    return {name: value for name, value in response.headers.items() if name != "date"}


def until(condition: Callable[[], bool]) -> None:
    """Asks again and again until something is so; it must be so in time."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < EFFECT_SECONDS, "it took too long"
        time.sleep(0.02)


def lose_store(server: Live) -> None:
    """Let reads fail from now on, as if the disk were gone. Closed in its own thread, while no statement runs."""
    assert server.app.runtime is not None
    store: Any = server.app.runtime.store
    store._reader_thread.submit(store._reader.close).result()
