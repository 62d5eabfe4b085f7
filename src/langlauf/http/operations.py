"""Every operation of the API as data: the description is made from it, and a test compares it with the routes."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from langlauf.domain.access import Scope
from langlauf.domain.outbound import CloudEvent
from langlauf.http import schemas

Codes = Mapping[int, tuple[str, ...]]
_TENANT = ("X-Org-Id", "X-Tenant-Id", "X-Request-Id")
#: What a job keeps of where it came from.
_ORIGIN = ("X-User-Id", "traceparent", "tracestate")
#: What any request can get, whatever it asks for.
ANYWHERE: Codes = {500: ("internal",)}
#: What any address gives to a method it does not know; no operation lists it, because none can get it.
METHOD_NOT_ALLOWED: Codes = {405: ("method_not_allowed",)}
#: What any request for an org can get.
_READING: Codes = {
    400: ("bad_request",),
    401: ("unauthorized",),
    403: ("forbidden",),
    429: ("rate_limited",),
    503: ("unavailable",),
}
_ONE: Codes = {**_READING, 404: ("not_found",)}
_BODY: Codes = {408: ("request_timeout",), 413: ("payload_too_large",), 415: ("unsupported_media_type",)}
_QUEUE: Codes = {429: ("queue_full",), 503: ("queue_full",)}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `{prefix}` stands for the API's prefix."""

    name: str
    method: str
    path: str
    summary: str
    tag: str
    #: what a caller must be allowed to do; None where everybody may call
    scope: Scope | None = None
    answer: type[msgspec.Struct] | None = None
    successes: tuple[int, ...] = (200,)
    #: whether a token for one job is good for it, if it is that job's
    one_job: bool = False
    #: whose id it has in its path, where whoever has the id may be allowed to read
    by_id: Literal["job", "result"] | None = None
    #: whether it answers also while the store is away
    store_may_be_away: bool = False
    #: whether 202 is the answer to a submission
    accepts: bool = False
    #: answers without a body, with what they mean
    empty: Mapping[int, str] = {}
    #: the headers of each answer beyond those that all have; one with a question mark is not always there
    headers: Codes = {}
    #: what one event of `text/event-stream` is, where the operation also streams
    stream: type[msgspec.Struct] | None = None
    body: str | None = None
    parameters: tuple[str, ...] = ()
    #: codes by status, beyond those that any request can get
    problems: Codes = {}
    #: statuses whose problems may also have a code of the analysis' own
    job_problems: tuple[int, ...] = ()

    def path_under(self, prefix: str) -> str:
        """The path with the API's own prefix."""
        return self.path.replace("{prefix}", prefix)

    def all_problems(self) -> dict[int, tuple[str, ...]]:
        """Every code that the operation can answer with, by status."""
        found: dict[int, tuple[str, ...]] = {}
        for codes in (ANYWHERE, _READING if self.scope is not None else {}, self.problems):
            for status, names in codes.items():
                found[status] = tuple(dict.fromkeys((*found.get(status, ()), *names)))
        return dict(sorted(found.items()))


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="analyze",
        method="post",
        path="{prefix}",
        summary="Run an analysis: wait for its result, or accept it as a job.",
        tag="jobs",
        scope=Scope.SUBMIT,
        answer=schemas.SyncAnswer,
        successes=(200, 202),
        accepts=True,
        body="AnalyzeRequest",
        parameters=(*_TENANT, *_ORIGIN, "Prefer", "Idempotency-Key"),
        headers={
            200: ("Content-Location", "Preference-Applied?", "Idempotent-Replayed?"),
            202: ("Location", "Retry-After", "Preference-Applied?", "Idempotent-Replayed?"),
        },
        problems={
            **_BODY,
            **_QUEUE,
            409: ("duplicate_job", "canceled"),
            410: ("expired",),
            422: ("idempotency_mismatch", "validation_error"),
            500: ("worker_lost", "result_too_large", "result_unstorable"),
            502: ("network_error",),
            504: ("timeout", "timeout_max_retries"),
        },
        job_problems=(422, 500),
    ),
    Operation(
        name="listJobs",
        method="get",
        path="{prefix}/jobs",
        summary="The org's jobs, newest first.",
        tag="jobs",
        scope=Scope.READ,
        answer=schemas.JobsAnswer,
        headers={200: ("Link?",)},
        parameters=(*_TENANT, "status", "analysis", "q", "limit", "cursor"),
    ),
    Operation(
        name="jobStatus",
        method="get",
        path="{prefix}/jobs/{job_id}",
        summary="One job with its latest events and, once completed, its result.",
        tag="jobs",
        scope=Scope.READ,
        one_job=True,
        by_id="job",
        answer=schemas.StatusAnswer,
        empty={304: "Nothing changed since the ETag that was sent."},
        headers={200: ("ETag", "Retry-After"), 304: ("ETag", "Retry-After")},
        parameters=("job_id", *_TENANT, "access_token", "If-None-Match", "wait"),
        problems=_ONE,
    ),
    Operation(
        name="jobEvents",
        method="get",
        path="{prefix}/jobs/{job_id}/events",
        summary="A page of a job's log, or the log as it happens.",
        tag="jobs",
        scope=Scope.READ,
        one_job=True,
        by_id="job",
        answer=schemas.EventsAnswer,
        empty={204: "A stream has nothing to tell any more: the caller has the last event, or retention took them."},
        stream=schemas.EventOut,
        parameters=("job_id", *_TENANT, "access_token", "Last-Event-ID", "after", "events.limit"),
        problems=_ONE,
    ),
    Operation(
        name="feed",
        method="get",
        path="{prefix}/events",
        summary="What happens to the org's jobs, over all of them: a page of the feed, or the feed as it happens.",
        tag="jobs",
        scope=Scope.READ,
        answer=schemas.FeedAnswer,
        stream=CloudEvent,
        parameters=(*_TENANT, "feed.Last-Event-ID", "feed.after", "feed.types", "feed.limit", "feed.wait"),
    ),
    Operation(
        name="jobResults",
        method="get",
        path="{prefix}/jobs/{job_id}/results",
        summary="A job's snapshots, without their payloads.",
        tag="results",
        scope=Scope.READ,
        one_job=True,
        answer=schemas.ResultsAnswer,
        parameters=("job_id", *_TENANT, "access_token"),
        problems=_ONE,
    ),
    Operation(
        name="jobNotifications",
        method="get",
        path="{prefix}/jobs/{job_id}/notifications",
        summary="A job's messages, latest first.",
        tag="jobs",
        scope=Scope.READ,
        answer=schemas.NotificationsAnswer,
        parameters=("job_id", *_TENANT, "channel", "limit"),
        problems=_ONE,
    ),
    Operation(
        name="inbox",
        method="get",
        path="{prefix}/inbox",
        summary="The org's messages for people, newest first.",
        tag="inbox",
        scope=Scope.READ,
        answer=schemas.InboxAnswer,
        headers={200: ("Link?",)},
        parameters=(*_TENANT, "unread", "limit", "cursor"),
    ),
    Operation(
        name="readInbox",
        method="post",
        path="{prefix}/inbox/read",
        summary="Mark messages as read, for the whole org.",
        tag="inbox",
        scope=Scope.READ,
        answer=schemas.ReadAnswer,
        body="ReadBody",
        parameters=_TENANT,
        problems=_BODY,
    ),
    Operation(
        name="cancelJob",
        method="post",
        path="{prefix}/jobs/{job_id}/cancel",
        summary="Stop a job, or ask its worker to.",
        tag="jobs",
        scope=Scope.CANCEL,
        one_job=True,
        answer=schemas.JobAnswer,
        successes=(200, 202),
        headers={200: ("Content-Location", "Retry-After"), 202: ("Content-Location", "Retry-After")},
        body="CancelBody",
        parameters=("job_id", *_TENANT),
        problems={**_ONE, **_BODY, 409: ("not_cancelable",)},
    ),
    Operation(
        name="retryJob",
        method="post",
        path="{prefix}/jobs/{job_id}/retry",
        summary="Make a new job of one that has ended.",
        tag="jobs",
        scope=Scope.SUBMIT,
        answer=schemas.AcceptedAnswer,
        successes=(202,),
        accepts=True,
        headers={202: ("Location", "Retry-After", "Idempotent-Replayed?")},
        body="RetryBody",
        parameters=("job_id", *_TENANT, *_ORIGIN, "Idempotency-Key"),
        problems={**_ONE, **_BODY, **_QUEUE, 409: ("not_terminal", "duplicate_job"), 422: ("idempotency_mismatch",)},
    ),
    Operation(
        name="createJobToken",
        method="post",
        path="{prefix}/jobs/{job_id}/token",
        summary="Make a token for this job and nothing else.",
        tag="keys",
        scope=Scope.READ,
        answer=schemas.TokenAnswer,
        body="TokenBody",
        parameters=("job_id", *_TENANT),
        problems={**_ONE, **_BODY},
    ),
    Operation(
        name="result",
        method="get",
        path="{prefix}/results/{result_id}",
        summary="A snapshot: the newest of its job, or exactly this one.",
        tag="results",
        scope=Scope.READ,
        one_job=True,
        by_id="result",
        answer=schemas.ResultAnswer,
        headers={200: ("ETag",), 304: ("ETag",)},
        empty={304: "Nothing changed since the ETag that was sent."},
        parameters=("result_id", *_TENANT, "access_token", "If-None-Match", "view"),
        problems={**_ONE, 410: ("expired",)},
    ),
    Operation(
        name="resultViews",
        method="get",
        path="{prefix}/results/{result_id}/views",
        summary="What people are to see of a snapshot: tables, charts, maps, texts, pictures, files.",
        tag="results",
        scope=Scope.READ,
        one_job=True,
        answer=schemas.ViewsAnswer,
        headers={200: ("ETag",), 304: ("ETag",)},
        empty={304: "Nothing changed since the ETag that was sent."},
        parameters=("result_id", *_TENANT, "access_token", "If-None-Match", "view"),
        problems={**_ONE, 410: ("expired",)},
    ),
    Operation(
        name="history",
        method="get",
        path="{prefix}/history",
        summary="The org's jobs that have a result, newest first.",
        tag="results",
        scope=Scope.READ,
        answer=schemas.HistoryAnswer,
        parameters=(*_TENANT, "limit", "offset"),
    ),
    Operation(
        name="listKeys",
        method="get",
        path="{prefix}/keys",
        summary="The org's keys, without what opens anything.",
        tag="keys",
        scope=Scope.ADMIN,
        answer=schemas.KeysAnswer,
        parameters=_TENANT,
    ),
    Operation(
        name="createKey",
        method="post",
        path="{prefix}/keys",
        summary="Make a key of the org; its text is shown once.",
        tag="keys",
        scope=Scope.ADMIN,
        answer=schemas.MadeKeyAnswer,
        successes=(201,),
        body="CreateKeyBody",
        parameters=_TENANT,
        problems=_BODY,
    ),
    Operation(
        name="revokeKey",
        method="post",
        path="{prefix}/keys/{key_id}/revoke",
        summary="End a key of the org.",
        tag="keys",
        scope=Scope.ADMIN,
        answer=schemas.KeyAnswer,
        parameters=("key_id", *_TENANT),
        problems={**_ONE, **_BODY},
    ),
    Operation(
        name="health",
        method="get",
        path="/health",
        summary="The process is up.",
        tag="system",
        answer=schemas.HealthAnswer,
        parameters=("X-Request-Id",),
    ),
    Operation(
        name="ready",
        method="get",
        path="/ready",
        summary="The store answers and the workers are alive.",
        tag="system",
        answer=schemas.HealthAnswer,
        parameters=("X-Request-Id",),
        problems={503: ("unavailable",)},
    ),
    Operation(
        name="metrics",
        method="get",
        path="/metrics",
        summary="Counters for Prometheus.",
        tag="system",
        scope=Scope.OPERATE,
        store_may_be_away=True,
        parameters=_TENANT,
    ),
    Operation(
        name="openapi",
        method="get",
        path="/openapi.json",
        summary="This document.",
        tag="system",
        parameters=("X-Request-Id",),
    ),
)
