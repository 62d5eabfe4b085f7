"""What a job is about, in a few words: people know their jobs by what they asked, not by an id."""

from collections.abc import Iterable

import msgspec

from langlauf.analysis.registry import Analysis
from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.redact import redacted
from langlauf.ui.showing.table import cut
from langlauf.ui.showing.written import NULL, is_hidden, is_text, members, text_of, written

_LONGEST = 80
#: In bytes. An input that is larger is not read for a few words.
_LARGEST_INPUT = 16_384


def subject_of(asked: str | None, analysis: Analysis | None) -> str:
    """The first short text that an analysis cannot do without; empty where there is none."""
    if asked is None or analysis is None:
        return ""
    given = members(written(asked))
    for field in msgspec.structs.fields(analysis.input_type):
        value = given.get(field.encode_name, NULL)
        text = text_of(value).strip() if field.required and is_text(value) else ""
        if text and "\n" not in text and not is_hidden(field.encode_name, value) and redacted(text) == text:
            return cut(text, _LONGEST)
    return ""


async def subjects_of(context: Context, caller: Caller, jobs: Iterable[JobRecord]) -> dict[str, str]:
    """The subjects of the jobs of a list by their ids, in one look."""
    analyses = {job.job_id: context.services.registry.get(job.analysis) for job in jobs}
    inputs = await context.services.reads.of(caller).inputs(list(analyses), largest=_LARGEST_INPUT)
    return {job_id: subject_of(asked, analyses[job_id]) for job_id, asked in inputs.items()}
