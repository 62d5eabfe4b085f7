"""What follows from one try to send: by table."""

from typing import Any

import pytest

from langlauf.domain.delivery import Delivery
from langlauf.domain.delivery_outcome import (
    DISABLE_AFTER_SECONDS,
    LONGEST_RETRY_AFTER,
    DeliveryOutcome,
    outcome_of_status,
    pause_after,
    read_retry_after,
    settle_delivery,
)
from langlauf.domain.instant import SECOND, from_text

NOW = from_text("2026-03-01T12:00:00Z")
SCHEDULE = (5.0, 300.0, 1_800.0)
FAILED = DeliveryOutcome(verdict="later", error="the receiver answered 500", status_code=500, lane_failed=True)


def delivery(try_number: int = 1, lane_failures: int = 0) -> Delivery:
    return Delivery(
        org_id="acme",
        notification_id="n",
        job_id="j",
        channel="webhook",
        template_key="async.job.completed",
        created_at=NOW,
        payload_json="{}",
        attempt=try_number + 4,
        try_number=try_number,
        target="https://hook.example/",
        lane="e",
        endpoint_id="e",
        version=1,
        former_until=None,
        lane_failures=lane_failures,
        traceparent=None,
    )


def settled(one: Delivery, outcome: DeliveryOutcome, **values: Any) -> Any:
    given = {"schedule": SCHEDULE, "draw": 0.0, "seconds": 0.1, "now": NOW, **values}
    return settle_delivery(one, outcome, **given)


@pytest.mark.parametrize(
    ("status", "verdict", "lane_failed", "disables"),
    [
        *((status, "sent", False, False) for status in (200, 201, 202, 204, 226, 299)),
        *((status, "later", True, False) for status in (101, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 408)),
        *((status, "later", True, False) for status in (409, 413, 418, 422, 429, 500, 502, 503, 504, 599, 999)),
        (410, "never", False, True),
    ],
)
def test_the_outcome_follows_from_the_status(status: int, verdict: str, lane_failed: bool, disables: bool) -> None:
    outcome = outcome_of_status(status, None, "", NOW)
    assert (outcome.verdict, outcome.lane_failed, outcome.disable is not None) == (verdict, lane_failed, disables)
    assert (outcome.error is None) == (verdict == "sent")
    assert outcome.status_code == status


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("99999999999999999999", LONGEST_RETRY_AFTER),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 12:02:00 -0000", 120.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER),
        ("Fri, 99 Foo 2026 25:00:00 GMT", None),
        ("soon", None),
    ],
)
def test_retry_after_is_parsed(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, NOW) == seconds


@pytest.mark.parametrize(("status", "seconds"), [(429, 60.0), (503, 60.0), (500, None), (302, None)])
def test_retry_after_counts_for_429_and_503_only(status: int, seconds: float | None) -> None:
    assert outcome_of_status(status, "60", "", NOW).retry_after == seconds


@pytest.mark.parametrize(
    ("try_number", "draw", "status", "wait"),
    [(1, 0.0, "pending", 5.0), (1, 0.5, "pending", 5.5), (3, 0.0, "pending", 1_800.0), (4, 0.0, "failed", 0.0)],
)
def test_a_failure_is_tried_again_by_the_schedule(try_number: int, draw: float, status: str, wait: float) -> None:
    end = settled(delivery(try_number), FAILED, draw=draw)
    assert (end.status, end.retry_seconds, end.attempt) == (status, pytest.approx(wait), try_number + 4)
    assert end.error == "the receiver answered 500"


def test_a_receiver_may_ask_for_more_time_but_not_for_less() -> None:
    assert settled(delivery(2), outcome_of_status(429, "3600", "", NOW)).retry_seconds == 3600
    assert settled(delivery(2), outcome_of_status(429, "3600", "", NOW)).pause_seconds == 3600
    assert settled(delivery(2), outcome_of_status(429, "1", "", NOW)).retry_seconds == 300
    assert settled(delivery(4), outcome_of_status(429, "3600", "", NOW)).status == "failed"


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(1, None), (4, None), (5, 60.0), (6, 120.0), (10, 1_920.0), (11, 3_600.0), (10_000, 3_600.0)],
)
def test_pauses_of_a_lane_double(failures: int, pause: float | None) -> None:
    assert pause_after(failures) == pause
    assert settled(delivery(lane_failures=failures - 1), FAILED).pause_seconds == pause


@pytest.mark.parametrize(
    ("verdict", "status"), [("sent", "sent"), ("suppressed", "suppressed"), ("never", "failed"), ("later", "pending")]
)
def test_a_failure_of_the_message_does_not_pause_its_lane(verdict: Any, status: str) -> None:
    end = settled(delivery(lane_failures=9), DeliveryOutcome(verdict=verdict, error="x"), failing_since=0)
    assert (end.status, end.lane_failed, end.pause_seconds, end.disable) == (status, False, None, None)


def test_an_endpoint_that_is_gone_is_not_called_any_more() -> None:
    end = settled(delivery(), outcome_of_status(410, None, "", NOW))
    assert (end.status, end.disable) == ("failed", "the receiver answered 410 Gone")


@pytest.mark.parametrize(
    ("seconds", "failures", "disabled"),
    [(DISABLE_AFTER_SECONDS, 9, True), (DISABLE_AFTER_SECONDS - 1, 9, False), (DISABLE_AFTER_SECONDS, 2, False)],
)
def test_an_endpoint_that_fails_for_days_is_disabled(seconds: float, failures: int, disabled: bool) -> None:
    end = settled(delivery(lane_failures=failures), FAILED, failing_since=NOW - int(seconds * SECOND))
    assert (end.disable is not None) == disabled
    if disabled:
        assert end.disable == "nothing could be delivered for 5 days: the receiver answered 500"


def test_a_response_is_stored_in_part_and_without_secrets() -> None:
    text = "token=abcdefgh12345678\x1b[2J\x00" + "y" * 5_000
    end = settled(delivery(), outcome_of_status(500, None, text, NOW))
    assert end.reply is not None
    assert len(end.reply) <= 1_000
    assert "abcdefgh" not in end.reply
    assert "\x1b" not in end.reply
    assert settled(delivery(), outcome_of_status(200, None, "", NOW)).reply is None
