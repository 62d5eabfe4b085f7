"""From an address to a snapshot of the caller's org."""

import re

import msgspec

from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.views import ResultView
from langlauf.problems import Problem, bad_request, not_found
from langlauf.service.read import CallerReads
from langlauf.ui.visit import Visit

#: A page has a payload as text, as bytes, and in the parts that it shows.
_COPIES = 3
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


async def snapshot_of(reads: CallerReads, visit: Visit, *, latest: bool, payload: bool = True) -> ResultView:
    """The snapshot whose id is in the address, or the newest of its job."""
    found = await reads.result(visit.request.path_params["result_id"], latest=latest, payload=False)
    if found is None:
        raise not_found()
    return await whole(reads, visit, found) if payload else found


async def whole(reads: CallerReads, visit: Visit, found: ResultView) -> ResultView:
    """The same with its payload, for which there must be room while the page is made."""
    name = found.delivered.snapshot.result_id
    source = await reads.source(name)
    if source is not None and source.whole is None:
        visit.hold(_COPIES * source.size)
    read = await reads.result(name, latest=False)
    if read is None:
        raise not_found()
    return msgspec.structs.replace(read, requested=found.requested)


async def version_of(reads: CallerReads, visit: Visit, number: int) -> ResultView:
    """The snapshot of this number, of the same job as the one in the address."""
    asked = await snapshot_of(reads, visit, latest=False, payload=False)
    wanted = numbered(await reads.results(asked.job.job_id), number)
    found = None if wanted is None else await reads.result(wanted.result_id, latest=False, payload=False)
    if found is None:
        raise not_found()
    return await whole(reads, visit, found)


def numbered(snapshots: list[Snapshot], number: int) -> Snapshot | None:
    """The snapshot of a number."""
    return next((one for one in snapshots if one.result_seq == number), None)


def number_in(text: str) -> int:
    """A number in an address; there is nothing at one that is none."""
    if not _NUMBER.fullmatch(text):
        raise not_found()
    return int(text)


def number_asked(visit: Visit, name: str, default: int) -> int:
    """A number among the parameters."""
    text = visit.request.query_params.get(name)
    if text is None or text == "":
        return default
    if not _NUMBER.fullmatch(text):
        raise bad_request(f"{name} must be the number of a snapshot.")
    return int(text)


def is_gone(stored: StoredResult) -> bool:
    """Whether retention took it."""
    return stored.snapshot.removed_at is not None or stored.payload is None


def still_there(stored: StoredResult) -> StoredResult:
    """The same, or the problem that says that retention took it."""
    if is_gone(stored):
        raise taken()
    return stored


def taken() -> Problem:
    """What is said of a result that retention took."""
    return Problem(410, "expired", "Retention removed this result.")
