"""The client's models against the server's: neither may gain or lose a member without the other."""

import msgspec
import pytest

from langlauf.api import record_schemas as records
from langlauf.api import response_schemas as responses
from langlauf.client import models
from langlauf.domain import event as outbound

#: What every answer has; the client has no use for it.
ENVELOPE = {"ok", "request_id"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (models.JobSummary, records.JobOut),
        (models.JobState, records.JobStatusOut),
        (models.JobEvent, records.EventOut),
        (models.JobSnapshot, records.SnapshotOut),
        (models.JobNotification, records.NotificationOut),
        (models.OrgEvent, outbound.CloudEvent),
        (models.OrgEventData, outbound.JobEventData),
    ],
)
def test_records_have_the_same_members(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """What the server tells of a thing, the client hands out."""
    assert set(ours.__struct_fields__) == set(theirs.__struct_fields__)


def test_a_result_has_the_same_members() -> None:
    """A result is an answer by itself; its envelope is left out."""
    assert set(models.JobResult.__struct_fields__) == set(responses.ResultResponse.__struct_fields__) - ENVELOPE


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (models.JobEnvelope, responses.AcceptedResponse),
        (models.JobEnvelope, responses.JobResponse),
        (models.StateEnvelope, responses.StatusResponse),
        (models.EventsEnvelope, responses.EventsResponse),
        (models.FeedEnvelope, responses.FeedResponse),
        (models.JobsEnvelope, responses.JobsResponse),
        (models.SnapshotsEnvelope, responses.ResultsResponse),
        (models.NotificationsEnvelope, responses.NotificationsResponse),
    ],
)
def test_answers_have_what_is_read_of_them(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """The client reads nothing of an answer that the server does not send."""
    assert set(ours.__struct_fields__) <= set(theirs.__struct_fields__)
