"""The small pure parts: progress, backoff, estimates, fairness, times, texts, outcomes."""

import errno
import itertools
import json
import math
import socket
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.clock import new_id
from langlauf.domain.attempt import Backoff, stored_percent
from langlauf.domain.errors import PermanentError, ResultTooLarge, ResultUnstorable, StoreUnavailable, TransientError
from langlauf.domain.eta import poll_seconds
from langlauf.domain.fairness import OrgQueue, share_slots
from langlauf.domain.instant import SECOND, from_text, to_text
from langlauf.domain.job import JobRecord, Phase, phase
from langlauf.domain.outcome import (
    Canceled,
    Failed,
    Lost,
    Retry,
    after_failure,
    after_loss,
    after_timeout,
    classify,
)
from langlauf.domain.redact import MASK, clean_message, redact
from langlauf.domain.state import Status
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER, first_flaw, is_plain
from langlauf.worker.failure import failure_of

NOW = 1_770_000_000 * SECOND


def _job(**fields: Any) -> JobRecord:
    known: dict[str, Any] = {
        "job_id": "j",
        "org_id": "o",
        "analysis": "a",
        "status": Status.QUEUED,
        "priority_class": "default",
        "request_payload_hash": "h",
        "request_payload_ref": "inline:",
        "queued_at": NOW,
        "updated_at": NOW,
        "timeout_seconds": 1800.0,
        "max_retries": 3,
        "trace_id": "t",
        "request_id": "r",
        **fields,
    }
    return JobRecord(**known)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.none())
def test_reported_progress_ends_below_100(reported: float | None) -> None:
    """Whatever is reported, what is stored is a whole percent, and 100 is kept for the end."""
    assert stored_percent(reported) == (0 if reported is None else min(99, max(0, int(reported))))
    assert 0 <= stored_percent(reported) <= 99


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_is_drawn_from_nothing_to_a_doubling_ceiling_with_a_cap(retries: int, chance: float) -> None:
    """Full jitter; no count of retries overflows."""
    backoff = Backoff(1.0, 60.0)
    assert backoff.ceiling(retries) == min(60.0, 2.0 ** min(retries, 60))
    assert 0 <= backoff.delay(retries, chance) <= backoff.ceiling(retries)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)))  # noqa: DTZ001 - the zone is added below
def test_times_survive_a_round_trip_through_text(moment: datetime) -> None:
    """Microseconds go to RFC 3339 and back without loss, and texts sort like the instants."""
    text = moment.replace(tzinfo=UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert to_text(from_text(text)) == text
    assert from_text(text) < from_text(text) + 1
    assert to_text(from_text(text)) < to_text(from_text(text) + 1)


def test_a_time_with_an_offset_is_the_same_instant() -> None:
    """Local time is understood, UTC is written."""
    assert to_text(from_text("2026-03-01T12:00:00+02:00")) == "2026-03-01T10:00:00.000000Z"
    assert from_text("2026-03-01T10:00:00") == from_text("2026-03-01T10:00:00Z")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=8), st.integers(0, 40))
def test_free_slots_are_shared_out_one_by_one(lanes: list[tuple[int, int]], room: int) -> None:
    """All room is used while anybody waits, nobody starts more than wait, and turns stay within one of each other."""
    waiting = [OrgQueue(start, start, 0, index, count) for index, (start, count) in enumerate(lanes)]
    turns = share_slots(waiting, room)
    assert sum(one.starts for one in turns) == min(room, sum(queue.waiting for queue in waiting))
    assert all(one.starts <= one.queue.waiting for one in turns)
    started = {one.queue.org: one.starts for one in turns}
    for queue in waiting:
        if started.get(queue.org, 0) < queue.waiting:  # this one would have liked more
            position = queue.virtual_start + started.get(queue.org, 0)
            assert all(one.queue.virtual_start + one.starts - 1 <= position for one in turns)


@pytest.mark.parametrize(
    ("fields", "lease", "expected"),
    [
        ({}, None, Phase.WAITING),
        ({"run_at": NOW + 1}, None, Phase.SCHEDULED),
        ({"run_at": NOW}, None, Phase.WAITING),
        ({"status": Status.RUNNING}, NOW + 15 * SECOND, Phase.WORKING),
        ({"status": Status.RUNNING}, NOW + 4 * SECOND, Phase.SILENT),
        ({"status": Status.PARTIAL, "next_attempt_at": NOW + 1}, None, Phase.BACKOFF),
        ({"status": Status.PARTIAL, "next_attempt_at": NOW}, None, Phase.WAITING),
        ({"status": Status.RUNNING, "cancel_requested_at": NOW}, NOW + 15 * SECOND, Phase.CANCELING),
        ({"status": Status.FAILED, "cancel_requested_at": NOW}, None, Phase.DONE),
    ],
)
def test_the_phase_tells_what_is_going_on(fields: dict[str, Any], lease: int | None, expected: Phase) -> None:
    """One word per situation, the same for pages, commands and clients."""
    assert phase(_job(**fields), lease, NOW, 15.0) is expected


