"""Removes blobs that no row names any more: those that retention took, and those of writes that were never made.

A job that has ended has no writers: what none of its rows names will never be named. A blob that still waits for its
row belongs to a job that has not ended, and those are left alone. So the rule itself needs no ages. They are for what
it cannot see, such as a copy of the store that knows less than the original: young blobs are left alone too.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from langlauf.domain.result import ReferencedPayloads
from langlauf.store.blobs.names import Place, read_ref
from langlauf.store.blobs.payloads import Payloads

#: What jobs, by org and id, still name: read as it is now.
Kept = Callable[[Sequence[tuple[str, str]]], Awaitable[Mapping[tuple[str, str], ReferencedPayloads]]]


async def collect(kept_payloads: Kept, payloads: Payloads, *, min_age: float = 0.0) -> int:
    """Walks over all blobs, a page at a time, and tells how many went. Safe to cut, and to run beside another."""
    removed = 0
    async for page in payloads.pages(min_age=min_age):
        # Asked after the page was read: a job that has ended by now wrote all it ever will.
        kept = await kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        garbage = [place for place in page if is_garbage(place, kept.get((place.org_id, place.job_id)))]
        await payloads.remove(garbage)
        removed += len(garbage)
    return removed


def is_garbage(place: Place, job: ReferencedPayloads | None) -> bool:
    """Whether no row names a blob, and none ever will."""
    if job is None:
        return True
    refs = (read_ref(text) for text in job.refs)
    return job.ended and place.name not in {ref.digest for ref in refs if ref is not None}
