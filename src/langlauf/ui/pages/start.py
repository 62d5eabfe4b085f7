"""`/`: choose an analysis, fill in its form, and see recent jobs."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput
from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobFilter
from langlauf.problems import not_found
from langlauf.service.control import NotTerminal
from langlauf.ui.form_fields import field_text
from langlauf.ui.form_validation import FormFieldError
from langlauf.ui.formats import display_state
from langlauf.ui.job_input import (
    PrefillSource,
    absolute_url,
    faulty_field,
    find_earlier_job,
    job_subjects,
    prefilled_fields,
)
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.job_headline import pause_text
from langlauf.ui.pages.submit_form import (
    BASED_ON,
    NOTIFY_FIELDS,
    OPTION_FIELDS,
    PRIORITY,
    AnalysisCard,
    SubmitOutcome,
    analysis_cards,
    example_command,
    form_key,
    idempotency_key,
    more_rows,
    new_form_key,
    notify_fields,
    read_form_input,
    readable_card,
    request_body,
    submit_job,
    submit_outcome,
)
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

RECENT_JOBS = 10


class RecentJob(msgspec.Struct, frozen=True):
    """A job as a row of the list."""

    job: JobRecord
    #: its label or a short text from its input, where there is one
    subject: str
    display_state: str


class FormState(msgspec.Struct, frozen=True, kw_only=True):
    """The form as the page shows it: its texts and errors."""

    key: str
    #: texts and errors by HTML name
    texts: Mapping[str, str]
    errors: Mapping[str, FormFieldError] = {}
    #: fields whose values look like secrets and were not copied from the earlier job
    hidden: list[str] = []
    #: the earlier job that the new one is based on, and its field at fault
    based_on: str = ""
    faulty: str = ""


class StartPage:
    """`/`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._offers = analysis_cards(context.services.registry)

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the form of one analysis, empty or filled from an earlier job."""
        query = request.query_params
        if "from" in query:
            return await self._again(request, caller, query["from"])
        card = self._offer(query["analysis"]) if "analysis" in query else self._default()
        return await self._page(request, caller, card, _blank_form(card))

    async def _again(self, request: PageRequest, caller: Caller, job_id: str) -> Response:
        """Show the form of an earlier job; 404 for one of another org."""
        earlier = await find_earlier_job(self._context.services.reads, caller, job_id)
        if earlier is None:
            raise not_found()
        card = next((one for one in self._offers if one.name == earlier.job.analysis), None)
        if card is None:
            return await self._page(
                request, caller, self._default(), _blank_form(self._default()), missing_analysis=earlier.job.analysis
            )
        texts, hidden = prefilled_fields(card.form_fields, earlier)
        texts[PRIORITY.html_name] = field_text(PRIORITY.kind, earlier.job.priority_class)
        faulty = faulty_field(earlier.job, card.analysis)
        form = FormState(
            key=new_form_key(),
            texts=texts,
            hidden=hidden,
            based_on=earlier.job.job_id,
            faulty=f"in.{faulty}" if faulty else "",
        )
        return await self._page(request, caller, card, form, earlier=earlier)

    async def submit(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Start a job and redirect to it, or show the form again with its errors."""
        key = form_key(fields)
        if "resume" in fields:
            return await self._resume(request, caller, fields["resume"], key)
        card = self._offer(fields.get("analysis", ""))
        if "example" in fields:
            fields = card.with_examples(fields)
        values = read_form_input(card, fields, self._context.settings.max_depth)
        outcome = SubmitOutcome(errors=values.errors, status=400)
        if "rows" in fields:
            values.texts.update(more_rows(card, values.texts, fields["rows"]))
            outcome = SubmitOutcome()
        elif not values.errors:
            body = request_body(card, values.values, fields)
            outcome = await submit_job(self._context.services.submissions, caller, body, key, request.language.code)
        if outcome.job is not None:
            return _redirect_to_job(request, outcome.job)
        options = {option.html_name: fields.get(option.html_name, "") for option in (*OPTION_FIELDS, *NOTIFY_FIELDS)}
        based_on = fields.get(BASED_ON, "")
        form = FormState(key=key, texts={**values.texts, **options}, errors=outcome.errors, based_on=based_on)
        return await self._page(request, caller, card, form, outcome=outcome)

    async def _resume(self, request: PageRequest, caller: Caller, job_id: str, key: str) -> Response:
        """Start a new job that resumes an earlier one."""
        wish = idempotency_key(key, {"resume": job_id})
        try:
            made = await self._context.services.control.retry(caller, job_id, resume=True, idempotency_key=wish)
        except InvalidInput:  # the analysis has changed since, or is not registered here
            blank = _blank_form(self._default())
            refused = SubmitOutcome(refused="validation_error", status=422)
            return await self._page(request, caller, self._default(), blank, outcome=refused)
        if made is None:
            raise not_found()
        outcome = (
            SubmitOutcome(refused="not_terminal", status=409) if isinstance(made, NotTerminal) else submit_outcome(made)
        )
        if outcome.job is not None:
            return _redirect_to_job(request, outcome.job)
        card = self._default()
        return await self._page(request, caller, card, _blank_form(card), outcome=outcome)

    def _offer(self, name: str) -> AnalysisCard:
        found = next((one for one in self._offers if one.name == name), None)
        if found is None:
            raise not_found()
        return found

    def _readable(self, request: PageRequest, card: AnalysisCard) -> AnalysisCard:
        return readable_card(card, self._renderer.analyses.words(card.name, request.language))

    def _default(self) -> AnalysisCard | None:
        return self._offers[0] if self._offers else None

    async def _page(
        self,
        request: PageRequest,
        caller: Caller,
        card: AnalysisCard | None,
        form: FormState,
        *,
        outcome: SubmitOutcome | None = None,
        earlier: PrefillSource | None = None,
        missing_analysis: str = "",
    ) -> Response:
        outcome = outcome or SubmitOutcome()
        values: dict[str, Any] = {
            "cards": [self._readable(request, one) for one in self._offers],
            "card": None if card is None else self._readable(request, card),
            "form": form,
            "outcome": outcome,
            "earlier": earlier,
            "missing_analysis": missing_analysis,
            "option_entries": OPTION_FIELDS,
            "more_open": outcome.duplicate is not None or any(one.html_name in form.errors for one in OPTION_FIELDS),
            "notify_entries": notify_fields(self._context.settings),
            "notify_open": any(one.html_name in form.errors or form.texts.get(one.html_name) for one in NOTIFY_FIELDS),
            "curl": None if card is None else example_command(self._context, request, caller, card),
            "agent_url": absolute_url(self._context, request, "/mcp") if self._context.settings.mcp else None,
            "max_bytes": self._context.settings.max_body,
            "recent": RECENT_JOBS,
            **await self._recent(caller),
        }
        # The list of recent jobs has read the pauses.
        pause = None if card is None else self._context.services.pauses.covering(caller.org_id, card.name)
        values["pause"] = None if pause is None else pause_text(pause, request.language)
        return self._renderer.page(request, "start/start.html", outcome.status, headers=outcome.headers, **values)

    async def _recent(self, caller: Caller) -> dict[str, Any]:
        """Return the newest jobs; None where the store is unavailable, which is not the same as none."""
        reads = self._context.services.reads
        try:
            page = await reads.of(caller).jobs(JobFilter(limit=RECENT_JOBS))
            await reads.read_pauses()
            subjects = await job_subjects(self._context, caller, [view.job for view in page.views])
        except StoreUnavailable:
            return {"lines": None, "more": False}
        lines = [
            RecentJob(view.job, subjects[view.job.job_id], display_state(view.job.status, reads.phase(view)))
            for view in page.views
        ]
        return {"lines": lines, "more": page.after is not None}


def _blank_form(card: AnalysisCard | None) -> FormState:
    """Return a form with its defaults."""
    form_fields = [*OPTION_FIELDS] if card is None else [*card.form_fields, *OPTION_FIELDS]
    return FormState(key=new_form_key(), texts={entry.html_name: entry.initial for entry in form_fields})


def _redirect_to_job(request: PageRequest, job: JobRecord) -> Response:
    """Redirect to the page of a job."""
    return see_other(request.link("jobs", job.job_id))
