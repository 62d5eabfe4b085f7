"""`/schedules`: what runs again and again, its last and next runs, and forms to add, pause and remove."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from langlauf.analysis.schema import FlawCode, InvalidInput, read_input
from langlauf.api.context import ApiContext
from langlauf.api.request_schemas import CreateScheduleBody
from langlauf.api.schedules import SHOWN_RUNS, new_schedule, shown_runs
from langlauf.auth.caller import Caller
from langlauf.domain.instant import Instant
from langlauf.domain.job import Accepted, Replayed
from langlauf.domain.read_models import JobView
from langlauf.domain.redact import redact
from langlauf.domain.schedule import MOST_SCHEDULES, Missed, RunOverlap, Schedule
from langlauf.problems import Problem, not_found
from langlauf.service.schedules import ScheduleExists, ScheduleService
from langlauf.ui.form_fields import FieldChoice, FieldKind, FormField
from langlauf.ui.form_validation import FormFieldError, input_error
from langlauf.ui.formats import display_state
from langlauf.ui.language import Language
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.start import FormState
from langlauf.ui.pages.submit_form import (
    NOTIFY_FIELDS,
    AnalysisCard,
    analysis_cards,
    given_targets,
    more_rows,
    notify_fields,
    read_form_input,
    readable_card,
)
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

# -- form of a new schedule --------------------------------------------------------------------------------------------


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


# -- page --------------------------------------------------------------------------------------------------------------
# Every form works without a script; times are shown in the reader's zone with one.

#: Schedules shown; commands and the API list all.
MAX_SCHEDULES = 100


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a schedule, as the page shows it."""

    view: JobView
    display_state: str


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the page shows it."""

    schedule: Schedule
    #: the next planned times, and the newest jobs
    next_runs: list[Instant]
    runs: list[ScheduledRun]
    #: the first word of what became of the last planned time
    outcome: str
    #: where notifications of its runs go
    targets: list[str]
    #: whether an analysis of that name is registered
    known: bool


class SchedulePages:
    """`/schedules`, and the forms on it."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._services = context.services
        self._schedules = context.services.schedules
        self._settings = context.settings
        self._renderer = renderer
        self._offers = analysis_cards(context.services.registry)

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the page, with the form of the analysis that its address names."""
        named = request.query_params.get("analysis")
        card = self._offers[0] if named is None and self._offers else self._offer(named)
        return await self._page(request, caller, card, chosen=named is not None)

    async def add(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Add a schedule and go to it, or show the form again with its errors."""
        card = self._offer(fields.get("analysis"))
        if card is None:
            raise not_found()
        values = read_form_input(card, fields, self._settings.max_depth)
        errors = values.errors
        if "rows" in fields:
            values.texts.update(more_rows(card, values.texts, fields["rows"]))
            errors = {}
        elif not errors:
            errors = await add_schedule(self._schedules, caller, card, values.values, fields, request.language.code)
            if not errors:
                return see_other(f"{request.link('schedules')}#s-{fields[NAME.html_name].strip()}")
        options = {one.html_name: fields.get(one.html_name, "") for one in (*SCHEDULE_FIELDS, *NOTIFY_FIELDS)}
        form = FormState(key="", texts={**values.texts, **options}, errors=errors)
        return await self._page(request, caller, card, form, chosen=True, status=400 if errors else 200)

    def _offer(self, name: str | None) -> AnalysisCard | None:
        """Return the named analysis; None where none is named."""
        if name is None:
            return None
        found = next((one for one in self._offers if one.name == name), None)
        if found is None:
            raise not_found()
        return found

    async def _page(
        self,
        request: PageRequest,
        caller: Caller,
        card: AnalysisCard | None,
        form: FormState | None = None,
        *,
        chosen: bool,
        status: int = 200,
    ) -> Response:
        found = await self._schedules.all_of(caller.org_id)
        rows = [await self._row(caller, one) for one in found[:MAX_SCHEDULES]]
        words = None if card is None else self._renderer.analyses.words(card.name, request.language)
        values: dict[str, Any] = {
            "rows": rows,
            "more": len(found) > MAX_SCHEDULES,
            "most": MAX_SCHEDULES,
            # A form posts to an address below this page; a change of language or colours returns to the page itself.
            "back": "/schedules",
            "names": [one.name for one in self._offers],
            "card": None if card is None or words is None else readable_card(card, words),
            "form": form or _blank_form(card),
            "entries": schedule_entries(request.language, fresh=form is None),
            "notify_entries": notify_fields(self._settings),
            "chosen": chosen,
            "max_bytes": self._settings.max_body,
        }
        return self._renderer.page(request, "schedules/index.html", status, **values)

    async def _row(self, caller: Caller, one: Schedule) -> ScheduleRow:
        views = await self._schedules.runs(caller.org_id, one.name, SHOWN_RUNS)
        runs = [
            ScheduledRun(view=view, display_state=display_state(view.job.status, self._services.reads.phase(view)))
            for view in views
        ]
        return ScheduleRow(
            schedule=one,
            next_runs=shown_runs(one),
            runs=runs,
            outcome=(one.last_outcome or "").partition(":")[0],
            targets=_targets(one),
            known=self._services.registry.get(one.analysis) is not None,
        )

    async def redirect_to_page(self, request: PageRequest, _: Caller) -> Response:
        """Redirect to the page; a reload or a change of language sends GET to the address of a form."""
        return see_other(request.link("schedules"))

    async def pause(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Pause or resume a schedule."""
        paused = fields.get("paused") == "yes"
        if await self._schedules.change(caller.org_id, _name(request), {"paused": paused}) is None:
            raise not_found()
        return see_other(request.link("schedules"))

    async def run(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Submit a run now, and go to its page."""
        made = await self._schedules.run_now(caller, _name(request), None)
        if made is None:
            raise not_found()
        if isinstance(made, Accepted | Replayed):
            return see_other(request.link("jobs", made.job.job_id))
        return see_other(request.link("schedules"))

    async def remove(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Remove a schedule."""
        if not await self._schedules.remove(caller.org_id, _name(request)):
            raise not_found()
        return see_other(request.link("schedules"))


def _blank_form(card: AnalysisCard | None) -> FormState:
    """Return a form with its defaults."""
    entries = [*SCHEDULE_FIELDS] if card is None else [*card.form_fields, *SCHEDULE_FIELDS]
    return FormState(key="", texts={one.html_name: one.initial for one in entries})


def _targets(one: Schedule) -> list[str]:
    notify = {} if one.notify is None else msgspec.json.decode(one.notify, type=dict[str, Any])
    return [redact(str(notify[way.name])) for way in NOTIFY_FIELDS if notify.get(way.name)]


def _name(request: PageRequest) -> str:
    return str(request.path_params["schedule"])
