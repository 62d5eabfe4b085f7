"""Jobs that belong together: the one that a job was run again from, and those that were run again from it."""

from collections.abc import Iterator

import msgspec

from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.service.read import CallerReads, Reads
from langlauf.ui.formatting import display_state

#: The newest runs that a page links to.
_MAX_RERUNS = 3


class RelatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the family as the page of another one shows it."""

    job: JobRecord
    display_state: str
    #: the result to compare with, where both have one
    compared_with: str | None
    #: whether one of the two results is an interim one
    interim: bool

    @property
    def short_id(self) -> str:
        """Both ends of the id: jobs of the same minute have the same beginning."""
        return f"{self.job.job_id[:8]}…{self.job.job_id[-6:]}"


class JobFamily(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a job and its newest runs again."""

    origin: RelatedJob | None
    reruns: list[RelatedJob]

    def __bool__(self) -> bool:
        return self.origin is not None or bool(self.reruns)

    def __iter__(self) -> Iterator[RelatedJob]:
        yield from ([] if self.origin is None else [self.origin])
        yield from self.reruns


async def job_family(reads: Reads, records: CallerReads, job: JobRecord) -> JobFamily:
    """Return the jobs around one; those that retention removed are left out."""
    parent_id = job.retry_of or job.based_on
    origin = None if parent_id is None else await records.job(parent_id)
    reruns = await records.reruns(job.job_id, most=_MAX_RERUNS)

    def related(view: JobView) -> RelatedJob:
        both = _has_result(job) and _has_result(view.job)
        shown = display_state(view.job.status, reads.phase(view))
        final = job.status is view.job.status is Status.COMPLETED
        compared_with = view.job.result_id if both else None
        return RelatedJob(job=view.job, display_state=shown, compared_with=compared_with, interim=not final)

    return JobFamily(
        origin=None if origin is None else related(origin), reruns=[related(view) for view in reversed(reruns)]
    )


def _has_result(job: JobRecord) -> bool:
    return job.result_id is not None and job.result_expired_at is None
