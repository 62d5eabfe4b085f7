"""The form that adds a schedule: its times, and the form of its analysis; validated as the API validates a request."""

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from langlauf.analysis.schema import FlawCode, InvalidInput, read_input
from langlauf.api.request_schemas import CreateScheduleBody
from langlauf.api.schedules import new_schedule
from langlauf.auth.caller import Caller
from langlauf.domain.schedule import MOST_SCHEDULES, Missed, RunOverlap
from langlauf.problems import Problem
from langlauf.service.schedules import ScheduleExists, ScheduleService
from langlauf.ui.form_fields import FieldChoice, FieldKind, FormField
from langlauf.ui.form_validation import FormFieldError, input_error
from langlauf.ui.language import Language
from langlauf.ui.pages.submit_form import NOTIFY_FIELDS, AnalysisCard, given_targets


def _choice(name: str, words: tuple[str, ...]) -> FormField:
    choices = tuple(FieldChoice(word, "") for word in words)
    return FormField(name=name, prefix="option", kind=FieldKind.CHOICE, initial=words[0], choices=choices)


NAME = FormField(
    name="name",
    prefix="option",
    kind=FieldKind.TEXT,
    required=True,
    limits={"maxlength": "64", "pattern": r"[A-Za-z0-9_.:\-]+"},
)
CRON = FormField(name="cron", prefix="option", kind=FieldKind.TEXT, examples=("0 6 * * 1-5",))
EVERY = FormField(name="every_seconds", prefix="option", kind=FieldKind.TEXT, examples=("15m", "24h"))
ZONE = FormField(name="zone", prefix="option", kind=FieldKind.TEXT, initial="UTC", examples=("Europe/Zurich",))
OVERLAP, MISSED = _choice("overlap", get_args(RunOverlap)), _choice("missed", get_args(Missed))
SCHEDULE_FIELDS = (NAME, CRON, EVERY, ZONE, OVERLAP, MISSED)


def schedule_entries(language: Language, *, fresh: bool) -> list[FormField]:
    """Return the fields of a schedule for a reader; a script puts the reader's zone into a form that is new."""
    return [_readable(one, language, fresh=fresh) for one in SCHEDULE_FIELDS]


def _readable(one: FormField, language: Language, *, fresh: bool) -> FormField:
    if one is ZONE and fresh:
        return replace(one, limits={"data-own-zone": "yes"})
    values = [choice.value for choice in one.choices]
    return replace(
        one, choices=tuple(FieldChoice(value, language.text(f"schedules.{one.name}.{value}")) for value in values)
    )


async def add_schedule(
    schedules: ScheduleService,
    caller: Caller,
    card: AnalysisCard,
    values: Mapping[str, Any],
    fields: Mapping[str, str],
    language: str,
) -> dict[str, FormFieldError]:
    """Add the schedule of a form; return what is wrong by HTML name, where nothing was added.

    E-mails use the page's language.
    """
    given = {one.name: text for one in SCHEDULE_FIELDS if (text := fields.get(one.html_name, "").strip())}
    if "name" not in given:
        return {NAME.html_name: FormFieldError("missing")}
    body: dict[str, Any] = {"analysis": card.name, "input": values, **given}
    if notify := given_targets(fields):
        body["notify"] = {**notify, "language": language}
    try:
        sent: CreateScheduleBody = read_input(CreateScheduleBody, body)
        await schedules.add(new_schedule(caller.org_id, sent))
    except InvalidInput as error:
        return {_html_name(error.field): input_error(error)}
    except ScheduleExists:
        taken = await schedules.one(caller.org_id, given["name"]) is not None
        return {NAME.html_name: FormFieldError("taken" if taken else "too_many", {"limit": MOST_SCHEDULES})}
    except Problem as problem:
        field = problem.members.get("field", "")
        name = "duration" if field == EVERY.name else FlawCode.OTHER
        return {_html_name(field): FormFieldError(name, {"limit": problem.message})}
    return {}


def _html_name(field: str) -> str:
    """Return the field of the form that the API names; what it says of the input stands at the top."""
    first, _, target = field.removeprefix("options.async_mode.").partition(".")
    fields, name = (NOTIFY_FIELDS, target) if first == "notify" else (SCHEDULE_FIELDS, field)
    return next((one.html_name for one in fields if one.name == name), "")
