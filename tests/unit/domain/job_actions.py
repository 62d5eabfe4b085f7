"""Everything that can happen to a job, as moves that a property test deals out in any order."""

from langlauf.clock import new_id
from langlauf.domain.attempt import Backoff, Claim, ClaimRequest, Partial, Progress, Write
from langlauf.domain.job import JobRecord
from langlauf.domain.outcome import Canceled, Completed, Failed, Released, Retry
from langlauf.domain.read_models import CancelRequest
from tests.support.stores import LEASE_SECONDS, JobFactory


def _write(move: str) -> Write | None:
    writes: dict[str, Write] = {
        "progress": Progress(percent=30, step="on"),
        "partial": Partial(result_id=new_id(), payload="{}", percent=40),
        "complete": Completed(result_id=new_id(), payload="{}"),
        "fail": Failed(code="internal", message="no", retryable=False),
        "retry": Retry(code="timeout", message="slow", delay_seconds=0.1),
        "stop": Canceled(by="worker", reason="asked"),
        "release": Released(),
    }
    return writes.get(move)


async def make_move(maker: JobFactory, job: JobRecord, claim: Claim | None, move: str) -> Claim | None:
    """Makes one move, legal or not, and returns the claim that writes come from afterwards."""
    maker.clock.pass_(0.2)
    write = _write(move)
    if write is not None:
        if claim is not None:
            await maker.store.record(claim.lease, write)
    elif move == "cancel":
        request = CancelRequest(org_id=job.org_id, job_id=job.job_id, by="user", reason="no", request_id=new_id())
        await maker.store.cancel(request)
    elif move == "lose":
        maker.clock.pass_(LEASE_SECONDS)
        await maker.store.sweep(grace_seconds=5, backoff=Backoff(0, 0))
    else:
        request_claim = ClaimRequest(
            worker_id="w", slots=1, analyses=(job.analysis,), lease_seconds=LEASE_SECONDS, max_running=10
        )
        claims = await maker.store.claim(request_claim)
        # Without a new claim the old one stays: its writes are then those of a zombie.
        return claims[0] if claims else claim
    return claim
