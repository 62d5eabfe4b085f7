"""A full house: one org, or one address, takes what it can get, and everybody else is served all the same."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from langlauf.clock import new_id
from langlauf.server.connection_limit import RESERVE
from tests.http.test_synchronous import synchronous
from tests.support.live import GATES, Live, live
from tests.support.processes import eventually
from tests.support.raw_http import RawConnection, get, post

LIMIT = 16
#: of LIMIT connections, one org may wait on so many
OF_ORG = LIMIT * 5 // 8


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Live]:
    """A server for few connections, and clients of which none is late."""
    seconds = {"LANGLAUF_LIMITS": "head_seconds=120; body_seconds=120", "LANGLAUF_SYNC_LIMIT": "120"}
    grace = {"LANGLAUF_SHUTDOWN_GRACE": "0", "LANGLAUF_CANCEL_GRACE": "0"}
    with live(tmp_path, None, LANGLAUF_MAX_CONNECTIONS=str(LIMIT), **seconds, **grace) as server:
        yield server


def _wires(server: Live, stack: ExitStack, count: int, request: bytes) -> list[RawConnection]:
    """So many clients that send their request at once and wait for the answer."""
    wires = []
    for _ in range(count):
        wires.append(stack.enter_context(RawConnection(server.url)))
        wires[-1].send(request)
    return wires


def _asked(server: Live, path: str, *headers: str) -> int:
    """The status of the answer on a connection of its own."""
    with RawConnection(server.url) as wire:
        wire.send(get(path, *headers))
        return wire.reply().status


def _jobs_of(server: Live, org: str) -> list[dict[str, Any]]:
    with RawConnection(server.url) as wire:
        wire.send(get("/analyze/jobs?limit=200", f"X-Org-Id: {org}"))
        reply = wire.reply()
        assert reply.status == 200, reply
        found: list[dict[str, Any]] = json.loads(reply.body)["jobs"]
        return found


def test_many_synchronous_requests_of_one_org_leave_others_alone(full: Live, gate: str) -> None:
    """As many as the org has places wait, the rest are told so; none is cut off, and other orgs are served."""
    with ExitStack() as stack:
        wires = _wires(full, stack, 4 * LIMIT, synchronous(gate, X_Org_Id="a"))
        GATES.wait_until_reached(gate)
        places = full.app.runtime.services.followers.slots  # type: ignore[union-attr]  # it runs
        eventually(lambda: places.taken("wait") == OF_ORG)
        for _ in range(3):
            assert len(full.server.connection_limit.connections) <= LIMIT + RESERVE, "each takes a descriptor"
            assert _asked(full, "/health") == 200
            assert _asked(full, "/analyze/jobs", "X-Org-Id: b") == 200
        with RawConnection(full.url) as other:
            other.send(post(b'{"query": "x"}', "X-Org-Id: b"))
            assert other.reply().status == 202
        GATES.open(gate)
        replies = [wire.reply() for wire in wires]
        assert sum(reply.status == 200 for reply in replies) >= OF_ORG
        for reply in replies:
            assert reply.status in (200, 429, 503)
            assert reply.status == 200 or int(reply.headers["retry-after"]) > 0


def test_their_jobs_end_when_the_callers_have_gone(full: Live, gate: str) -> None:
    """Nothing is left of a crowd that leaves."""
    with ExitStack() as stack:
        _wires(full, stack, 2 * LIMIT, synchronous(gate, X_Org_Id="a"))
        GATES.wait_until_reached(gate)
        assert _asked(full, "/health") == 200
    eventually(lambda: all(job["finished_at"] for job in _jobs_of(full, "a")))
    assert {job["canceled_by"] for job in _jobs_of(full, "a")} == {"system"}


def test_a_burst_of_connections_is_answered_and_not_cut_off(full: Live) -> None:
    """More at once than there may be in all: those that find no room wait, and each gets its answer."""
    with ExitStack() as stack:
        wires = _wires(full, stack, 3 * (LIMIT + RESERVE), get("/health"))
        assert [wire.reply().status for wire in wires] == [200] * len(wires)


def test_an_org_with_all_connections_makes_room_for_another(full: Live) -> None:
    """Bodies that do not come hold all connections: more of that org is refused, another one is served."""
    with ExitStack() as stack:
        slow = _wires(full, stack, LIMIT, post(b"{", "X-Org-Id: a", length=100))
        eventually(lambda: full.server.connection_limit._held == {"org a": LIMIT})
        assert _asked(full, "/analyze/jobs", "X-Org-Id: a") == 503
        assert _asked(full, "/health") == 200
        assert _asked(full, "/analyze/jobs", "X-Org-Id: b") == 200
        reply = slow[0].reply()
        reply.assert_problem(503, "unavailable")
        assert int(reply.headers["retry-after"]) > 0
        assert _asked(full, "/analyze/jobs", "X-Org-Id: b") == 200


def test_silent_connections_beyond_the_limit_do_not_keep_health_away(full: Live) -> None:
    """They fill the reserve and wait before it: each gives way to the next, and a request among them is answered."""
    with ExitStack() as stack:
        for _ in range(2):
            for _ in range(LIMIT + RESERVE):
                stack.enter_context(RawConnection(full.url))
            assert _asked(full, "/health") == 200
            assert _asked(full, "/analyze/jobs") == 200
