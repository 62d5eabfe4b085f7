"""When schedules run: every rule over both changes of the clock, leap days, month ends, downtime and a set clock."""

from itertools import islice, pairwise

import pytest

from langlauf.domain.instant import SECOND, Instant, from_text, to_text
from langlauf.domain.schedule import (
    MOST_AT_ONCE,
    InvalidSchedule,
    Missed,
    Schedule,
    check_schedule,
    due_runs,
    next_run,
    planned_times,
    run_key,
)


def _cron(expression: str, zone: str = "UTC", **fields: object) -> Schedule:
    return Schedule(org_id="org-a", name="one", analysis="survey", cron=expression, zone=zone, **fields)  # type: ignore[arg-type]


def _runs(one: Schedule, after: str, count: int) -> list[str]:
    """The next planned times, to the minute."""
    return [to_text(at)[:16] for at in islice(planned_times(one, from_text(f"{after}:00Z")), count)]


#: zone, expression, from when on, and the expected times in UTC.
CALENDAR = [
    # Zurich, spring: 02:00 becomes 03:00 on 29 March 2026. What is skipped fires at the end of the gap, once.
    ("Europe/Zurich", "30 2 * * *", "2026-03-28T00:00", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
    ("Europe/Zurich", "0 6 * * *", "2026-03-27T12:00", ["2026-03-28T05:00", "2026-03-29T04:00", "2026-03-30T04:00"]),
    ("Europe/Zurich", "0 * * * *", "2026-03-28T23:30", ["2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"]),
    # Zurich, autumn: 03:00 becomes 02:00 on 25 October 2026. What happens twice fires the first time.
    ("Europe/Zurich", "30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30", "2026-10-27T01:30"]),
    ("Europe/Zurich", "0 * * * *", "2026-10-24T22:30", ["2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T02:00"]),
    ("Europe/Zurich", "0,30 1-2 * * *", "2026-10-24T22:30",
     ["2026-10-24T23:00", "2026-10-24T23:30", "2026-10-25T00:00", "2026-10-25T00:30", "2026-10-26T00:00"]),
    # New York: 8 March and 1 November 2026.
    ("America/New_York", "30 2 * * *", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T12:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
    # Lord Howe moves by half an hour, on 5 April and 4 October 2026.
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-02T20:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T20:00", ["2026-04-04T14:45", "2026-04-05T15:15"]),
    # Leap days, month ends, working days.
    ("UTC", "0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("UTC", "0 6 31 * *", "2026-01-31T12:00", ["2026-03-31T06:00", "2026-05-31T06:00", "2026-07-31T06:00"]),
    ("UTC", "0 6 L * *", "2026-01-31T12:00", ["2026-02-28T06:00", "2026-03-31T06:00"]),
    ("Europe/Zurich", "0 6 * * 1-5", "2026-03-27T12:00", ["2026-03-30T04:00", "2026-03-31T04:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "expression", "after", "expected"), CALENDAR)
def test_every_local_time_fires_once(zone: str, expression: str, after: str, expected: list[str]) -> None:
    """Over both changes of the clock, in three zones; on leap days and at the ends of months."""
    assert _runs(_cron(expression, zone), after, len(expected)) == expected


@pytest.mark.parametrize(("zone", "expression", "after", "expected"), CALENDAR)
def test_the_next_run_is_the_same_wherever_it_is_asked_from(
    zone: str, expression: str, after: str, expected: list[str]
) -> None:
    """A process that starts between two runs, or at one, plans the one that a process from before had planned."""
    one = _cron(expression, zone)
    for before, following in pairwise([after, *expected]):
        first, last = from_text(f"{before}:00Z"), from_text(f"{following}:00Z")
        for at in (first, (first + last) // 2, last - 1):
            assert next_run(one, at) == last


@pytest.mark.parametrize("zone", ["Europe/Zurich", "America/New_York", "Australia/Lord_Howe"])
def test_a_daily_time_fires_once_a_day_over_ten_years(zone: str) -> None:
    """Whatever its minute: as many runs as days, none twice."""
    start = from_text("2026-01-01T00:00:00Z")
    for minute in (0, 15, 30, 59):
        one = _cron(f"{minute} 2 * * *", zone)
        times = list(islice(planned_times(one, start), 3_650))
        assert all(22.9 < (after - before) / SECOND / 3_600 < 25.1 for before, after in pairwise(times))


def _off_for_a_day(missed: Missed, expression: str = "0 * * * *") -> tuple[Schedule, Instant]:
    """A schedule whose next run was planned for a day ago, and the time now, ten minutes after a run."""
    now = from_text("2026-05-02T12:10:00Z")
    return _cron(expression, missed=missed, next_run_at=from_text("2026-05-01T13:00:00Z")), now


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("once", ["2026-05-02T12:00"]), ("none", []), ("all", [f"2026-05-0{d}T{h:02}:00" for d, h in
      [*((1, h) for h in range(13, 24)), *((2, h) for h in range(13))]])],
)  # fmt: skip
def test_after_a_day_off_missed_decides(missed: Missed, expected: list[str]) -> None:
    """One run by default, not twenty-four; the next one is planned from now on."""
    one, now = _off_for_a_day(missed)
    firing = due_runs(one, now)
    assert [to_text(at)[:16] for at in firing.run] == expected
    assert firing.next_run_at == from_text("2026-05-02T13:00:00Z")


@pytest.mark.parametrize("missed", ["once", "none", "all"])
def test_a_run_that_is_fired_in_time_is_not_missed(missed: Missed) -> None:
    """Half a minute late is in time."""
    planned = from_text("2026-05-02T12:00:00Z")
    firing = due_runs(_cron("0 * * * *", missed=missed, next_run_at=planned), planned + 30 * SECOND)
    assert firing.run == [planned]


def test_all_missed_runs_come_in_bounded_sets() -> None:
    """The next set begins where the last one ended; none is left out."""
    one, now = _off_for_a_day("all", "*/5 * * * *")
    seen: list[Instant] = []
    while (firing := due_runs(one, now)).run:
        assert len(firing.run) <= MOST_AT_ONCE
        seen += firing.run
        one = _cron("*/5 * * * *", missed="all", next_run_at=firing.next_run_at)
    first = from_text("2026-05-01T13:00:00Z")
    assert seen == list(range(first, now + 1, 300 * SECOND))


def test_the_newest_run_is_found_after_a_year_of_every_minute() -> None:
    """Without counting through all of it."""
    one = _cron("* * * * *", next_run_at=from_text("2025-05-01T13:00:00Z"))
    firing = due_runs(one, from_text("2026-05-02T12:10:30Z"))
    assert [to_text(at)[:16] for at in firing.run] == ["2026-05-02T12:10"]


def test_a_clock_that_is_set_neither_repeats_nor_loses_a_run() -> None:
    """Set back, nothing is due until the stored time; set forward, what it skipped is what `missed` says."""
    planned = from_text("2026-05-02T12:00:00Z")
    one = _cron("0 * * * *", next_run_at=planned)
    assert due_runs(one, planned - 3_600 * SECOND).run == []
    assert due_runs(one, planned - 3_600 * SECOND).next_run_at == planned
    ahead = due_runs(one, planned + 5 * 3_600 * SECOND)
    assert [to_text(at)[:16] for at in ahead.run] == ["2026-05-02T17:00"]


def test_an_interval_keeps_its_beat() -> None:
    """From when it was made, without drift, whatever the clock of people does."""
    made = from_text("2026-03-28T23:50:00Z")
    one = Schedule(
        org_id="org-a", name="one", analysis="survey", every_seconds=900, created_at=made, zone="Europe/Zurich"
    )
    times = list(islice(planned_times(one, made), 20))
    assert times == [made + (number + 1) * 900 * SECOND for number in range(20)]
    assert next_run(one, times[3] + 1) == times[4]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "cron"),
        ({"cron": "0 6 * * *", "every_seconds": 60.0}, "cron"),
        ({"cron": "0 6 * *"}, "cron"),
        ({"cron": "61 6 * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 6 * * *", "zone": "Europe/Nowhere"}, "zone"),
        ({"cron": "0 6 * * *", "zone": "../../etc/passwd"}, "zone"),
        ({"cron": "0 6 * * *", "zone": ""}, "zone"),
        ({"every_seconds": 0.5}, "every_seconds"),
        ({"every_seconds": 1e12}, "every_seconds"),
    ],
)
def test_schedules_that_cannot_be_are_refused(fields: dict[str, object], field: str) -> None:
    """With the field that is wrong."""
    one = Schedule(org_id="org-a", name="one", analysis="survey", **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule) as refused:
        check_schedule(one, 0)
    assert refused.value.field == field


def test_no_request_can_have_the_key_of_a_run() -> None:
    """An Idempotency-Key has no spaces."""
    assert " " in run_key("one", 0)
