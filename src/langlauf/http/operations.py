"""Every operation of the API as data: the description is made from it, and a test compares it with the routes."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from langlauf.domain.access import Scope
from langlauf.http import schemas

_TENANT = ("X-Org-Id", "X-Tenant-Id", "X-Request-Id")
_READING: Mapping[int, tuple[str, ...]] = {
    400: ("bad_request",),
    401: ("unauthorized",),
    403: ("forbidden",),
}
_ONE: Mapping[int, tuple[str, ...]] = {**_READING, 404: ("not_found",)}
_BODY: Mapping[int, tuple[str, ...]] = {413: ("payload_too_large",), 415: ("unsupported_media_type",)}
_QUEUE: Mapping[int, tuple[str, ...]] = {429: ("queue_full",), 503: ("queue_full", "unavailable")}


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
    #: whether 202 is the answer to a submission
    accepts: bool = False
    body: str | None = None
    parameters: tuple[str, ...] = ()
    problems: Mapping[int, tuple[str, ...]] = {}

    def path_under(self, prefix: str) -> str:
        """The path with the API's own prefix."""
        return self.path.replace("{prefix}", prefix)


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
        parameters=(*_TENANT, "X-User-Id", "Prefer", "Idempotency-Key"),
        problems={
            **_READING,
            **_BODY,
            **_QUEUE,
            409: ("duplicate_job", "canceled"),
            410: ("expired",),
            422: ("idempotency_mismatch", "validation_error"),
            500: ("internal",),
            502: ("network_error",),
            504: ("timeout",),
        },
    ),
    Operation(
        name="listJobs",
        method="get",
        path="{prefix}/jobs",
        summary="The org's jobs, newest first.",
        tag="jobs",
        scope=Scope.READ,
        answer=schemas.JobsAnswer,
        parameters=(*_TENANT, "status", "analysis", "q", "limit", "cursor"),
        problems=_READING,
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
        parameters=("job_id", *_TENANT, "access_token", "If-None-Match", "wait"),
        problems=_ONE,
    ),
    Operation(
        name="jobEvents",
        method="get",
        path="{prefix}/jobs/{job_id}/events",
        summary="A page of a job's log.",
        tag="jobs",
        scope=Scope.READ,
        one_job=True,
        by_id="job",
        answer=schemas.EventsAnswer,
        parameters=("job_id", *_TENANT, "access_token", "after", "events.limit"),
        problems=_ONE,
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
        name="cancelJob",
        method="post",
        path="{prefix}/jobs/{job_id}/cancel",
        summary="Stop a job, or ask its worker to.",
        tag="jobs",
        scope=Scope.CANCEL,
        answer=schemas.JobAnswer,
        successes=(200, 202),
        body="CancelBody",
        parameters=("job_id", *_TENANT),
        problems={**_ONE, **_BODY, 409: ("not_cancelable",), 503: ("unavailable",)},
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
        body="RetryBody",
        parameters=("job_id", *_TENANT, "Idempotency-Key"),
        problems={**_ONE, **_BODY, **_QUEUE, 409: ("not_terminal", "duplicate_job"), 422: ("idempotency_mismatch",)},
    ),
    Operation(
        name="createJobToken",
        method="post",
        path="{prefix}/jobs/{job_id}/token",
        summary="Make a token that reads this job and nothing else.",
        tag="keys",
        scope=Scope.READ,
        answer=schemas.TokenAnswer,
        body="TokenBody",
        parameters=("job_id", *_TENANT),
        problems={**_ONE, **_BODY, 503: ("unavailable",)},
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
        parameters=("result_id", *_TENANT, "access_token", "view"),
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
        problems=_READING,
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
        problems=_READING,
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
        problems={**_READING, **_BODY, 503: ("unavailable",)},
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
        problems={**_ONE, **_BODY, 503: ("unavailable",)},
    ),
    Operation(
        name="health",
        method="get",
        path="/health",
        summary="The process is up.",
        tag="system",
        answer=schemas.HealthAnswer,
    ),
    Operation(
        name="ready",
        method="get",
        path="/ready",
        summary="The store answers and the workers are alive.",
        tag="system",
        answer=schemas.HealthAnswer,
        problems={503: ("unavailable",)},
    ),
    Operation(
        name="metrics",
        method="get",
        path="/metrics",
        summary="Counters for Prometheus.",
        tag="system",
        scope=Scope.OPERATE,
        problems=_READING,
    ),
    Operation(
        name="openapi",
        method="get",
        path="/openapi.json",
        summary="This document.",
        tag="system",
    ),
)
