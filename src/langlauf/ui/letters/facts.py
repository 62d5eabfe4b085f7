"""What a letter says about a job, out of its record: every text of others cleaned and cut to a few words."""

import msgspec

from langlauf.domain.instant import Instant, seconds_between, to_datetime
from langlauf.domain.job import JobRecord
from langlauf.ui.formatting import Row, summary_rows, took
from langlauf.ui.language import Language
from langlauf.ui.letters.cleaning import few_lines, one_line

LONGEST_NAME = 80
_LONGEST_VALUE = 200
_LONGEST_LINE = 400
_MOST_LINES = 6
_MOST_ROWS = 10
#: In characters of JSON. A summary that is larger is for the page.
_LARGEST_SUMMARY = 4_096
_TELLING_WAIT = 60.0
_HINTS = frozenset({"retry_with_backoff", "check_input_and_retry"})


class Trouble(msgspec.Struct, frozen=True):
    """Why a job failed, and what may help."""

    code: str
    lines: list[str]
    hint: str
    kept: bool


class Glance(msgspec.Struct, frozen=True):
    """A summary, where it is small; `more` where not all of it is here."""

    rows: list[Row]
    more: bool


def trouble_of(job: JobRecord) -> Trouble:
    """What went wrong, in the words of the analysis, and what to do in ours."""
    hint = job.retry_hint if job.retry_hint in _HINTS else "none"
    lines = few_lines(job.error_message or "", _LONGEST_LINE, _MOST_LINES)
    kept = job.partial_count > 0 and job.result_expired_at is None
    return Trouble(one_line(job.error_code or "", LONGEST_NAME), lines, hint, kept)


def glance_of(summary_json: str | None, language: Language) -> Glance:
    """A summary as a few lines, masked as pages mask it."""
    if summary_json is None:
        return Glance([], more=False)
    if len(summary_json) > _LARGEST_SUMMARY:
        return Glance([], more=True)
    rows = summary_rows(summary_json)
    return Glance([_clean(row, language) for row in rows[:_MOST_ROWS]], more=len(rows) > _MOST_ROWS)


def _clean(row: Row, language: Language) -> Row:
    name = one_line(row.name, LONGEST_NAME) or language.plain("mail.summary_value")
    return Row(name, one_line(row.value, _LONGEST_VALUE))


def lines_of(job: JobRecord, language: Language) -> list[tuple[str, str]]:
    """What ran, for whom, when and how long."""
    lines = [
        (language.plain("mail.analysis"), one_line(job.analysis, LONGEST_NAME)),
        (language.plain("mail.org"), job.org_id),
    ]
    if job.finished_at is not None:
        lines.append((language.plain("mail.finished"), _moment(job.finished_at)))
        lines.append((language.plain("mail.took"), _took(job, job.finished_at, language)))
    return [*lines, (language.plain("mail.job"), job.job_id)]


def _moment(instant: Instant) -> str:
    return f"{to_datetime(instant):%Y-%m-%d %H:%M} UTC"


def _took(job: JobRecord, finished_at: Instant, language: Language) -> str:
    """How long it ran, and how long it had waited where that is worth a word."""
    started_at = job.started_at or finished_at
    ran = took(seconds_between(started_at, finished_at))
    waited = seconds_between(job.queued_at, started_at)
    if waited < _TELLING_WAIT:
        return ran
    return language.plain("mail.took_waiting", took=ran, waited=took(waited))
