"""Following jobs and orgs: read, wait for a wake-up, read again.

A commit in this process wakes followers at once. Commits of other processes are found by one query per second over all
followed jobs; a follower without changes costs one row of that query. Missed wake-ups do no harm: a follower reads
what is stored, and a wake-up carries no data.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from langlauf.auth.caller import Caller
from langlauf.domain.errors import AccessLost, StoreError
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.hints import Hints
from langlauf.service.follower import Follower, JobFollower, OrgFollower, Signal, Topic, Watch, Watcher
from langlauf.service.read import Reads
from langlauf.service.request_limits import StreamSlots
from langlauf.service.single_flight import SingleFlight
from langlauf.store.protocol import Store
from langlauf.telemetry.log import log_store_failure

#: How often followed jobs are checked for changes of other processes.
LOOK_SECONDS = 1.0
T = TypeVar("T")


class Followers:
    """All followers of this process. None of them holds a resource of the store while it waits.

    `allowed` is called at every check, to find callers that lost access; it answers from memory.
    """

    def __init__(
        self,
        store: Store,
        reads: Reads,
        hints: Hints,
        slots: StreamSlots,
        *,
        allowed: Callable[[Caller], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._reads = reads
        self._hints = hints
        self._allowed = allowed
        self._present: set[JobFollower] = set()
        self._of_orgs: set[OrgFollower] = set()
        self._marks: SingleFlight[str] = SingleFlight(lambda _: False)
        self._blind = False
        self.slots = slots

    @property
    def closing(self) -> bool:
        """Whether the program is about to stop, so that waits end."""
        return self._hints.closing.is_set()

    def following(
        self,
        caller: Caller,
        job_id: str,
        matters: Callable[[JobFingerprint | None], bool],
        event: Signal | None = None,
    ) -> JobFollower:
        """Follow a job until the block ends: clear the event, read, then wait, and no change is missed.

        `matters` decides whether a fingerprint differs from what the follower last read.
        """
        follower: JobFollower = Follower(caller, (caller.org_id, job_id), event or Signal(), matters, self._left)
        self._hints.follow(job_id, follower.event)
        self._present.add(follower)
        return follower

    def following_org(self, caller: Caller, matters: Callable[[str], bool], event: Signal | None = None) -> OrgFollower:
        """Follow all jobs of the caller's org in the same way; `matters` gets the version of the org."""
        follower: OrgFollower = Follower(caller, (caller.org_id, ""), event or Signal(), matters, self._left_org)
        self._hints.follow_org(caller.org_id, follower.event)
        self._of_orgs.add(follower)
        return follower

    def _left(self, follower: JobFollower) -> None:
        self._hints.unfollow(follower.job[1], follower.event)
        self._present.discard(follower)

    def _left_org(self, follower: OrgFollower) -> None:
        self._hints.unfollow_org(follower.caller.org_id, follower.event)
        self._of_orgs.discard(follower)

    async def mark(self, caller: Caller) -> str:
        """Return the version of the caller's org, which changes with its jobs. Concurrent callers share one query."""
        org_id = caller.org_id

        async def read() -> str:
            return (await self._store.org_versions([org_id]))[org_id]

        return await self._marks.get(org_id, read)

    async def look(self) -> None:
        """Wake followers whose job or org was changed by another process, and those that lost access."""
        everybody: list[JobFollower | OrgFollower] = [*self._present, *self._of_orgs]
        for one in everybody:
            if not await self._allowed(one.caller):
                one.turn_away()
        present, of_orgs = list(self._present), list(self._of_orgs)
        orgs = list({follower.caller.org_id for follower in of_orgs})
        try:
            pulses = await self._store.job_fingerprints(list({follower.job for follower in present})) if present else {}
            marks = await self._store.org_versions(orgs) if orgs else {}
        except StoreError as error:
            if not self._blind:  # once, not every second that the store is unavailable
                log_store_failure(error)
            self._blind = True
            return
        self._blind = False
        for follower in present:
            follower.look(pulses.get(follower.job))
        for of_org in of_orgs:
            of_org.look(marks[of_org.caller.org_id])

    async def until(
        self,
        caller: Caller,
        job_id: str,
        seconds: float,
        enough: Callable[[JobView], bool],
        *,
        poll: Watch | None = None,
        watch: Watch | None = None,
    ) -> JobView | None:
        """Return the job as soon as `enough` holds, or at the timeout, a disconnect or the stop of the program.

        For `poll` and `watch` see `held`.
        """
        reads = self._reads.of(caller)
        view: JobView | None = None

        def matters(pulse: JobFingerprint | None) -> bool:
            return view is not None and (pulse is None or _differs(view, pulse, enough))

        with self.following(caller, job_id, matters) as follower:

            async def read() -> tuple[JobView | None, bool]:
                nonlocal view
                view = await reads.job(job_id)
                if view is None:
                    return None, True
                follower.job = (view.job.org_id, job_id)
                return view, enough(view)

            return await self.held(follower, seconds, read, poll=poll, watch=watch)

    async def held(
        self,
        follower: "JobFollower | OrgFollower",
        seconds: float,
        read: Callable[[], Awaitable[tuple[T, bool]]],
        *,
        poll: Watch | None = None,
        watch: Watch | None = None,
    ) -> T:
        """Return what is read, as soon as it is enough, or at the timeout, a disconnect or the stop of the program.

        With `poll`, waiting takes a stream slot (else `NoStreamSlot`), needs access (else `AccessLost`), and ends
        when the client disconnects. `watch` does only the last: its caller has a slot already.
        """
        watches = poll or watch
        deadline = time.monotonic() + seconds
        watched = False
        with ExitStack() as stay:
            while True:
                follower.event.clear()
                found, enough = await read()
                left = deadline - time.monotonic()
                if poll and follower.turned_away:
                    raise AccessLost
                if enough or left <= 0 or self.closing or follower.left:
                    return found
                if watches and not watched:
                    if poll:
                        stay.enter_context(self.slots.take(follower.caller.counted_as, "poll"))
                    stay.callback(watches(follower))
                    watched = True
                await follower.event.wait_until(asyncio.get_running_loop().time() + left)


def _differs(view: JobView, pulse: JobFingerprint, enough: Callable[[JobView], bool]) -> bool:
    """Whether a job changed since it was read, or satisfies `enough` now that time has passed."""
    job = view.job
    known = (job.event_seq, job.result_expired_at is not None, job.events_expired_at is not None)
    seen = (pulse.event_seq, pulse.result_expired, pulse.events_expired)
    return known != seen or enough(JobView(job, pulse.lease_expires_at))


@contextmanager
def watching(followers: Followers, caller: Caller, job_ids: Sequence[str], *, org: bool) -> Iterator[Watcher]:
    """Watch jobs, and the org, until the block ends. Every topic is set at first, so that its state is sent once."""
    watcher = Watcher()
    with ExitStack() as stay:
        for job_id in job_ids:
            topic = Topic(job_id, watcher.event)
            watcher.add(topic, stay.enter_context(followers.following(caller, job_id, topic.is_news, topic)))
        if org:
            topic = Topic(None, watcher.event)
            watcher.add(topic, stay.enter_context(followers.following_org(caller, topic.is_other, topic)))
        yield watcher


async def now_of(topic: Topic, followers: Followers, reads: Reads, caller: Caller) -> int | str | None:
    """Return the current state of a topic; None for a job that the caller cannot see."""
    if topic.job_id is None:
        return await followers.mark(caller)
    view = await reads.of(caller).job(topic.job_id)
    return None if view is None else view.job.event_seq
