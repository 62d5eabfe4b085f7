"""The wait for a start: own jobs before it, what others take meanwhile, and the slots that a limit leaves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.domain.eta import Lane, QueueLoad, RunningLimits, RunProgress, TicketRange, jobs_ahead
from langlauf.domain.fairness import Ramps, WaitForecast
from langlauf.domain.instant import SECOND, after
from langlauf.domain.job import JobRecord, PriorityClass
from langlauf.domain.state import Status

NOW = 1_770_000_000 * SECOND
PACES = {"survey": 10.0, "census": 100.0}


def _running(org: str, analysis: str = "survey", *, since: float = 0) -> RunProgress:
    started_at = after(NOW, -since)
    return RunProgress(org, analysis, started_at, 0, 0, started_at, started_at)


def _outlook(
    lanes: list[Lane],
    runs: list[RunProgress],
    *,
    slots: int = 1,
    per_org: int | None = None,
    per_analysis: dict[str, int] | None = None,
    paces: dict[str, float] = PACES,
) -> WaitForecast:
    return WaitForecast(QueueLoad(NOW, lanes, runs, paces, 0), RunningLimits(slots, per_org, per_analysis or {}))


def _wait(outlook: WaitForecast, org: str = "org-a", analysis: str = "survey", **before: float) -> float:
    return outlook.wait(org, analysis, before, NOW)


def test_a_free_slot_is_no_wait() -> None:
    """Nothing before it and room for it."""
    assert _wait(_outlook([], [])) == 0
    assert _wait(_outlook([Lane("org-a", "survey", 1, 0)], [_running("org-b")], slots=2)) == 0


def test_the_wait_is_the_rest_of_what_runs_and_the_queue_before() -> None:
    """One slot: 4 s of the running job, then three jobs of 10 s."""
    outlook = _outlook([Lane("org-a", "survey", 4, 0)], [_running("org-a", since=6)])
    assert _wait(outlook) == 4.0
    assert _wait(outlook, survey=3) == 34.0


def test_slots_are_used_side_by_side() -> None:
    """Four slots take four jobs per round."""
    outlook = _outlook([Lane("org-a", "survey", 9, 0)], [_running("org-a", since=2.0 * n) for n in range(4)], slots=4)
    assert [_wait(outlook, survey=before) for before in (0, 3, 4, 8)] == [4.0, 10.0, 14.0, 24.0]


def test_the_paces_of_what_waits_before_count() -> None:
    """Two long jobs of the same org before a short one make a long wait."""
    outlook = _outlook([Lane("org-a", "census", 2, 0), Lane("org-a", "survey", 1, 0)], [])
    assert _wait(outlook, census=2) == 200.0


def test_others_take_their_turns_meanwhile_and_no_more() -> None:
    """A thousand jobs of another org delay the second one of this org by two turns, not by a thousand."""
    lanes = [Lane("org-a", "survey", 2, 7), Lane("org-b", "survey", 1_000, 7)]
    assert _wait(_outlook(lanes, []), survey=1) == pytest.approx(20.0, abs=10)


def test_the_work_of_others_counts_with_their_paces() -> None:
    """One turn of the other org is a run of a hundred seconds."""
    lanes = [Lane("org-a", "survey", 3, 0), Lane("org-b", "census", 50, 0)]
    assert _wait(_outlook(lanes, []), survey=2) == pytest.approx(2 * 10 + 2.5 * 100, rel=0.15)


def test_an_org_with_fewer_turns_goes_first() -> None:
    """Where the turns of two orgs differ, the one behind catches up before the other's next start."""
    lanes = [Lane("org-a", "survey", 1, 5), Lane("org-b", "survey", 9, 0)]
    assert _wait(_outlook(lanes, [])) == pytest.approx(50.0, abs=10)


def test_the_limit_of_an_analysis_makes_its_own_queue() -> None:
    """Its jobs share its slots; jobs of other analyses do not wait for them."""
    lanes = [Lane("org-a", "census", 3, 0), Lane("org-b", "census", 500, 0), Lane("org-a", "survey", 1, 0)]
    outlook = _outlook(lanes, [_running("org-b", "census", since=40)], slots=8, per_analysis={"census": 1})
    assert _wait(outlook, analysis="survey", census=3) == 0
    assert _wait(outlook, analysis="census") == pytest.approx(60.0, abs=100)
    assert _wait(outlook, analysis="census", census=2) == pytest.approx(60 + 4.5 * 100, abs=100)


def test_the_limit_of_an_org_makes_its_own_queue() -> None:
    """With room for everybody, each org runs up to its limit and waits for itself alone."""
    lanes = [Lane("org-a", "survey", 3, 0), Lane("org-b", "survey", 500, 0)]
    runs = [_running("org-a", since=4), _running("org-b")]
    outlook = _outlook(lanes, runs, slots=8, per_org=1)
    assert _wait(outlook) == 6.0
    assert _wait(outlook, survey=2) == 26.0
    long = [Lane("org-a", "survey", 9, 0), Lane("org-b", "census", 500, 0)]
    assert _wait(_outlook(long, [], slots=8, per_org=1), survey=8) == 80.0
    crowded = _outlook(lanes, runs, slots=2, per_org=2)
    assert _wait(crowded, survey=2) > _wait(_outlook(lanes, runs, slots=2, per_org=None), survey=2) - 0.1


