"""Large answers: the same bytes as ever, in bounded memory, and never a part that looks like the whole."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from langlauf import Job, Langlauf
from langlauf.api import requests
from langlauf.clock import new_id
from langlauf.service.request_limits import ResponseMemory
from langlauf.store.blobs.payloads import PIECE, PayloadPieces
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.raw_http import RawConnection, get
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import query

in_both = pytest.mark.both_stores
#: A database gives one copy for all, which stays.
in_a_file = pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True, scope="module")
MIB = 1_048_576
OF_ORG, OF_ALL = 12 * MIB, 16 * MIB
#: More than the two ends of a connection take by themselves, several pieces, and letters of two bytes at their edges.
TEXT = "x" + "ü" * (5 * MIB)
SIZE = len(TEXT.encode()) + 2
READERS = 8
SMALL_BUFFER = 65_536


@pytest.fixture(scope="module")
def bed(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreUnderTest]:
    """The place of the store."""
    with store_under_test(store_kind, tmp_path_factory.mktemp("large")) as found:
        yield found


@pytest.fixture(scope="module")
def server(bed: StoreUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with little room, which waits for a client that does not read a moment and no longer."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def text(_: Job, large: bool = True) -> str:
        """A text."""
        return TEXT if large else "short"

    settings = {
        "LANGLAUF_STORE": bed.place,
        "LANGLAUF_LIMITS": f"max_sending_org={OF_ORG}; max_sending={OF_ALL}",
        "LANGLAUF_DELIVERIES": "0",
    }
    with live(tmp_path_factory.mktemp("served"), app, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def result_id(server: Live) -> str:
    """A result of several pieces."""
    return str(server.wait(server.submit("text")["job_id"])["result_id"])


def room_of(server: Live) -> ResponseMemory:
    """The room of a server."""
    assert server.app.runtime is not None
    return server.app.runtime.services.response_memory


@contextmanager
def filled(server: Live, **orgs: int) -> Iterator[None]:
    """The room of a server with something in it, by org."""
    with ExitStack() as taken:
        for org, size in orgs.items():
            taken.enter_context(room_of(server).share(org.replace("_", "-"))).take(size)
        yield


def received(wire: RawConnection) -> int:
    """How many bytes come until the connection ends, in whatever way."""
    length = 0
    with suppress(ConnectionError):
        while part := wire.socket.recv(MIB):
            length += len(part)
    return length


@in_both
def test_the_answer_is_the_stored_payload_in_its_envelope(server: Live, result_id: str) -> None:
    """Byte for byte, with its length told before; what is known already is not sent again."""
    path = f"/analyze/results/{result_id}"
    found = server.http.get(path, headers={"X-Request-Id": "one"})
    payload = f'"{TEXT}"'.encode()
    small = server.wait(server.submit("text", large=False)["job_id"])
    pattern = server.http.get(f"/analyze/results/{small['result_id']}", headers={"X-Request-Id": "one"})
    before, sent, after = found.content.partition(payload)
    assert sent == payload
    assert int(found.headers["Content-Length"]) == len(found.content)
    assert list(json.loads(before + b"null" + after)) == list(pattern.json())
    assert set(found.headers) == set(pattern.headers)
    head = server.http.head(path, headers={"X-Request-Id": "one"})
    assert (head.content, head.headers["Content-Length"]) == (b"", found.headers["Content-Length"])
    known = server.http.get(path, headers={"If-None-Match": found.headers["ETag"]})
    assert (known.status_code, known.content) == (304, b"")
    assert room_of(server).taken == 0


@in_both
def test_a_synchronous_answer_and_a_download_are_the_same_bytes(server: Live, result_id: str) -> None:
    """Wherever a payload is sent it is sent as it is stored."""
    waited = server.http.post("/analyze", json={"analysis": "text", "input": {}})
    assert (waited.status_code, waited.json()["result"]) == (200, TEXT)
    taken_away = server.http.get(f"/results/{result_id}/download")
    assert taken_away.content == f'"{TEXT}"'.encode()
    assert taken_away.headers["Content-Type"] == "application/json"


@in_both
def test_clients_that_do_not_read_take_no_more_than_the_room(server: Live, result_id: str, store_kind: str) -> None:
    """Each is answered or told to come back; another org still gets what is left, and all of it is given back."""
    room = room_of(server)
    with ExitStack() as open_ones:
        statuses = []
        for _ in range(READERS):
            wire = open_ones.enter_context(RawConnection(server.url, receive_buffer=SMALL_BUFFER))
            wire.send(get(f"/analyze/results/{result_id}"))
            statuses.append(int(wire.socket.recv(12).split()[1]))
        # In a file each of them has a piece, and there is room for five; a database gives them one copy for all.
        refused = 0 if store_kind == "postgres" else 3
        assert statuses == [200] * (READERS - refused) + [429] * refused
        assert 0 < room.taken <= OF_ORG
    eventually(lambda: room.taken == 0)


@in_a_file
def test_a_piece_is_read_when_the_one_before_is_taken(
    server: Live, result_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads nothing is not read for; one that goes on reading gets the rest."""
    positions: list[int] = []
    read: Any = PayloadPieces.read

    async def counted(self: Any, start: int) -> Any:
        positions.append(start)
        return await read(self, start)

    monkeypatch.setattr(PayloadPieces, "read", counted)
    with RawConnection(server.url, receive_buffer=SMALL_BUFFER) as wire:
        wire.send(get(f"/analyze/results/{result_id}", "Connection: close"))
        eventually(lambda: positions)
        assert server.http.get("/health").status_code == 200
        assert len(positions) < SIZE / PIECE
        assert received(wire) > SIZE
    assert positions == list(range(0, SIZE, PIECE))


