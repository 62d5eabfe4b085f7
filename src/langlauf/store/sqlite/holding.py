"""Holding results and releasing them."""

from langlauf.domain.holding import HoldWish, ResultGone
from langlauf.domain.views import JobView
from langlauf.store.sqlite.transaction import Transaction


def hold(tx: Transaction, wish: HoldWish) -> JobView | ResultGone | None:
    """Holds the job of a result, or releases it; tells how the job is now."""
    found = tx.one("find_held_job", org_id=wish.org_id, result_id=wish.result_id)
    if found is None:
        return None
    job_id, removed_at = found
    job = {"org_id": wish.org_id, "job_id": job_id}
    if not wish.held:
        tx.run("release_job", **job)
    elif removed_at is not None:
        return ResultGone(job_id, removed_at)
    else:
        tx.run("hold_job", **job, result_id=wish.result_id, now=tx.now, by=wish.by, reason=wish.reason)
    return tx.view(wish.org_id, job_id)