@given(st.none() | st.floats(0, 1e9))
def test_poll_intervals_are_whole_seconds_within_limits(remaining: float | None) -> None:
    """Retry-After is a whole number from 1 to 30 while the job goes on."""
    assert 1 <= poll_seconds(_job(), remaining) <= 30


@pytest.mark.parametrize(
    ("error", "code", "transient", "hint"),
    [
        (TimeoutError(), "timeout", True, "retry_with_backoff"),
        (ConnectionResetError("reset"), "network_error", True, "retry_with_backoff"),
        (socket.gaierror("no such host"), "network_error", True, "retry_with_backoff"),
        (OSError(errno.EHOSTUNREACH, "no route"), "network_error", True, "retry_with_backoff"),
        (urllib.error.URLError("refused"), "network_error", True, "retry_with_backoff"),
        (httpx2.ConnectError("refused"), "network_error", True, "retry_with_backoff"),
        (StoreUnavailable("busy"), "internal", True, "retry_with_backoff"),
        (FileNotFoundError("x"), "internal", False, None),
        (TransientError("busy"), "network_error", True, "retry_with_backoff"),
        (PermanentError("no", code="address_intel"), "address_intel", False, "check_input_and_retry"),
        (ValueError("bad"), "validation_error", False, "check_input_and_retry"),
        (ZeroDivisionError(), "internal", False, None),
        (ResultUnstorable("NaN"), "result_unstorable", False, None),
        (ResultTooLarge("big"), "result_too_large", False, None),
    ],
)
def test_errors_are_classified(error: Exception, code: str, transient: bool, hint: str | None) -> None:
    """Time-outs and the network pass, data and logic do not."""
    failure = classify(error)
    assert (failure.code, failure.transient, failure.hint) == (code, transient, hint)


def test_an_analysis_may_declare_its_own_transient_errors() -> None:
    """A listed type is worth another attempt."""
    assert classify(KeyError("x"), (KeyError,)).transient


def _nested(levels: int) -> Exception:
    error: Exception = ValueError("at the bottom")
    for _ in range(levels):
        error = ExceptionGroup("around", [error])
    return error


def test_a_group_names_all_its_members() -> None:
    """Cleaned like other messages; it passes only where all of it does, and its code is that of what does not."""
    inner = ExceptionGroup("inner", [ValueError("bad row, password=hunter2secret"), OSError("/var/lib/app is full")])
    failure = classify(ExceptionGroup("several", [TimeoutError("slow"), inner]))
    assert (failure.code, failure.transient) == ("validation_error", False)
    assert failure.message == (
        "3 errors: TimeoutError: slow; ValueError: bad row, password=[redacted]; OSError: [path] is full"
    )
    assert classify(ExceptionGroup("several", [TimeoutError("a"), ConnectionError("b")])).transient
    assert classify(ExceptionGroup("one", [ValueError("bad")])).message == "ValueError: bad"


def test_a_group_has_a_bounded_message() -> None:
    """However many members it has, however long they are, and however deep they stand."""
    many = classify(ExceptionGroup("many", [TimeoutError("x" * 5_000) for _ in range(500)]))
    assert many.message.startswith("500 errors: TimeoutError: xxx")
    assert many.message.endswith("; and 480 more")
    assert len(many.message) <= 2_000
    assert classify(_nested(5_000)).message == "ValueError: at the bottom"


class _Rude(PermanentError):
    """An exception of which nothing can be said without harm."""

    def __str__(self) -> str:
        raise SystemExit


def _long_chain(length: int) -> Exception:
    error = ValueError("first")
    for number in range(length):
        following = ValueError(f"number {number}")
        following.__context__ = error
        error = following
    return error


@pytest.mark.parametrize(
    ("make", "begins"),
    [
        (lambda: _Rude("x"), "_Rude"),
        (lambda: ValueError([0] * 10_000_000), "ValueError: [0, 0, 0"),
        (lambda: ValueError(10**5_000), "ValueError"),
        (lambda: ValueError("x" * 10_000_000), "ValueError: xxx"),
        (lambda: _long_chain(100_000), "ValueError: number 99999"),
        (lambda: PermanentError("x", code=10**5_000), "x"),  # type: ignore[arg-type]  # what people write
    ],
    ids=["exits", "list", "integer", "text", "chain", "code"],
)
def test_an_exception_without_a_usable_text_is_named_by_its_type(make: Callable[[], Exception], begins: str) -> None:
    """It neither raises nor takes long, and what is kept of it is small."""
    failure = failure_of(make(), ())
    assert failure.message.startswith(begins)
    assert len(msgspec.json.encode(failure)) < 20_000


def test_details_of_an_error_are_bounded() -> None:
    """Wide on every level, without an end, or with themselves inside."""
    endless = itertools.repeat("x")
    around: dict[str, Any] = {
        "wide": [[[list(range(50))] * 50] * 50] * 50,
        "endless": endless,
        "text": "x" * 10_000_000,
    }
    around["itself"] = around
    meta = classify(PermanentError("x", meta=around)).meta
    assert len(msgspec.json.encode(meta)) < 20_000
    assert meta["endless"].startswith("repeat(")


