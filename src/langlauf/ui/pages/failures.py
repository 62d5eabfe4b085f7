"""`/errors`: failed jobs grouped by cause, so that hundreds of failures with three causes are three rows."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.wire import trace_of
from langlauf.auth.caller import Caller
from langlauf.domain.errors import SENTENCE
from langlauf.domain.failure import PLACEHOLDER, CodePlace, FailureGroup, counts_over_time, read_cause
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord
from langlauf.problems import not_found
from langlauf.service.control import MOST_AT_ONCE, repeat_many
from langlauf.service.overview import FailureReport, failure_report
from langlauf.ui.error_texts import error_meta, job_error
from langlauf.ui.formatting import format_number
from langlauf.ui.language import Language
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.job_filters import RANGES
from langlauf.ui.pages.job_list import AGAIN, bulk_outcome
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

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
