"""Watching several jobs at once, and all that goes on in an org: what the pages of one browser need."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from langlauf.auth.caller import Caller
from langlauf.domain.read_models import JobFingerprint
from langlauf.service.follow import Followers, JobFollower, OrgFollower, Signal
from langlauf.service.read import Reads


class Topic(Signal):
    """One thing that is watched. It is set when it is worth looking, and then so is the event of its watcher."""

    def __init__(self, job_id: str | None, watcher: Signal) -> None:
        super().__init__()
        self._watcher = watcher
        #: None for all jobs of the org
        self.job_id = job_id
        #: what was told of it last: the number of a job's newest event, or the mark of the org
        self.told: int | str | None = None
        #: when it may be told again
        self.next_at = 0.0
        self.set()

    def set(self) -> None:
        """It is worth looking."""
        super().set()
        self._watcher.set()

    def is_news(self, pulse: JobFingerprint | None) -> bool:
        """Whether a job is not as it was told; one that is gone, or another org's, never is."""
        return pulse is not None and pulse.event_seq != self.told

    def is_other(self, mark: str) -> bool:
        """Whether an org is not as it was told."""
        return mark != self.told


class Watcher:
    """One client that watches several topics, with one event for all of them."""

    def __init__(self) -> None:
        self.event = Signal()
        self.topics: list[Topic] = []
        self.left = False
        self._members: list[JobFollower | OrgFollower] = []

    @property
    def turned_away(self) -> bool:
        """Whether the caller may no longer see it."""
        return any(member.turned_away for member in self._members)

    def leave(self) -> None:
        """The client went away."""
        self.left = True
        self.event.set()

    def add(self, topic: Topic, member: JobFollower | OrgFollower) -> None:
        """One thing more."""
        self.topics.append(topic)
        self._members.append(member)


@contextmanager
def watching(followers: Followers, caller: Caller, job_ids: Sequence[str], *, org: bool) -> Iterator[Watcher]:
    """Watches for as long as the block lasts. Every topic is set at first: what is so now is news."""
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
    """What there is to tell of a topic; nothing of a job that the caller cannot see."""
    if topic.job_id is None:
        return await followers.mark(caller)
    view = await reads.of(caller).job(topic.job_id)
    return None if view is None else view.job.event_seq
