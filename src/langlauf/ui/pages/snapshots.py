"""What the pages of a job and of a result share: snapshots, the requested and those around it, and related jobs."""

import re
from collections.abc import Iterator, Sequence

import msgspec
from starlette.requests import Request

from langlauf.api.requests import int_parameter
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView, ResultView
from langlauf.domain.result import RetentionPolicy, Snapshot, StoredResult
from langlauf.domain.state import Status
from langlauf.problems import Problem, bad_request, not_found
from langlauf.service.read import CallerReads, Reads
from langlauf.ui.formats import display_state
from langlauf.ui.page_request import PageRequest

#: A page holds a payload as text, as bytes, and in the parts that it shows.
_PAYLOAD_COPIES = 3
_SNAPSHOT_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


async def requested_snapshot(
    reads: CallerReads, request: PageRequest, *, latest: bool, payload: bool = True
) -> ResultView:
    """Return the snapshot whose id is in the path, or the newest of its job; 404 where there is none."""
    found = await reads.result(request.path_params["result_id"], latest=latest, payload=False)
    if found is None:
        raise not_found()
    return await with_payload(reads, request, found) if payload else found


async def with_payload(reads: CallerReads, request: PageRequest, found: ResultView) -> ResultView:
    """Return the result with its payload, after reserving memory for it."""
    name = found.delivered.snapshot.result_id
    source = await reads.source(name)
    if source is not None and source.whole is None:
        request.reserve_memory(_PAYLOAD_COPIES * source.size)
    read = await reads.result(name, latest=False)
    if read is None:
        raise not_found()
    return msgspec.structs.replace(read, requested=found.requested)


async def requested_version(reads: CallerReads, request: PageRequest, number: int) -> ResultView:
    """Return the snapshot with this number, of the same job as the one in the path."""
    asked = await requested_snapshot(reads, request, latest=False, payload=False)
    wanted = snapshot_by_number(await reads.results(asked.job.job_id), number)
    found = None if wanted is None else await reads.result(wanted.result_id, latest=False, payload=False)
    if found is None:
        raise not_found()
    return await with_payload(reads, request, found)


def snapshot_by_number(snapshots: list[Snapshot], number: int) -> Snapshot | None:
    """Return the snapshot with a number, or None."""
    return next((one for one in snapshots if one.result_seq == number), None)


def path_number(text: str) -> int:
    """Return a number from the path; 404 for anything else."""
    if not _SNAPSHOT_NUMBER.fullmatch(text):
        raise not_found()
    return int(text)


def query_number(request: PageRequest, name: str, default: int) -> int:
    """Return a number from the query; 400 for anything else."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not _SNAPSHOT_NUMBER.fullmatch(text):
        raise bad_request(f"{name} must be the number of a version.")
    return int(text)


def is_expired(stored: StoredResult) -> bool:
    """Whether retention removed the payload."""
    return stored.snapshot.removed_at is not None or stored.payload is None


def require_payload(stored: StoredResult) -> StoredResult:
    """Return the result, or raise the 410 problem where retention removed it."""
    if is_expired(stored):
        raise expired_problem()
    return stored


def expired_problem() -> Problem:
    """Return the 410 problem of a removed result."""
    return Problem(410, "expired", "This result was removed by retention.")


_MAX_LISTED_SNAPSHOTS = 100


class SnapshotNeighbours(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots around one, newest first. `hidden` counts those that are not listed."""

    listed: list[Snapshot]
    hidden: int
    before: Snapshot | None
    after: Snapshot | None


def snapshots_made(job: JobRecord) -> int:
    """Return how many snapshots the job has written, removed ones included."""
    return job.partial_count + (job.status is Status.COMPLETED)


def snapshot_neighbours(snapshots: Sequence[Snapshot], current: Snapshot) -> SnapshotNeighbours:
    """Return the snapshots before and after one, and those to list around it."""
    numbers = [snapshot.result_seq for snapshot in snapshots]
    at = numbers.index(current.result_seq) if current.result_seq in numbers else len(numbers) - 1
    first = max(0, min(at - _MAX_LISTED_SNAPSHOTS // 2, len(snapshots) - _MAX_LISTED_SNAPSHOTS))
    listed = list(snapshots[first : first + _MAX_LISTED_SNAPSHOTS])
    return SnapshotNeighbours(
        listed=listed[::-1],
        hidden=len(snapshots) - len(listed),
        before=snapshots[at - 1] if at > 0 else None,
        after=snapshots[at + 1] if 0 <= at < len(snapshots) - 1 else None,
    )


def retained_until(job: JobRecord, snapshot: Snapshot, policy: RetentionPolicy) -> Instant | None:
    """Return when retention may remove a snapshot, or None where that is unknown or never."""
    seconds = policy.final_results if snapshot.result_kind == "final" else policy.partial_results
    return None if job.finished_at is None or seconds is None else after(job.finished_at, seconds)


_MAX_VERSION = 1_000_000_000
#: Versions shown on each side of the chosen one; the first and the newest are always shown.
_VERSIONS_BESIDE = 3


class VersionPicker(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen version and those to choose from. None in `listed` is a gap."""

    chosen: Snapshot
    newest: Snapshot
    pinned: bool
    listed: list[Snapshot | None]
    before: Snapshot | None
    after: Snapshot | None


def version_picker(snapshots: Sequence[Snapshot], request: Request) -> VersionPicker | None:
    """Return the versions to choose from; `?v=5` pins one. Removed ones are left out."""
    pinned = int_parameter(request, "v", default=0, lowest=0, highest=_MAX_VERSION)
    kept = [snapshot for snapshot in snapshots if snapshot.removed_at is None]
    if not kept:
        return None
    at = next((place for place, one in enumerate(kept) if one.result_seq == pinned), None) if pinned else len(kept) - 1
    if at is None:
        raise not_found()
    return VersionPicker(
        chosen=kept[at],
        newest=kept[-1],
        pinned=bool(pinned),
        listed=_with_gaps(kept, at),
        before=kept[at - 1] if at else None,
        after=kept[at + 1] if at + 1 < len(kept) else None,
    )


def _with_gaps(kept: Sequence[Snapshot], at: int) -> list[Snapshot | None]:
    places = {0, len(kept) - 1, *range(max(0, at - _VERSIONS_BESIDE), min(len(kept), at + _VERSIONS_BESIDE + 1))}
    listed: list[Snapshot | None] = []
    previous = -1
    for place in sorted(places):
        if place != previous + 1:
            listed.append(None)
        listed.append(kept[place])
        previous = place
    return listed


# -- related jobs ------------------------------------------------------------------------------------------------------

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
