"""Response bodies: each wraps records and says `ok`. The same structs make the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from langlauf.api.record_schemas import (
    AttemptOut,
    DeliveryOut,
    EndpointOut,
    EventOut,
    HistoryEntryOut,
    InboxOut,
    JobOut,
    JobStatusOut,
    JobWithEventsOut,
    JsonValue,
    KeyOut,
    NotificationOut,
    PauseOut,
    Provenance,
    ScheduleOut,
    SnapshotOut,
    Views,
)
from langlauf.api.request_schemas import KeyScope
from langlauf.domain.event import CloudEvent, Uuid
from langlauf.domain.job import Count, Name, Seconds
from langlauf.domain.result import ResultKind
from langlauf.domain.state import Status

#: A job that was created by this program, so that its id is a UUID.
_MADE_HERE = {"properties": {"job_id": {"format": "uuid"}}}


class ApiResponse(msgspec.Struct, kw_only=True):
    """The members of every JSON response."""

    ok: Literal[True] = True
    request_id: Name


class JobResponse(ApiResponse, kw_only=True):
    """One job."""

    job: JobOut


class AcceptedResponse(JobResponse, kw_only=True):
    """A durable job: it will run, or may have run where the request was a repetition."""

    accepted: Literal[True] = True
    job: Annotated[JobOut, msgspec.Meta(extra_json_schema=_MADE_HERE)]


class CancelResponse(ApiResponse, kw_only=True):
    """One job, ended or being canceled, with its events."""

    job: JobWithEventsOut


class StatusResponse(ApiResponse, kw_only=True):
    """One job with events and result."""

    job: JobStatusOut


class EncodedStatusResponse(ApiResponse, kw_only=True):
    """The same around an encoded job."""

    job: msgspec.Raw


class SyncResponse(ApiResponse, kw_only=True):
    """The result of a synchronous request."""

    result: JsonValue
    result_id: Uuid
    job_id: Uuid
    #: the job that computed the result, where it was reused
    reused_from: str | msgspec.UnsetType = msgspec.UNSET


class ResultResponse(ApiResponse, kw_only=True):
    """A snapshot, and the status of its job."""

    result_id: str
    job_id: str
    job_status: Status
    cancel_reason: str | None
    error_code: str | None
    result_kind: ResultKind
    result_seq: Count
    created_at: datetime
    result: JsonValue
    summary: JsonValue
    requested_result_id: str
    requested_result_kind: ResultKind
    projection_mode: Literal["latest", "requested"]


class ViewsResponse(ApiResponse, kw_only=True):
    """The views of a snapshot."""

    result_id: str
    job_id: str
    result_kind: ResultKind
    result_seq: Count
    views: Views


class JobsResponse(ApiResponse, kw_only=True):
    """A page of an org's jobs."""

    jobs: list[JobOut]
    next_cursor: str | None


class EventsResponse(ApiResponse, kw_only=True):
    """A page of a job's log."""

    events: list[EventOut]
    next_after: Count
    expired: bool


class FeedResponse(ApiResponse, kw_only=True):
    """A page of an org's feed."""

    events: list[CloudEvent]
    #: the position of the next page
    next_after: str
    #: whether more events may be available already
    more: bool


class ResultsResponse(ApiResponse, kw_only=True):
    """A job's snapshots."""

    results: list[SnapshotOut]


class NotificationsResponse(ApiResponse, kw_only=True):
    """A job's messages."""

    notifications: list[NotificationOut]


class InboxResponse(ApiResponse, kw_only=True):
    """A page of an org's inbox, and the number of all its unread messages, counted up to 1,000."""

    notifications: list[InboxOut]
    unread: Count
    next_cursor: str | None


class InboxReadResponse(ApiResponse, kw_only=True):
    """Whether any message was unread before, and how many are unread now."""

    changed: bool
    unread: Count


class HistoryResponse(ApiResponse, kw_only=True):
    """A page of an org's history."""

    history: list[HistoryEntryOut]
    total: Count
    limit: Count
    offset: Count


class KeysResponse(ApiResponse, kw_only=True):
    """An org's keys."""

    keys: list[KeyOut]


class ProvenanceResponse(ApiResponse, kw_only=True):
    """How a snapshot came about, or the same as a document of W3C PROV-JSON."""

    provenance: Provenance


class PauseResponse(ApiResponse, kw_only=True):
    """A pause as it is stored."""

    pause: PauseOut


class ResumeResponse(ApiResponse, kw_only=True):
    """Whether there was a pause to end."""

    resumed: bool


class KeyResponse(ApiResponse, kw_only=True):
    """One key, with the same fields as in a list."""

    key_id: str
    org_id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class CreatedKeyResponse(KeyResponse, kw_only=True):
    """A new key with its text, which cannot be read again."""

    key: str


class TokenResponse(ApiResponse, kw_only=True):
    """A token that reads one job and nothing else."""

    token: str
    token_type: Literal["Bearer"]
    expires_at: datetime
    job_id: str


class HealthResponse(ApiResponse, kw_only=True):
    """The process is up, or ready."""

    status: Literal["up", "ready"]


class SchedulesResponse(ApiResponse, kw_only=True):
    """An org's schedules."""

    schedules: list[ScheduleOut]


class ScheduleResponse(ApiResponse, kw_only=True):
    """One schedule."""

    schedule: ScheduleOut


class ScheduleRunsResponse(ApiResponse, kw_only=True):
    """One schedule with its newest runs."""

    schedule: ScheduleOut
    runs: list[JobOut]


class RemovedScheduleResponse(ApiResponse, kw_only=True):
    """The name of the removed schedule."""

    name: str


class EndpointsResponse(ApiResponse, kw_only=True):
    """An org's endpoints."""

    webhooks: list[EndpointOut]


class EndpointResponse(ApiResponse, kw_only=True):
    """One endpoint."""

    webhook: EndpointOut


class CreatedEndpointResponse(EndpointResponse, kw_only=True):
    """An endpoint with its new secret, which cannot be read again."""

    secret: Annotated[str, msgspec.Meta(pattern="^whsec_")]


class OrgSecretResponse(ApiResponse, kw_only=True):
    """The secret for the webhooks that the org's jobs name and, during a change, the previous one.

    Both are null where the operator has set no `LANGLAUF_WEBHOOK_SECRET`.
    """

    secret: Annotated[str, msgspec.Meta(pattern="^whsec_")] | None
    former_secret: Annotated[str, msgspec.Meta(pattern="^whsec_")] | None


class RemovedEndpointResponse(ApiResponse, kw_only=True):
    """The id of the removed endpoint."""

    endpoint_id: str


class WebhookTestResponse(ApiResponse, kw_only=True):
    """The result of a test event: `taken` says whether the receiver answered with 2xx."""

    taken: bool
    seconds: Seconds
    status_code: int | None
    error: str | None
    reply: str | None


class DeliveriesResponse(ApiResponse, kw_only=True):
    """A page of an org's deliveries."""

    deliveries: list[DeliveryOut]
    next_cursor: str | None


class DeliveryResponse(ApiResponse, kw_only=True):
    """One delivery with its attempts, the last one first."""

    delivery: DeliveryOut
    attempts: list[AttemptOut]


class ReplayedDeliveryResponse(ApiResponse, kw_only=True):
    """A delivery that is pending again."""

    delivery: DeliveryOut


class ReplayResponse(ApiResponse, kw_only=True):
    """How many deliveries are pending again; `more` says that another call would replay others."""

    replayed: Count
    more: bool
