"""Writes letters: the words of one language, put into both forms of a mail."""

from collections.abc import Mapping
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from langlauf.domain.delivery import Delivery, subject_of
from langlauf.domain.job import JobRecord
from langlauf.domain.mail import Ending, Letter
from langlauf.settings import Settings
from langlauf.ui.language import LANGUAGES, Language, load_language
from langlauf.ui.letters.cleaning import one_line
from langlauf.ui.letters.facts import LONGEST_NAME, glance_of, lines_of, trouble_of

_LONGEST_SUBJECT = 150
#: Of an id, as much as tells one job from another in a line.
_START_OF_ID = 8


class Letters:
    """Writes about the ends of jobs."""

    def __init__(self, settings: Settings) -> None:
        self._base = (settings.public_url or "").rstrip("/")
        self._default = settings.mail_language
        self._desk = Desk()

    def about(self, delivery: Delivery, ending: Ending, unsubscribe: str | None = None) -> Letter:
        """The letter of a message. What has been removed meanwhile is missing in it, and nothing else.

        `unsubscribe` is the page that ends such letters, where there is one.
        """
        asked = msgspec.json.decode(delivery.payload_json, type=dict[str, Any]).get("language")
        language = self._desk.language(asked if isinstance(asked, str) else self._default, self._default)
        told = subject_of(delivery.template_key)
        if ending.job is None:
            values = self._forgotten(delivery, told, language)
        else:
            values = self._ending(ending.job, ending.summary_json, told, language)
        return self._desk.write("ending", {**values, "unsubscribe": unsubscribe}, language)

    def _ending(self, job: JobRecord, summary: str | None, told: str, language: Language) -> dict[str, Any]:
        glance = glance_of(summary if told == "completed" else None, language)
        has_result = told == "completed" and job.result_id is not None and job.result_expired_at is None
        notes = [language.plain("mail.summary_more")] if glance.more else []
        if told == "completed" and job.result_expired_at is not None:
            notes.append(language.plain("mail.result_expired"))
        place = f"/results/{job.result_id}" if has_result else f"/jobs/{job.job_id}"
        return {
            **_named(one_line(job.analysis, LONGEST_NAME), job.org_id, told, language),
            "facts": lines_of(job, language),
            "error": trouble_of(job) if told == "failed" else None,
            "rows": glance.rows,
            "notes": notes if self._base else [*notes, language.plain("mail.no_link")],
            "link": f"{self._base}{place}" if self._base else None,
            "link_text": language.plain("mail.to_result") if has_result else language.plain("mail.to_job"),
        }

    def _forgotten(self, delivery: Delivery, told: str, language: Language) -> dict[str, Any]:
        """About a job of which nothing is left but this message."""
        name = language.plain("mail.unnamed", job=delivery.job_id[:_START_OF_ID])
        return {
            **_named(name, delivery.org_id, told, language),
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


def _named(name: str, org_id: str, told: str, language: Language) -> dict[str, Any]:
    subject = language.plain(f"mail.{told}.subject", analysis=name, org=org_id)
    return {
        "subject": subject,
        "title": language.plain(f"mail.{told}.title", analysis=name),
        "told": told,
        "why": language.plain("mail.why"),
    }


class Desk:
    """Words and templates."""

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
        """The words of a language, or of the usual one where we do not have it."""
        return self._languages.get(code.lower().partition("-")[0]) or self._languages[default]

    def write(self, template: str, values: Mapping[str, Any], language: Language) -> Letter:
        """A letter with its subject on one line and its text in both forms."""
        words = {**values, "t": language.plain, "language": language.code}
        return Letter(
            subject=one_line(values["subject"], _LONGEST_SUBJECT),
            text=self._templates.get_template(f"letters/{template}.txt").render(words),
            html=self._templates.get_template(f"letters/{template}.html").render(words),
            language=language.code,
        )


def trial_letter(code: str) -> Letter:
    """What whoever tries the settings is sent."""
    desk = Desk()
    language = desk.language(code, code)
    values = {name: language.plain(f"mail.test.{name}") for name in ("subject", "title", "text", "why")}
    return desk.write("test", {**values, "unsubscribe": None}, language)
