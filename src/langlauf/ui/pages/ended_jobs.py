"""`/inbox` and `/errors`: jobs that ended, newest first with those that are unread, and failures grouped by cause."""

import re
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.wire import trace_of
from langlauf.auth.caller import Caller
from langlauf.domain.delivery import TEMPLATES
from langlauf.domain.errors import SENTENCE
from langlauf.domain.failure import PLACEHOLDER, CodePlace, FailureGroup, counts_over_time, read_cause
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import InboxRecord
from langlauf.problems import not_found
from langlauf.service.control import MOST_AT_ONCE, repeat_many
from langlauf.service.overview import FailureReport, failure_report
from langlauf.ui.formats import display_state, format_number
from langlauf.ui.language import Language, error_meta, job_error
from langlauf.ui.page_request import RANGES, PageRequest
from langlauf.ui.pages.job_list import AGAIN, bulk_outcome
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

# -- inbox -------------------------------------------------------------------------------------------------------------

INBOX_PAGE_SIZE = 50
_CURSOR = re.compile(r"([0-9]{1,18})_([0-9A-Za-z_.:-]{1,128})", re.ASCII)
_STATUS_OF_TEMPLATE = {template: status.value for status, template in TEMPLATES.items()}


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the page shows it."""

    notification_id: str
    created_at: Instant
    unread: bool
    #: the status that it reports; empty for another template
    status: str
    job: JobRecord
    display_state: str
    #: the page of the result if it is stored, else of the job
    way: tuple[str, str]


class InboxPages:
    """`/inbox`, and the form that marks messages as read."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show a page of messages."""
        at = request.query_params.get("at", "")
        match = _CURSOR.fullmatch(at)
        before = (int(match[1]), match[2]) if match else None
        page = await self._context.services.reads.of(caller).inbox(before=before, limit=INBOX_PAGE_SIZE)
        older = None if page.after is None else request.link("inbox", at=f"{page.after[0]}_{page.after[1]}")
        entries = [self._entry(one) for one in page.messages]
        return self._renderer.page(
            request,
            "lists/inbox.html",
            entries=entries,
            until=entries[0].created_at if entries else 0,
            older=older,
            first=match is None,
            at=at if match else "",
        )

    async def mark_read(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Mark one message as read, or all up to the newest that the page showed."""
        inbox = self._context.services.inbox
        if fields.get("until", "").isdecimal():
            await inbox.read_all(caller, int(fields["until"][:18]))
        elif "message" in fields:
            await inbox.read_one(caller, fields["message"])
        at = fields.get("at", "")
        way = request.link("inbox", **({"at": at} if _CURSOR.fullmatch(at) else {}))
        return see_other(way)

    def _entry(self, message: InboxRecord) -> InboxEntry:
        notification, job = message.notification, message.view.job
        has_result = job.result_id is not None and job.result_expired_at is None and job.terminal
        return InboxEntry(
            notification_id=notification.notification_id,
            created_at=notification.created_at,
            unread=message.unread,
            status=_STATUS_OF_TEMPLATE.get(notification.template_key, ""),
            job=job,
            display_state=display_state(job.status, self._context.services.reads.phase(message.view)),
            way=("results", job.result_id) if has_result and job.result_id else ("jobs", job.job_id),
        )


# -- failures ----------------------------------------------------------------------------------------------------------

ALL_TIME = "all"
_DEFAULT_RANGE = "24h"
_MAX_GROUPS = 100
#: The largest groups, of which the page reads an example, for the line of code and Langlauf's own sentences.
_MAX_EXAMPLE_READS = 20
_MAX_EXAMPLES = 2
_HISTOGRAM_BARS = 24
_HISTOGRAM_HEIGHT = 20
#: Words that are at least this long identify a message.
_MIN_COMMON_WORDS = 8


class HistogramBar(msgspec.Struct, frozen=True):
    """One bar of the failures over time."""

    x: int
    y: int
    height: int


class FailureRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group of failures as the page shows it."""

    group: FailureGroup
    #: what its messages share, in the language of the page where Langlauf wrote them
    message: str
    count: str
    #: jobs that were not run again
    left: int
    bars: list[HistogramBar]
    #: the newest messages, where the pattern leaves their values out
    examples: list[str]
    #: where the newest was raised, for those who may see it
    place: CodePlace | None
    #: the filters of the job list that show these jobs
    asked: dict[str, str]


class FailurePages:
    """`/errors`, and the forms that run a group again."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the groups of a time range."""
        back = requested_range(request.query_params.get("range"))
        now = self._context.services.authenticator.now()
        report = await self._report(caller, back, now)
        groups = report.groups[:_MAX_GROUPS]
        alike = [(group.analysis, group.error_code) for group in report.groups]
        rows = [
            self._failure_row(
                group,
                back,
                now,
                request.language,
                alone=alike.count((group.analysis, group.error_code)) == 1,
                example=await self._example(caller, group) if number < _MAX_EXAMPLE_READS else None,
                place=caller.sees_traces,
            )
            for number, group in enumerate(groups)
        ]
        return self._renderer.page(
            request,
            "lists/errors.html",
            rows=rows,
            range=back,
            ranges=(*RANGES, ALL_TIME),
            looked_at=format_number(report.looked_at, request.language),
            complete=report.complete,
            cut=len(report.groups) > _MAX_GROUPS,
            most_groups=_MAX_GROUPS,
            bulk_outcome=bulk_outcome(request),
        )

    async def confirm_retry(self, request: PageRequest, caller: Caller) -> Response:
        """Ask for confirmation before a group runs again."""
        asked = request.query_params
        back = requested_range(asked.get("range"))
        group = await self._group(caller, back, asked.get("group", ""))
        chosen = group.left[:MOST_AT_ONCE]
        return self._renderer.page(
            request,
            "lists/errors_again.html",
            group=group,
            count=len(chosen),
            left=len(group.left) - len(chosen),
            repeated=len(group.failures) - len(group.left),
            most=MOST_AT_ONCE,
            range=back,
            wish=AGAIN + group.left[0].job_id if group.left else "",
        )

    async def retry(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Run those jobs of a group again that were not run again yet."""
        back = requested_range(fields.get("range"))
        group = await self._group(caller, back, fields.get("group", ""))
        chosen = [one.job_id for one in group.left[:MOST_AT_ONCE]]
        done = await repeat_many(self._context.services.control, caller, chosen, fields.get("wish", ""))
        way = request.link("errors", range=back, repeated=str(done.done), left=str(done.left))
        return see_other(way)

    async def _example(self, caller: Caller, group: FailureGroup) -> JobRecord | None:
        view = await self._context.services.reads.of(caller).job(group.example.job_id)
        return None if view is None else view.job

    def _failure_row(
        self,
        group: FailureGroup,
        back: str,
        now: Instant,
        language: Language,
        *,
        alone: bool,
        example: JobRecord | None,
        place: bool,
    ) -> FailureRow:
        words = self._renderer.analyses.words(group.analysis, language)
        # Of a sentence of Langlauf the newest is shown as it is: its values are few.
        own = job_error(example, words) if example is not None and SENTENCE in error_meta(example) else None
        varied = own is None and PLACEHOLDER in group.shape
        return FailureRow(
            group=group,
            message=own or words.text(group.shape),
            count=format_number(len(group.failures), language),
            left=len(group.left),
            bars=_bars(group, back, now),
            examples=[words.text(one) for one in group.messages(_MAX_EXAMPLES)] if varied else [],
            place=_place_of(example) if place and example is not None else None,
            asked=_asked(group, back, alone=alone),
        )

    async def _report(self, caller: Caller, back: str, now: Instant) -> FailureReport:
        since = after(now, -RANGES[back]) if back in RANGES else 0
        return await failure_report(self._context.services.reads.of(caller), since)

    async def _group(self, caller: Caller, back: str, key: str) -> FailureGroup:
        found = (await self._report(caller, back, self._context.services.authenticator.now())).group(key)
        if found is None:
            raise not_found()
        return found


def requested_range(text: str | None) -> str:
    """Return the requested time range, or the last day."""
    return text if text is not None and (text in RANGES or text == ALL_TIME) else _DEFAULT_RANGE


def _asked(group: FailureGroup, back: str, *, alone: bool) -> dict[str, str]:
    """Return the filters of the job list that show the jobs of a group."""
    asked = {"status": "failed", "analysis": group.analysis, "error": group.error_code}
    if back in RANGES:
        asked["range"] = back
    if not alone and (words := common_words(group.shape)):
        asked["q"] = words
    return asked


def _bars(group: FailureGroup, back: str, now: Instant) -> list[HistogramBar]:
    start = after(now, -RANGES[back]) if back in RANGES else group.first_at
    counts = counts_over_time([one.failed_at for one in group.failures], start, now, _HISTOGRAM_BARS)
    highest = max(counts)
    heights = [-(-count * _HISTOGRAM_HEIGHT // highest) for count in counts]
    return [
        HistogramBar(4 * place, _HISTOGRAM_HEIGHT - height, height) for place, height in enumerate(heights) if height
    ]


def _place_of(job: JobRecord) -> CodePlace | None:
    """Return where a failure was raised."""
    trace = trace_of(job)
    return None if trace is None else read_cause(trace).place


def common_words(shape: str) -> str:
    """Return the longest part that all messages of a group share, or an empty string where it is too short."""
    longest = max((part.strip() for part in shape.split(PLACEHOLDER)), key=len)
    return longest if len(longest) >= _MIN_COMMON_WORDS else ""
