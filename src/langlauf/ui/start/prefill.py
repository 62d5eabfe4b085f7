"""A form filled from an earlier job, for whoever wants it again, or nearly so."""

import msgspec

from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.masking import masked
from langlauf.domain.state import Status
from langlauf.service.read import Reads
from langlauf.ui.forms.entry import Entry
from langlauf.ui.forms.writing import text_of


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier job and its input."""

    job: JobRecord
    input: dict[str, object]

    @property
    def resumable(self) -> bool:
        """Whether it stopped half-way: then a new job can go on from its finished parts."""
        return self.job.status in (Status.FAILED, Status.CANCELED)


async def earlier_of(reads: Reads, caller: Caller, job_id: str) -> Earlier | None:
    """A job that the caller can see, with its input; None for any other."""
    records = reads.of(caller)
    view = await records.job(job_id)
    payload = None if view is None else await records.payload(job_id)
    if view is None or payload is None:
        return None
    return Earlier(job=view.job, input=msgspec.json.decode(payload, type=dict[str, object]))


def prefilled(entries: list[Entry], earlier: Earlier) -> tuple[dict[str, str], list[str]]:
    """The text of every entry, and those left empty because something in them looks like a secret."""
    texts, hidden = {}, []
    for entry in entries:
        value = earlier.input.get(entry.name)
        if masked({entry.name: value}) != {entry.name: value}:
            hidden.append(entry.field)
            value = None
        texts[entry.field] = "" if value is None else text_of(entry.kind, value)
    return texts, hidden
