"""E-mails about the end of a job, in one language, as plain text and as HTML."""

import unicodedata
from collections.abc import Mapping
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from langlauf.analysis.registry import Registry
from langlauf.domain.delivery import Delivery, subject_of
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.mail import Email, JobEnding
from langlauf.domain.redact import redact
from langlauf.settings import Settings
from langlauf.ui.formats import ShownFact, format_duration, local_time, summary_facts, zone_name
from langlauf.ui.language import (
    LANGUAGES,
    AnalysisTexts,
    AnalysisWords,
    Language,
    job_error,
    load_language,
    retry_advice,
)

_MAX_SUBJECT = 150
#: Characters of an id that identify a job in one line.
_SHORT_ID = 8


class EmailWriter:
    """Writes e-mails about the end of a job."""

    def __init__(self, settings: Settings, registry: Registry | None = None) -> None:
        self._analyses = AnalysisTexts(registry or Registry())
        self._base = (settings.public_url or "").rstrip("/")
        self._default = settings.mail_language
        self._desk = EmailTemplates()

    def about(self, delivery: Delivery, ending: JobEnding, unsubscribe: str | None = None) -> Email:
        """Return the e-mail for a notification; parts of the job that retention removed are left out.

        `unsubscribe` is the address of the unsubscribe page, where there is one.
        """
        asked = msgspec.json.decode(delivery.payload_json, type=dict[str, Any]).get("language")
        language = self._desk.language(asked if isinstance(asked, str) else self._default, self._default)
        status = subject_of(delivery.template_key)
        if ending.job is None:
            values = self._forgotten(delivery, status, language)
        else:
            values = self._ending(ending.job, ending.summary_json, status, language)
        return self._desk.write("ending", {**values, "unsubscribe": unsubscribe}, language)

    def _ending(self, job: JobRecord, summary: str | None, status: str, language: Language) -> dict[str, Any]:
        words = self._analyses.words(job.analysis, language)
        glance = mailed_facts(summary if status == "completed" else None, words)
        has_result = status == "completed" and job.result_id is not None and job.result_expired_at is None
        notes = [language.plain("mail.summary_more")] if glance.more else []
        if status == "completed" and job.result_expired_at is not None:
            notes.append(language.plain("mail.result_expired"))
        place = f"/results/{job.result_id}" if has_result else f"/jobs/{job.job_id}"
        return {
            **_heading(self._name(job, language), job.org_id, status, language),
            "facts": job_facts(job, self._analyses.title(job.analysis, language), language),
            "error": failure_facts(job, words) if status == "failed" else None,
            "rows": glance.rows,
            "notes": notes if self._base else [*notes, language.plain("mail.no_link")],
            "link": f"{self._base}{place}" if self._base else None,
            "link_text": language.plain("mail.to_result") if has_result else language.plain("mail.to_job"),
        }

    def _name(self, job: JobRecord, language: Language) -> str:
        title = one_line(self._analyses.title(job.analysis, language), MAX_NAME)
        return title if job.label is None else f"{title}, {one_line(job.label, MAX_NAME)}"

    def _forgotten(self, delivery: Delivery, status: str, language: Language) -> dict[str, Any]:
        """Return the values of an e-mail about a job whose record was removed."""
        name = language.plain("mail.unnamed", job=delivery.job_id[:_SHORT_ID])
        return {
            **_heading(name, delivery.org_id, status, language),
            "facts": [
                (language.plain("mail.org"), delivery.org_id),
                (language.plain("mail.job"), delivery.job_id),
            ],
            "error": None,
            "rows": [],
            "notes": [language.plain("mail.gone")],
            "link": None,
            "link_text": "",
        }


def _heading(name: str, org_id: str, status: str, language: Language) -> dict[str, Any]:
    subject = language.plain(f"mail.{status}.subject", analysis=name, org=org_id)
    return {
        "subject": subject,
        "title": language.plain(f"mail.{status}.title", analysis=name),
        "status": status,
        "why": language.plain("mail.why"),
    }


class EmailTemplates:
    """Texts and templates of e-mails."""

    def __init__(self) -> None:
        self._languages = {code: load_language(code) for code in LANGUAGES}
        self._templates = Environment(
            loader=PackageLoader("langlauf.ui"),
            autoescape=lambda name: name is None or not name.endswith(".txt"),  # noqa: S701 - plain text has no markup
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )

    def language(self, code: str, default: str) -> Language:
        """Return the texts of a language, or of the default where there is no translation."""
        return self._languages.get(code.lower().partition("-")[0]) or self._languages[default]

    def write(self, template: str, values: Mapping[str, Any], language: Language) -> Email:
        """Render an e-mail as plain text and HTML, with its subject on one line."""
        words = {**values, "t": language.plain, "language": language.code}
        return Email(
            subject=one_line(values["subject"], _MAX_SUBJECT),
            text=self._templates.get_template(f"emails/{template}.txt").render(words),
            html=self._templates.get_template(f"emails/{template}.html").render(words),
            language=language.code,
        )


