"""Wake-ups after a batch: each once, and none for jobs that were started with the batch."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from langlauf.domain.attempt import Claim, ClaimRequest, Lease, Partial, Progress, Write, WriteResult
from langlauf.domain.job import Accepted, NewJob
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.store.commit_hints import announce_batch
from langlauf.store.group_commit import Recording
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import new_job

REQUEST = ClaimRequest(worker_id="w", slots=2, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000)


class _Heard:
    """Hints as they are given."""

    def __init__(self) -> None:
        self.said: list[object] = []

    def work(self) -> None:
        self.said.append("work")

    def claim_again(self) -> None:
        self.said.append("claim again")

    def work_after(self, seconds: float) -> None:
        self.said.append(("work after", seconds))

    def attention(self) -> None:
        self.said.append("attention")

    def changed(self, job_ids: Iterable[str]) -> None:
        self.said.append(("changed", *job_ids))

    def org_changed(self, org_ids: Iterable[str]) -> None:
        self.said.append(("orgs", *sorted(org_ids)))


def _claim_of(new: NewJob) -> Claim:
    return Claim(
        lease=Lease(new.job.org_id, new.job.job_id, 1),
        analysis=new.job.analysis,
        payload=new.payload,
        started_at=0,
        expires_at=0,
        timeout_seconds=1.0,
        progress_percent=0,
        retry_count=0,
        max_retries=0,
        trace_id="",
        request_id="",
    )


def _accepted(new: NewJob, **changes: int) -> tuple[object, object]:
    return new, Accepted(replace(new.job, ticket=1) if not changes else replace(new.job, **changes))


@pytest.mark.parametrize("standing", [True, False])
def test_a_job_that_was_started_with_its_batch_wakes_no_worker(standing: bool) -> None:
    """Whether a standing claim got it or one of the batch; a job that is left wakes them once."""
    clock, heard = SetClock(), _Heard()
    first, second, third = (new_job(clock) for _ in range(3))
    claims = [_claim_of(first), _claim_of(second)]
    done = [_accepted(first), _accepted(second)]
    asked = [] if standing else [(REQUEST, claims)]
    announce_batch(heard, [*done, *asked], claims if standing else ())
    assert "work" not in heard.said
    announce_batch(heard, [*done, _accepted(third), *asked], claims if standing else ())
    assert heard.said.count("work") == 1


def test_a_job_with_a_time_wakes_workers_then() -> None:
    """Its ticket is that time, as a negative number, until it has come."""
    clock, heard = SetClock(), _Heard()
    new = new_job(clock)
    announce_batch(heard, [_accepted(new, queued_at=1_000_000, ticket=-4_000_000)])
    assert heard.said == [("orgs", new.job.org_id), ("work after", 3.0)]


def test_a_batch_says_once_what_its_ends_have_in_common() -> None:
    """Refused writes say nothing; a retry says when it may start."""
    heard = _Heard()
    leases = [Lease("org-a", "1", 1), Lease("org-a", "2", 1), Lease("org-b", "3", 1), Lease("org-c", "4", 1)]
    ended = Completed(result_id="r", payload="1")
    again = Retry(code="x", message="y", delay_seconds=2.0)
    done: list[tuple[object, object]] = [
        (Recording(leases[0], ended), WriteResult.WRITTEN),
        (Recording(leases[1], ended), WriteResult.WRITTEN),
        (Recording(leases[2], ended), WriteResult.REFUSED),
        (Recording(leases[3], again), WriteResult.WRITTEN),
    ]
    announce_batch(heard, done)
    assert heard.said == [
        ("changed", "4"),
        ("orgs", "org-c"),
        ("work after", 2.0),
        "claim again",
        ("changed", "1", "2"),
        ("orgs", "org-a"),
    ]


@pytest.mark.parametrize(
    ("write", "ends"),
    [
        (Progress(percent=5), False),
        (Partial(result_id="p", payload="1"), False),
        (Completed(result_id="r", payload="1"), True),
        (Retry(code="x", message="y", delay_seconds=2.0), True),
        (Released(), True),
    ],
)
def test_what_ends_an_attempt_frees_a_slot(write: Write, ends: bool) -> None:
    """A job that a limit held back may start now."""
    heard = _Heard()
    announce_batch(heard, [(Recording(Lease("org-a", "1", 1), write), WriteResult.WRITTEN)])
    assert ("claim again" in heard.said) is ends


def test_a_claim_that_finds_nothing_wakes_nothing() -> None:
    """Workers ask twice a second; the sender of messages would look as often."""
    heard = _Heard()
    announce_batch(heard, [(REQUEST, [])])
    assert heard.said == []
