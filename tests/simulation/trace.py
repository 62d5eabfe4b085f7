"""Tells a counterexample so that a person can follow it."""

from collections.abc import Callable
from typing import Any

from langlauf.domain.attempt import ClaimRequest, Lease
from langlauf.domain.instant import SECOND
from langlauf.domain.job import NewJob
from langlauf.domain.read_models import CancelRequest
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.claim import RenewRequest
from langlauf.store.sqlite.end import SweepOne
from tests.simulation.environment import Fate, ListSweepable, SweepAll
from tests.simulation.schedule import START, Failure


def story(seed: int, failure: Failure) -> str:
    """What happened, step by step; what was wrong in the end; and how to see it again."""
    lines = [f"The store and the contract disagree on the schedule of seed {seed}:"]
    for number, step in enumerate(failure.steps, start=1):
        words = "; ".join(map(_words, step.operations)) or "nothing"
        fate = "" if step.fate is Fate.TOLD else f"   [{step.fate}]"
        lines.append(f"{number:3}. {(step.at - START) / SECOND:12.6f} s  {words}{fate}")
    lines += [
        f"     {failure.why}",
        f"The first schedule of LANGLAUF_TEST_SEED={seed} pytest -x tests/simulation/test_schedules.py is this one.",
    ]
    return "\n".join(lines)


def _words(operation: Any) -> str:
    return _WORDS.get(type(operation), str)(operation)


def _submission(new: NewJob) -> str:
    job = new.job
    rules = f"{job.analysis}, {job.priority_class}, timeout {job.timeout_seconds:g} s, {job.max_retries} retries"
    key = f", {new.idempotency_key}" if new.idempotency_key else ""
    return f"{job.org_id} submits {job.job_id} ({rules}{key})"


def _claim(request: ClaimRequest) -> str:
    limits = f"at most {request.max_running} run, limits {dict(request.limits)}"
    return f"{request.worker_id} claims up to {request.slots} of {'/'.join(request.analyses)}, {limits}"


def _attempt(lease: Lease) -> str:
    return f"attempt {lease.attempt} of {lease.job_id}"


_WORDS: dict[type, Callable[[Any], str]] = {
    NewJob: _submission,
    ClaimRequest: _claim,
    RenewRequest: lambda beat: f"heartbeat for {', '.join(map(_attempt, beat.leases))}",
    Recording: lambda one: f"{_attempt(one.lease)} writes {one.write}",
    CancelRequest: lambda wish: f"{wish.by} cancels {wish.job_id} of {wish.org_id}",
    ListSweepable: lambda page: f"the sweep looks for up to {page.limit} after {page.after[1] or 'none'}",
    SweepAll: lambda page: f"a sweep, {page.limit} at a time",
    SweepOne: lambda one: f"the sweep takes {_attempt(one.lease)}",
}
