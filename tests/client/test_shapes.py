"""The client's shapes against the server's: neither may gain or lose a member without the other."""

import msgspec
import pytest

from langlauf.api import record_schemas as records
from langlauf.api import response_schemas as responses
from langlauf.client import shapes
from langlauf.domain import outbound

#: What every answer has; the client has no use for it.
ENVELOPE = {"ok", "request_id"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (shapes.JobSummary, records.JobOut),
        (shapes.JobState, records.JobStatusOut),
        (shapes.Event, records.EventOut),
        (shapes.Snapshot, records.SnapshotOut),
        (shapes.Notification, records.NotificationOut),
        (shapes.OrgEvent, outbound.CloudEvent),
        (shapes.OrgEventData, outbound.JobEventData),
    ],
)
def test_records_have_the_same_members(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """What the server tells of a thing, the client hands out."""
    assert set(ours.__struct_fields__) == set(theirs.__struct_fields__)


def test_a_result_has_the_same_members() -> None:
    """A result is an answer by itself; its envelope is left out."""
    assert set(shapes.Result.__struct_fields__) == set(responses.ResultResponse.__struct_fields__) - ENVELOPE


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (shapes.JobAnswer, responses.AcceptedResponse),
        (shapes.JobAnswer, responses.JobResponse),
        (shapes.StateAnswer, responses.StatusResponse),
        (shapes.EventsAnswer, responses.EventsResponse),
        (shapes.FeedAnswer, responses.FeedResponse),
        (shapes.JobsAnswer, responses.JobsResponse),
        (shapes.SnapshotsAnswer, responses.ResultsResponse),
        (shapes.NotificationsAnswer, responses.NotificationsResponse),
    ],
)
def test_answers_have_what_is_read_of_them(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """The client reads nothing of an answer that the server does not send."""
    assert set(ours.__struct_fields__) <= set(theirs.__struct_fields__)
