"""What a job was asked, fit to be shown: without secrets, at a glance, and as a command that asks it again."""

import msgspec

from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.masking import masked
from langlauf.ui.command import submission
from langlauf.ui.formatting import Excerpt, excerpt
from langlauf.ui.showing.subject import subject_of
from langlauf.ui.visit import Visit

#: A longer input makes no command that anybody would paste.
_LONGEST_COMMAND = 4_096


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a job. `command` is None where it would be too long."""

    subject: str
    body: Excerpt
    command: str | None


def asked_of(context: Context, visit: Visit, caller: Caller, job: JobRecord, payload: str) -> Asked:
    """The input as its reader may see it."""
    text = msgspec.json.encode(masked(msgspec.json.decode(payload))).decode()
    body = f'{{"analysis":{msgspec.json.encode(job.analysis).decode()},"input":{text}}}'
    return Asked(
        subject=subject_of(payload, context.services.registry.get(job.analysis)),
        body=excerpt(text),
        command=submission(context, visit, caller, body) if len(text) <= _LONGEST_COMMAND else None,
    )