@given(st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_only_transient_failures_with_retries_left_are_tried_again(done: int, most: int, transient: bool) -> None:
    """The decision is a function of the failure and the counts."""
    failure = classify(TransientError("x") if transient else ValueError("x"))
    outcome = after_failure(failure, done, most, 1.0)
    assert isinstance(outcome, Retry) == (transient and done < most)


@pytest.mark.parametrize(("done", "most", "code"), [(3, 3, "timeout_max_retries"), (0, 0, "timeout")])
def test_a_last_timeout_fails_with_its_limits(done: int, most: int, code: str) -> None:
    """error_meta has threshold_seconds, started_at and detected_at, and the sentence with its values."""
    outcome = after_timeout(
        limit_seconds=5, started_at=NOW, detected_at=NOW + SECOND, retry_count=done, max_retries=most, delay_seconds=1
    )
    assert isinstance(outcome, Failed)
    assert (outcome.code, set(outcome.meta)) == (code, {"threshold_seconds", "started_at", "detected_at", "sentence"})
    assert outcome.meta["sentence"] == {"name": "timed_out", "seconds": 5}


def test_a_lost_lease_is_retried_a_few_times() -> None:
    """A vanished worker is no failure of the job, until it happens too often."""
    assert isinstance(after_loss(cancel_requested=False, cancel_reason=None, lost_before=0), Lost)
    assert isinstance(after_loss(cancel_requested=False, cancel_reason=None, lost_before=9), Failed)
    assert isinstance(after_loss(cancel_requested=True, cancel_reason="why", lost_before=9), Canceled)


STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(SMALLEST_INTEGER, LARGEST_INTEGER) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | STORABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STORABLE, inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_value_without_flaw_survives_json(value: Any) -> None:
    """A value that passes comes back the same."""
    assert first_flaw(value) is None
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, {"b": "x\x00"}]}, "a[1].b: contains the character NUL"),
        ({"a": "\ud800"}, "a: contains half of a surrogate pair"),
        ({"a\x00": 1}, "a name in the value: contains the character NUL"),
        ([math.nan], "[0]: not a finite number"),
        ([math.inf], "[0]: not a finite number"),
        (2**63, "the value: an integer beyond 64 bits; send it as a string"),
        (-(2**63) - 1, "the value: an integer beyond 64 bits; send it as a string"),
        ([[[[]]]], "[0][0][0]: nested deeper than 3 levels"),
        ({"a": {1: "x", "1": "y"}}, "a name in a: stands twice, once as a text"),
    ],
)
def test_a_flaw_is_reported_with_its_path(value: Any, said: str) -> None:
    """What a store cannot keep is found wherever it hides."""
    assert first_flaw(value, 3 if "levels" in said else 64) == said


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet='ab\x00\ud800:"\\e1[{'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a\x00"), inner, max_size=3),
)


@given(_JSON, st.booleans(), st.integers(1, 4))
def test_plain_json_has_no_flaw(value: Any, ascii_only: bool, deepest: int) -> None:
    """The look at the bytes of JSON never passes what the look at its values would refuse."""
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        read = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    assert not is_plain(body, deepest) or first_flaw(read, deepest) is None


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijkl",
        "postgresql://user:s3cretpass@db/x",
        "GET /x?api_key=abc123def&x=1",
        "password='hunter2secret'",
        '{"token": "abcdefgh12345"}',
        "secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "Authorization: Token abcdefghijkl",
        "postgres://u:s3cret@pass@host/db",
        "saw eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijkl today",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    """Nothing that looks like a secret is stored, and masking twice changes nothing."""
    cleaned = redact(text)
    assert MASK in cleaned
    assert redact(cleaned) == cleaned
    for secret in ("abcdefghijkl", "s3cret@", "s3cretpass", "abc123def", "hunter2secret", "abcdefgh12345", "MfKQ9r8"):
        assert secret not in cleaned


@given(st.text())
def test_a_cleaned_message_can_be_stored(text: str) -> None:
    """No NUL, no half surrogates, not endless."""
    cleaned = clean_message(text)
    assert first_flaw(cleaned) is None
    assert len(cleaned) <= 2_000


def test_ids_are_sorted_by_time_and_unguessable() -> None:
    """Version 7 of UUIDs: a time first, then 74 random bits."""
    made = [new_id() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert all(one[14] == "7" and one[19] in "89ab" and len(one) == 36 for one in made)
    assert [one[:13] for one in made] == sorted(one[:13] for one in made)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[Errno 2] No such file or directory: '/srv/data/in.csv'", "[Errno 2] No such file or directory: '[path]'"),
        ("cannot read /etc/app/secret.d/x.toml, nor /var/a_b/", "cannot read [path], nor [path]"),
        ("GET https://api.example/v1/items: 3/4 and 2026/11/16 of /analyze", None),
    ],
)
def test_the_text_of_an_unexpected_error_has_no_path(text: str, told: str | None) -> None:
    """The log has it, for operators; an author's own words are left as they are."""
    assert classify(RuntimeError(text)).message == f"RuntimeError: {told or text}"
    assert classify(PermanentError(text)).message == text
