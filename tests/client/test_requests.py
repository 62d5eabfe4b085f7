"""What is decided without a network: when to repeat, when to give up, and what an answer means."""

import json

import pytest

from langlauf.client import Client
from langlauf.client.errors import ApiError, BadRequest, Forbidden, NotLanglauf, Unavailable, Unreachable
from langlauf.client.models import JobEnvelope, SubmitOptions
from langlauf.client.requests import (
    CALL_RETRIES,
    FOLLOW_RETRIES,
    ClientRequest,
    Deadline,
    NoReply,
    RetryPolicy,
    ServerReply,
    decode,
    error_of,
    send,
)
from langlauf.domain.errors import SettingsError

LOST = NoReply("http://server", "connection refused")
BUSY = ServerReply(503, {"retry-after": "3"}, b"{}")
FINE = ServerReply(200, {}, b"{}")


def test_lost_answers_are_asked_for_again_with_growing_delays() -> None:
    """The same request is repeated, each time a little later."""
    call = send(ClientRequest(path="/x"))
    delays = [next(call).delay]
    delays += [call.send(LOST).delay for _ in range(3)]
    assert delays[0] == 0
    assert 0.1 <= delays[1] <= 0.2 <= delays[2] <= 0.4 <= delays[3] <= 0.8
    with pytest.raises(StopIteration) as end:
        call.send(FINE)
    assert end.value.value is FINE


def test_a_single_call_gives_up() -> None:
    """After its repetitions a call says that there is no server."""
    call = send(ClientRequest(path="/x"), CALL_RETRIES)
    tries = [next(call), *(call.send(LOST) for _ in range(4))]
    assert {request.path for request in tries} == {"/x"}
    with pytest.raises(Unreachable, match="connection refused"):
        call.send(LOST)


def test_the_server_says_when_to_come_back() -> None:
    """Retry-After is never undercut."""
    call = send(ClientRequest(path="/x"))
    next(call)
    assert call.send(BUSY).delay >= 3


def test_a_request_that_did_not_arrive_in_time_is_sent_again() -> None:
    """408 says that nothing was done; an address or a head that is too large will not be smaller next time."""
    call = send(ClientRequest(path="/x"))
    next(call)
    assert call.send(ServerReply(408, {}, b"")).path == "/x"
    for status in (414, 431):
        call = send(ClientRequest(path="/x"))
        next(call)
        with pytest.raises(BadRequest):
            call.send(ServerReply(status, {}, b""))


def test_a_far_retry_after_is_told_and_not_waited_for() -> None:
    """What lies beyond the policy of a call is the caller's to decide."""
    call = send(ClientRequest(path="/x"))
    next(call)
    with pytest.raises(Unavailable) as refused:
        call.send(ServerReply(503, {"retry-after": "300"}, b""))
    assert refused.value.retry_after == 300


def test_a_follower_is_patient() -> None:
    """Many lost answers within a moment do not end the following of a job, and delays stay bounded."""
    call = send(ClientRequest(path="/x"), FOLLOW_RETRIES)
    next(call)
    assert max(call.send(LOST).delay for _ in range(50)) <= 5


def test_patience_ends() -> None:
    """Past its seconds there is no further try."""
    assert RetryPolicy(seconds=10).delay(0, 9.95, None) is None


def test_a_client_that_tried_for_hours_waits_no_longer_than_before() -> None:
    """The delay stays at its longest, however often it was tried."""
    policy = RetryPolicy(seconds=1e9)
    waits = [policy.delay(tries, 0.0, None) for tries in (30, 5_000)]
    assert all(wait is not None and policy.longest / 2 <= wait <= policy.longest for wait in waits)


def test_at_the_deadline_trouble_is_told() -> None:
    """Past the deadline, nothing is retried."""
    call = send(ClientRequest(path="/x"), FOLLOW_RETRIES, Deadline(0))
    next(call)
    with pytest.raises(Unreachable):
        call.send(LOST)


def test_error_answers_become_errors() -> None:
    """A problem's members are the error's."""
    body = {"error": "forbidden", "message": "not yours", "request_id": "r-1"}
    error = error_of(ServerReply(403, {}, json.dumps(body).encode()))
    assert isinstance(error, Forbidden)
    assert (error.code, error.message, error.request_id) == ("forbidden", "not yours", "r-1")


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b"[]"])
def test_answers_of_a_proxy_are_errors_too(body: bytes) -> None:
    """An answer in another shape still has a status and a code."""
    error = error_of(ServerReply(418, {"x-request-id": "r-2"}, body))
    assert type(error) is ApiError
    assert (error.status, error.request_id) == (418, "r-2")


def test_another_program_is_recognised() -> None:
    """A fine answer that is not ours is not taken for one."""
    with pytest.raises(NotLanglauf):
        decode(ServerReply(200, {}, b'{"hello": "world"}'), JobEnvelope)


def test_every_try_of_a_request_has_the_same_id() -> None:
    """The server's log and the error that is raised tell of the same request; the next one has another."""
    call = send(ClientRequest(path="/x"))
    ids = {next(call).headers["X-Request-Id"], *(call.send(LOST).headers["X-Request-Id"] for _ in range(3))}
    assert len(ids) == 1
    assert next(send(ClientRequest(path="/x"))).headers["X-Request-Id"] not in ids


@pytest.mark.parametrize(
    "url", ["http://host:80x", "http://[::1", "host:80", "ftp://host", "http://", "http://host:99999"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    """Before anything is sent, with the name of the setting."""
    with pytest.raises(SettingsError, match="LANGLAUF_URL"):
        Client(url)


def test_a_key_that_no_header_can_carry_is_refused() -> None:
    """It would otherwise look as if no server answered."""
    with Client("http://127.0.0.1:1") as client, pytest.raises(SettingsError, match="idempotency_key"):
        client.submit("x", options=SubmitOptions(idempotency_key="a\nb"))
