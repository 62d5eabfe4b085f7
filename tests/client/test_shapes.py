"""The client's shapes against the server's: neither may gain or lose a member without the other."""

import msgspec
import pytest

from langlauf.api import schemas
from langlauf.client import shapes
from langlauf.domain import outbound

#: What every answer has; the client has no use for it.
ENVELOPE = {"ok", "request_id"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (shapes.JobSummary, schemas.JobOut),
        (shapes.JobState, schemas.JobStatusOut),
        (shapes.Event, schemas.EventOut),
        (shapes.Snapshot, schemas.SnapshotOut),
        (shapes.Notification, schemas.NotificationOut),
        (shapes.OrgEvent, outbound.CloudEvent),
        (shapes.OrgEventData, outbound.JobNews),
    ],
)
def test_records_have_the_same_members(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """What the server tells of a thing, the client hands out."""
    assert set(ours.__struct_fields__) == set(theirs.__struct_fields__)


def test_a_result_has_the_same_members() -> None:
    """A result is an answer by itself; its envelope is left out."""
    assert set(shapes.Result.__struct_fields__) == set(schemas.ResultAnswer.__struct_fields__) - ENVELOPE


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (shapes.JobAnswer, schemas.AcceptedAnswer),
        (shapes.JobAnswer, schemas.JobAnswer),
        (shapes.StateAnswer, schemas.StatusAnswer),
        (shapes.EventsAnswer, schemas.EventsAnswer),
        (shapes.FeedAnswer, schemas.FeedAnswer),
        (shapes.JobsAnswer, schemas.JobsAnswer),
        (shapes.SnapshotsAnswer, schemas.ResultsAnswer),
        (shapes.NotificationsAnswer, schemas.NotificationsAnswer),
    ],
)
def test_answers_have_what_is_read_of_them(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    """The client reads nothing of an answer that the server does not send."""
    assert set(ours.__struct_fields__) <= set(theirs.__struct_fields__)