def test_the_age_of_the_load_is_subtracted() -> None:
    """An outlook that is two seconds old has waited two of them."""
    outlook = _outlook([Lane("org-a", "survey", 1, 0)], [_running("org-b", since=3)])
    assert outlook.wait("org-a", "survey", {}, after(NOW, 2)) == 5.0


def test_a_load_that_is_read_after_the_clock_adds_no_wait() -> None:
    """On a busy machine the load may be read long after the caller looked at the clock: a free slot stays free."""
    assert _outlook([], []).wait("org-a", "survey", {}, after(NOW, -3)) == 0


def test_a_full_queue_has_room_after_the_next_start() -> None:
    """Of the org, of the analysis, or of any; unknown where nothing runs or no run is known."""
    lanes = [Lane("org-a", "survey", 9, 0), Lane("org-b", "census", 9, 0)]
    runs = [_running("org-a", since=7), _running("org-b", "census", since=40)]
    outlook = _outlook(lanes, runs, slots=2, per_analysis={"census": 1})
    assert outlook.next_start("survey", NOW) == outlook.next_start_of_any("census", NOW) == 3.0
    assert outlook.next_start("census", NOW) == 60.0
    assert outlook.next_start_of_org("org-a", "survey", NOW) == 3.0
    assert outlook.next_start_of_org("org-b", "survey", NOW) == 60.0
    assert outlook.next_start_of_org("org-c", "census", NOW) == 60.0
    assert _outlook([], runs, slots=2).next_start_of_any("survey", NOW) == 3.0
    for blind in (_outlook(lanes, []), _outlook(lanes, runs, paces={})):
        assert blind.next_start_of_any("survey", NOW) is None
        assert blind.next_start_of_org("org-a", "survey", NOW) is None


def test_running_jobs_beyond_the_limit_are_waited_for() -> None:
    """After a limit was lowered, slots come free only when enough have ended."""
    runs = [_running("org-b", since=since) for since in (1, 2, 3)]
    assert _wait(_outlook([Lane("org-a", "survey", 1, 0)], runs, slots=1)) == 9.0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.floats(0, 9)), max_size=30),
    st.floats(-5, 80, allow_nan=False),
)
def test_ramps_are_summed_correctly(ramps: list[tuple[int, int, float]], place: float) -> None:
    """The quick sum is the plain one."""
    plain = sum(slope * min(max(place - start, 0), length) for start, length, slope in ramps)
    assert Ramps(ramps).at(place) == pytest.approx(plain, abs=1e-6)


def _job(ticket: int, priority: PriorityClass = "default", analysis: str = "survey", at: int = NOW) -> JobRecord:
    fields: dict[str, Any] = dict.fromkeys(
        ("request_payload_hash", "request_payload_ref", "trace_id", "request_id"), ""
    )
    fields |= {"job_id": "j", "org_id": "org-a", "status": Status.QUEUED, "queued_at": at, "updated_at": at}
    fields |= {"analysis": analysis, "priority_class": priority, "timeout_seconds": 1.0, "max_retries": 0}
    return JobRecord(**fields, ticket=ticket)


def test_the_place_in_the_own_queue_comes_from_tickets() -> None:
    """The first one has none before it; urgent ones go before; other analyses count by their times."""
    ranks = [
        TicketRange("survey", "default", 13, 5, 14, NOW, after(NOW, 10)),
        TicketRange("survey", "expedite", 13, 1, 3, NOW, after(NOW, 10)),
        TicketRange("census", "default", 4, 1, 4, after(NOW, 20), after(NOW, 30)),
    ]
    assert jobs_ahead(_job(5), ranks) == {"survey": 3, "census": 0}
    assert jobs_ahead(_job(9), ranks) == {"survey": 7, "census": 0}
    assert jobs_ahead(_job(2, "expedite"), ranks) == {"survey": 1, "census": 0}
    assert jobs_ahead(_job(15, at=after(NOW, 25)), ranks) == {"survey": 13, "census": 2}
    assert jobs_ahead(_job(0, at=after(NOW, 40)), ranks) == {"survey": 13, "census": 4}


def test_a_job_may_be_newer_than_what_is_known_of_its_queue() -> None:
    """Behind a last one that is known, it is further behind; where none is known, tickets began with 1."""
    ranks = [TicketRange("survey", "default", 10, 5, 14, NOW, after(NOW, 10))]
    assert jobs_ahead(_job(30), ranks) == {"survey": 25}
    assert jobs_ahead(_job(3, "expedite"), ranks) == {"survey": 2}
    assert jobs_ahead(_job(1), []) == {"survey": 0}
    assert jobs_ahead(_job(4), []) == {"survey": 3}


def test_canceled_jobs_are_not_waited_for() -> None:
    """Of a hundred tickets ten are left: the one in the middle has five before it."""
    ranks = [TicketRange("survey", "default", 10, 1, 100, NOW, after(NOW, 10))]
    assert jobs_ahead(_job(51), ranks) == {"survey": 5.0}
