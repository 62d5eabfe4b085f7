"""Errors and cancellations in the language of a page or an e-mail.

What Langlauf wrote is known by the record: `error_meta` and events name its sentence, and the ends of crashes and the
reasons of cancellations come from the closed lists below. What an analysis or a user wrote stays as it is, unless the
analysis has its own translation.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from langlauf.analysis.texts import Wording, wording_of
from langlauf.domain.errors import ERROR_TYPE, SENTENCE
from langlauf.domain.job import TOO_LATE, JobRecord
from langlauf.ui.analysis_texts import AnalysisWords
from langlauf.ui.language import LANGUAGES, Language, load_language

#: Keys of phrases, each stored in English: how a process died, why the system canceled a job, why it is tried again.
PHRASES = ("crash.", "cancel_reason.", "retry_reason.")
#: What is stored for a phrase where that is not its English text.
_STORED = {"cancel_reason.too_late": TOO_LATE}


def error_meta(job: JobRecord) -> dict[str, Any]:
    """Return the details of a job's error, empty where there are none."""
    return {} if job.error_meta is None else msgspec.json.decode(job.error_meta, type=dict[str, Any])


def retry_advice(job: JobRecord) -> str:
    """Return the last word of the text that says what to do after a failure: the job's hint, or by its code.

    A bare ValueError is no verdict on the input: a function deep inside may have raised it.
    """
    if job.error_code == "validation_error" and ERROR_TYPE in error_meta(job):
        return "probably_input"
    return job.retry_hint or ("internal" if job.error_code == "internal" else "none")


def job_error(job: JobRecord, words: AnalysisWords) -> str:
    """Return the message of a failed job."""
    return error_text(job.error_message or "", error_meta(job).get(SENTENCE), words)


def error_text(message: str, sentence: object, words: AnalysisWords) -> str:
    """Return the message of an error: Langlauf's sentence, or what the analysis wrote."""
    return _own_sentence(sentence, words.language) or words.text(message)


def _own_sentence(sentence: object, language: Language) -> str | None:
    """Return a sentence of Langlauf, or None where this version does not know it, with all of its values."""
    if not isinstance(sentence, Mapping):
        return None
    template = language.texts.get(f"sentence.{sentence.get('name')}")
    try:
        return template and template.format_map({name: _value(one, language) for name, one in sentence.items()})
    except (LookupError, ValueError):
        return None


def _value(value: object, language: Language) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return language.number(str(value)) if isinstance(value, int | float) else phrase(str(value), language)


def phrase(text: str, language: Language) -> str:
    """Return a phrase of Langlauf, such as a reason for a cancellation; any other text stays as it is."""
    return _phrases().translate(text, language.code, language.rewrite_number)


@cache
def _phrases() -> Wording:
    languages = [load_language(code) for code in LANGUAGES]
    stored = {key: text for key, text in languages[0].texts.items() if key.startswith(PHRASES)} | _STORED
    texts = {one.code: {text: one.texts[key] for key, text in stored.items()} for one in languages}
    return wording_of("langlauf", (), {"texts": texts})