@in_both
def test_past_its_part_an_org_is_told_to_come_back(server: Live, result_id: str) -> None:
    """429 where the org has too much on its way, 503 where all have; pages and downloads alike."""
    other = new_id()
    for path in (f"/analyze/results/{result_id}", f"/results/{result_id}/download", f"/results/{result_id}"):
        with filled(server, default_org=OF_ORG):
            refused = server.http.get(path)
            assert (refused.status_code, "Retry-After" in refused.headers) == (429, True), path
        with filled(server, **{other: OF_ALL}):
            refused = server.http.get(path)
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True), path
    assert server.http.get(f"/analyze/results/{result_id}").status_code == 200


@in_both
def test_an_org_that_has_nothing_on_its_way_is_always_answered(server: Live, result_id: str) -> None:
    """A page of this result takes more than there is room for, and is shown all the same."""
    assert 3 * SIZE > OF_ALL
    assert server.http.get(f"/results/{result_id}").status_code == 200
    job_id = server.http.get(f"/analyze/results/{result_id}").json()["job_id"]
    assert server.http.get(f"/jobs/{job_id}?refresh=off").status_code == 200


@in_both
def test_what_is_small_is_answered_beside_a_full_room(server: Live) -> None:
    """Only large answers are counted."""
    small = server.wait(server.submit("text", large=False)["job_id"])
    with filled(server, default_org=OF_ALL):
        assert server.http.get(f"/analyze/results/{small['result_id']}").json()["result"] == "short"
        assert server.http.get(f"/results/{small['result_id']}").status_code == 200


@in_a_file
def test_a_result_that_is_removed_meanwhile_is_cut(server: Live, bed: StoreUnderTest) -> None:
    """Who has half of it sees that it is not the whole, and who comes later is told that it is gone."""
    result_id = server.wait(server.submit("text")["job_id"])["result_id"]
    with RawConnection(server.url, receive_buffer=SMALL_BUFFER) as wire:
        wire.send(get(f"/analyze/results/{result_id}"))
        assert wire.socket.recv(12).split()[1] == b"200"
        query(bed.place, f"UPDATE result_rows SET payload = NULL, removed_at = 1 WHERE result_id = '{result_id}'")
        assert received(wire) < SIZE
    assert server.http.get(f"/analyze/results/{result_id}").status_code == 410
    eventually(lambda: room_of(server).taken == 0)


@in_a_file
@pytest.mark.parametrize("large", [False, True])
def test_a_large_body_is_checked_beside_the_event_loop(
    server: Live, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Its parts are looked at one by one, which takes many times as long as reading it."""
    names: list[str] = []
    check: Any = requests.first_flaw  # type: ignore[attr-defined]  # where it is used

    def watched(*values: Any) -> Any:
        names.append(threading.current_thread().name)
        return check(*values)

    monkeypatch.setattr(requests, "first_flaw", watched)
    # A backslash: a body without anything that could be a flaw is not looked at part by part.
    body = {"analysis": "text", "input": {"unknown": ["\\"] * (100_000 if large else 1)}}
    assert server.http.post("/analyze", json=body).status_code == 400
    assert names
    assert ("live-server" not in names) is large