def sample_email(code: str) -> Email:
    """Return the e-mail that `langlauf mail-test` sends."""
    desk = EmailTemplates()
    language = desk.language(code, code)
    values = {name: language.plain(f"mail.test.{name}") for name in ("subject", "title", "text", "why")}
    return desk.write("test", {**values, "unsubscribe": None}, language)


MAX_NAME = 80
_MAX_VALUE = 200
_MAX_LINE = 400
_MAX_ERROR_LINES = 6
_MAX_ROWS = 10
#: In characters of JSON. A larger summary is left to the page.
_MAX_SUMMARY = 4_096
_MIN_SHOWN_WAIT = 60.0
_ADVICE = frozenset({"retry_with_backoff", "check_input_and_retry", "internal", "probably_input"})


class FailureFacts(msgspec.Struct, frozen=True):
    """Why a job failed, and what to do."""

    code: str
    lines: list[str]
    hint: str
    kept: bool


class SummaryFacts(msgspec.Struct, frozen=True):
    """The first facts of a summary; `more` where some were left out."""

    rows: list[ShownFact]
    more: bool


def failure_facts(job: JobRecord, words: AnalysisWords) -> FailureFacts:
    """Return the error of a job, cleaned, with a retry hint."""
    advice = retry_advice(job)
    hint = advice if advice in _ADVICE else "none"
    lines = first_lines(job_error(job, words), _MAX_LINE, _MAX_ERROR_LINES)
    kept = job.partial_count > 0 and job.result_expired_at is None
    return FailureFacts(one_line(job.error_code or "", MAX_NAME), lines, hint, kept)


def mailed_facts(summary_json: str | None, words: AnalysisWords) -> SummaryFacts:
    """Return the first facts of a summary, with secrets masked."""
    if summary_json is None:
        return SummaryFacts([], more=False)
    if len(summary_json) > _MAX_SUMMARY:
        return SummaryFacts([], more=True)
    rows = summary_facts(summary_json, words)
    return SummaryFacts([_clean_fact(row, words.language) for row in rows[:_MAX_ROWS]], more=len(rows) > _MAX_ROWS)


def _clean_fact(fact: ShownFact, language: Language) -> ShownFact:
    name = one_line(fact.name, MAX_NAME) or language.plain("mail.summary_value")
    value = f"{fact.value} {fact.unit}" if fact.unit else fact.value
    return ShownFact(name=name, value=one_line(value, _MAX_VALUE))


def job_facts(job: JobRecord, title: str, language: Language) -> list[tuple[str, str]]:
    """Return analysis, label, org, end, duration and id of a job as labelled lines."""
    lines = [
        (language.plain("mail.analysis"), one_line(title, MAX_NAME)),
        *([(language.plain("mail.label"), one_line(job.label, _MAX_VALUE))] if job.label is not None else []),
        (language.plain("mail.org"), job.org_id),
    ]
    if job.finished_at is not None:
        lines.append((language.plain("mail.finished"), _format_time(job.finished_at, language)))
        lines.append((language.plain("mail.took"), _run_time(job, job.finished_at, language)))
    return [*lines, (language.plain("mail.job"), job.job_id)]


def _format_time(instant: Instant, language: Language) -> str:
    """Return a time in the zone of the server, which is named."""
    moment = local_time(instant)
    return f"{moment:{language.plain('mail.time_format')}} {zone_name(moment)}"


def _run_time(job: JobRecord, finished_at: Instant, language: Language) -> str:
    """Return how long the job ran, and how long it waited where that was long."""
    started_at = job.started_at or finished_at
    ran = format_duration(seconds_between(started_at, finished_at), language)
    waited = seconds_between(job.queued_at, started_at)
    if waited < _MIN_SHOWN_WAIT:
        return ran
    return language.plain("mail.took_waiting", took=ran, waited=format_duration(waited, language))


#: Unicode categories that are invisible or change the direction of text: controls, formats, surrogates, private use,
#: unassigned, and other line ends.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def one_line(text: str, longest: int) -> str:
    """Return a text on one line, without secrets and invisible characters, shortened to a maximum length."""
    text = redact(text)[: 4 * longest]  # before lines are joined: a key of several lines is recognised by its lines
    seen = "".join(" " if unicodedata.category(char) in _INVISIBLE else char for char in text)
    line = redact(" ".join(seen.split()))
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def first_lines(text: str, longest: int, most: int) -> list[str]:
    """Return the first non-empty lines of a text, each cleaned."""
    lines = [one_line(line, longest) for line in redact(text).splitlines()[: 4 * most]]
    return [line for line in lines if line][:most]
