"""Analyses as cards with forms, and the submission of such a form, validated as the API validates a request."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from langlauf.analysis.registry import Analysis, Registry
from langlauf.analysis.schema import FlawCode, InvalidInput
from langlauf.api.context import ApiContext
from langlauf.api.openapi.components import required_example
from langlauf.api.submit_request import read_submit_request
from langlauf.auth.caller import Caller
from langlauf.clock import new_word
from langlauf.domain.access import KEY_ALPHABET
from langlauf.domain.errors import Overloaded, StoreUnavailable
from langlauf.domain.job import Accepted, Duplicate, JobRecord, QueueFull, Replayed
from langlauf.domain.schedule import time_zone
from langlauf.problems import Problem
from langlauf.service.submit import SubmitService
from langlauf.settings import Settings
from langlauf.ui.form_fields import CHECKED, FEWEST_ROWS, FieldChoice, FieldKind, FormField, form_fields
from langlauf.ui.form_validation import (
    FormFieldError,
    FormValues,
    input_error,
    read_form_values,
)
from langlauf.ui.job_input import curl_command
from langlauf.ui.language import AnalysisWords
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.reference import SchemaField, schema_fields

_REF = "#/components/schemas/{name}"
_MAX_EXAMPLE_LABEL = 40


class AnalysisCard(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis as the start page shows it."""

    analysis: Analysis
    is_default: bool
    #: the first paragraph of its docstring, and the others
    headline: str
    paragraphs: list[str]
    fields: list[SchemaField]
    form_fields: list[FormField]
    #: an example of a request body
    example: dict[str, Any]
    #: the language of its texts
    language: str = "en"

    @property
    def name(self) -> str:
        """The name of the analysis."""
        return self.analysis.name

    @property
    def example_text(self) -> str | None:
        """The example that one click starts; empty where it is not one short text, None where there is none."""
        required = [field for field in self.form_fields if field.required and not field.nullable]
        if not required or any(not field.examples for field in required):
            return None
        text = required[0].examples[0]
        return text if len(required) == 1 and len(text) <= _MAX_EXAMPLE_LABEL and "\n" not in text else ""

    def with_examples(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return a submitted form whose empty required fields have their examples."""
        empty = [one for one in self.form_fields if one.required and not fields.get(one.html_name, "").strip()]
        return {**fields, **{one.html_name: one.examples[0] for one in empty if one.examples}}


def analysis_cards(registry: Registry) -> list[AnalysisCard]:
    """Return all analyses, the default first."""
    cards = [analysis_card(analysis, is_default=analysis.name == registry.default) for analysis in registry]
    return sorted(cards, key=lambda card: not card.is_default)


def analysis_card(analysis: Analysis, *, is_default: bool) -> AnalysisCard:
    """Return the card of an analysis."""
    [_], components = msgspec.json.schema_components([analysis.input_type], ref_template=_REF)
    schema = components[analysis.input_type.__name__]
    headline, *paragraphs = (" ".join(part.split()) for part in analysis.description.split("\n\n"))
    example = required_example(schema, components)
    return AnalysisCard(
        analysis=analysis,
        is_default=is_default,
        headline=headline,
        paragraphs=paragraphs,
        fields=schema_fields(schema),
        form_fields=form_fields(schema, components),
        example=example if is_default else {"analysis": analysis.name, **example},
    )


def readable_card(card: AnalysisCard, words: AnalysisWords) -> AnalysisCard:
    """Return a card with the texts of the analysis in the language of the reader, as far as its author gave them."""
    headline = words.text(card.headline)
    return replace(
        card,
        headline=headline,
        paragraphs=[words.text(paragraph) for paragraph in card.paragraphs],
        form_fields=[_readable_field(field, words) for field in card.form_fields],
        language=words.language.code if headline != card.headline else card.language,
    )


def _readable_field(field: FormField, words: AnalysisWords) -> FormField:
    return replace(
        field,
        title=words.text(field.label),
        description=words.text(field.description),
        choices=tuple(FieldChoice(one.value, words.text(one.label)) for one in field.choices),
    )


def example_command(context: ApiContext, request: PageRequest, caller: Caller, card: AnalysisCard) -> str:
    """Return a curl command that starts the analysis."""
    return curl_command(context, request, caller, msgspec.json.encode(card.example).decode())


#: Options of a job beyond its input, as fields of the same form.
TIMEOUT = FormField(name="timeout_seconds", prefix="option", kind=FieldKind.TEXT, examples=("90", "30m"))
PRIORITY = FormField(
    name="priority_class",
    prefix="option",
    kind=FieldKind.CHOICE,
    initial='"default"',
    choices=(FieldChoice('"default"', ""), FieldChoice('"expedite"', "")),
)
RETRIES = FormField(
    name="max_retries", prefix="option", kind=FieldKind.WHOLE, limits={"min": "0", "max": "100", "step": "1"}
)
DUPLICATE = FormField(name="allow_duplicate", prefix="option", kind=FieldKind.FLAG)
DELAY = FormField(name="delay_seconds", prefix="option", kind=FieldKind.TEXT, examples=("10m", "2h"))
RUN_AT = FormField(name="run_at", prefix="option", kind=FieldKind.MOMENT)
START_BY = FormField(name="start_by", prefix="option", kind=FieldKind.MOMENT)
OPTION_FIELDS = (DELAY, RUN_AT, START_BY, TIMEOUT, PRIORITY, RETRIES, DUPLICATE)
#: Where to send a notification of the end.
EMAIL = FormField(name="email", prefix="option", kind=FieldKind.TEXT, examples=("name@example.org",))
WEBHOOK = FormField(name="webhook", prefix="option", kind=FieldKind.TEXT, examples=("https://example.org/hooks",))
NOTIFY_FIELDS = (EMAIL, WEBHOOK)
#: The hidden field with the earlier job that the form was filled from, and the one with the zone of the reader.
BASED_ON, ZONE = "based_on", "zone"
_FORM_KEY = re.compile(r"[0-9A-Za-z]{24}", re.ASCII)


class SubmitOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a submitted form: a job, or why there is none."""

    job: JobRecord | None = None
    #: the unfinished job that this one would duplicate
    duplicate: JobRecord | None = None
    #: errors by HTML name; the empty name for those of no field
    errors: dict[str, FormFieldError] = {}
    #: the error code of a refusal that is not an error of the form
    refused: str = ""
    status: int = 200
    headers: dict[str, str] = {}


def new_form_key() -> str:
    """Return a new key, which makes each rendered form a submission of its own."""
    return new_word(KEY_ALPHABET, 24)


def form_key(fields: Mapping[str, str]) -> str:
    """Return the key of the submitted form, or a new one where it has none."""
    given = fields.get("key", "")
    return given if _FORM_KEY.fullmatch(given) else new_form_key()


def notify_fields(settings: Settings) -> tuple[FormField, ...]:
    """Return the channels that work here: e-mail needs a mail server, a webhook a secret."""
    ways = ((EMAIL, settings.smtp is not None), (WEBHOOK, bool(settings.webhook_secret)))
    return tuple(entry for entry, works in ways if works)


def read_form_input(card: AnalysisCard, fields: Mapping[str, str], max_depth: int) -> FormValues:
    """Return the input in the form."""
    return read_form_values(card.form_fields, card.analysis.input_type, fields, max_depth)


def request_body(card: AnalysisCard, values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the form as the body of an API request."""
    given = {option.name: fields.get(option.html_name, "").strip() for option in OPTION_FIELDS}
    timeout, retries = given["timeout_seconds"], given["max_retries"]
    mode: dict[str, Any] = {
        "priority_class": given["priority_class"].strip('"') or "default",
        "allow_duplicate": given["allow_duplicate"] == CHECKED,
    }
    if retries:
        mode["max_retries"] = int(retries) if re.fullmatch(r"-?[0-9]{1,9}", retries) else retries
    if given["delay_seconds"]:
        mode["delay_seconds"] = given["delay_seconds"]
    for moment in (RUN_AT, START_BY):
        if given[moment.name]:
            mode[moment.name] = _zoned_time(given[moment.name], fields.get(ZONE, ""))
    if notify := given_targets(fields):
        mode["notify"] = notify
    if fields.get(BASED_ON):
        mode["based_on"] = fields[BASED_ON]
    body = {"analysis": card.name, "input": dict(values), "options": {"async_mode": mode}}
    return {**body, "timeout_seconds": timeout} if timeout else body


def given_targets(fields: Mapping[str, str]) -> dict[str, str]:
    """Return where the form wants notifications to be sent."""
    return {entry.name: text for entry in NOTIFY_FIELDS if (text := fields.get(entry.html_name, "").strip())}


def _zoned_time(text: str, zone: str) -> str:
    """Return a local time with its offset: in the reader's zone, which a script names, or in that of the server."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=time_zone(zone)) if zone else moment.astimezone()
    except (ValueError, OverflowError):
        return text  # refused like any other text that is no time with a zone
    return moment.isoformat()


def more_rows(card: AnalysisCard, texts: Mapping[str, str], html_name: str) -> dict[str, str]:
    """Return the texts of empty rows below those that a list of records has."""
    found = next((one for one in card.form_fields if one.html_name == html_name and one.columns), None)
    if found is None:
        return {}
    last = max(found.row_count(texts), FEWEST_ROWS) + FEWEST_ROWS - 1
    return {cell.html_name: "" for cell in found.row(last)}


def idempotency_key(key: str, body: Mapping[str, Any]) -> str:
    """Return the idempotency key: the same form sent twice is one job, with other values another."""
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return f"form-{key}-{digest[:32]}"


async def submit_job(
    submissions: SubmitService, caller: Caller, body: dict[str, Any], key: str, language: str
) -> SubmitOutcome:
    """Submit the job; what the API would refuse is refused for the same reason. E-mails use the page's language."""
    try:
        order, _ = read_submit_request(body, idempotency_key(key, body))
        if order.notify is not None:
            order = replace(order, notify=replace(order.notify, language=language))
        submitted = await submissions.submit(caller, order)
    except InvalidInput as error:
        return _invalid_outcome(error.field, input_error(error))
    except Problem as problem:
        field = problem.members.get("field", "")
        name = "duration" if field.rpartition(".")[2] in (TIMEOUT.name, DELAY.name) else FlawCode.OTHER
        return _invalid_outcome(field, FormFieldError(name, {"limit": problem.message}))
    except (Overloaded, StoreUnavailable):
        return SubmitOutcome(refused="unavailable", status=503, headers={"Retry-After": "5"})
    return submit_outcome(submitted)


def submit_outcome(submitted: object) -> SubmitOutcome:
    """Return the outcome of a submission."""
    if isinstance(submitted, Accepted | Replayed):
        return SubmitOutcome(job=submitted.job)
    if isinstance(submitted, Duplicate):
        return SubmitOutcome(duplicate=submitted.job, status=409)
    if isinstance(submitted, QueueFull):
        status = 503 if submitted.scope == "all" else 429
        return SubmitOutcome(refused="queue_full", status=status, headers={"Retry-After": str(submitted.retry_after)})
    return SubmitOutcome(refused="idempotency_mismatch", status=422)


def _invalid_outcome(field: str, error: FormFieldError) -> SubmitOutcome:
    """Return an error beside the field that the API names, or at the top of the form."""
    first, last = re.split(r"[.\[]", field)[0], field.rpartition(".")[2]
    options = [
        one.html_name
        for one in (*OPTION_FIELDS, *NOTIFY_FIELDS)
        if one.name == last and first in ("options", TIMEOUT.name)
    ]
    return SubmitOutcome(errors={(options or [f"in.{first}" if first else ""])[0]: error}, status=400)
