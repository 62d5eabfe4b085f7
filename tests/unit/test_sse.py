"""Events as bytes, negotiation, and the parser that the tests of streams rely on."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.api.sse import HEARTBEAT, encode, opening, quality
from langlauf.domain.event import Event, EventType
from langlauf.domain.read_models import EventLogPage
from tests.support.event_stream import EventParser, ServerEvent

STREAM, JSON = "text/event-stream", "application/json"


def _event(seq: int, payload: str = "{}") -> Event:
    at = 1_770_000_000_000_000
    return Event("org-a", "job-1", seq, f"event-{seq}", EventType.PROGRESS, at, "worker", payload, "trace", "request")


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [("message", "a", "")]),
        (b"data:a\rdata: b\r\r", [("message", "a\nb", "")]),
        (b"id: 1\r\nevent: x\r\ndata:  a\r\n\r\ndata: b\r\n\r\n", [("x", " a", "1"), ("message", "b", "1")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("message", "a", "")]),
        (b"id: 5\n\ndata: a\n\n", [("message", "a", "5")]),
        (b"id: 5\ndata: a\n\nid\ndata: b\n\n", [("message", "a", "5"), ("message", "b", "")]),
        (b"id: a\0b\ndata: a\n\n", [("message", "a", "")]),
        (b"event: x\n\ndata: a\n\n", [("message", "a", "")]),
        (b": comment\n\ndata\n\n", [("message", "", "")]),
        (b"data: never finished\n", []),
    ],
)
def test_the_parser_follows_the_rules(data: bytes, events: list[tuple[str, str, str]]) -> None:
    """Whole, and byte by byte, which must not make a difference."""
    whole, pieces = EventParser(), EventParser()
    whole.feed(data)
    for place in range(len(data)):
        pieces.feed(data[place : place + 1])
    assert whole.events == pieces.events == [ServerEvent(*event) for event in events]


def test_the_opening_sets_the_pause_and_says_nothing_else() -> None:
    """Each client gets a pause of its own, in milliseconds, and no event."""
    pauses = set()
    for _ in range(50):
        parser = EventParser()
        assert parser.feed(opening("a log") + HEARTBEAT) == []
        assert parser.retry is not None
        assert 2_000 <= parser.retry < 4_000
        assert parser.unknown == []
        pauses.add(parser.retry)
    assert len(pauses) > 10


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=4))
def test_any_payload_comes_through_unchanged(payloads: list[dict[str, str]]) -> None:
    """Also where it holds line breaks, colons or what looks like a field."""
    texts = [msgspec.json.encode(payload).decode() for payload in payloads]
    page = encode(EventLogPage([_event(seq, text) for seq, text in enumerate(texts, 1)], more=False, over=False))
    parser = EventParser()
    found = parser.feed(page.body)
    assert [msgspec.json.decode(event.data)["payload_json"] for event in found] == payloads
    assert [event.last_event_id for event in found] == [str(seq) for seq in range(1, len(texts) + 1)]
    assert page.last == (len(texts) or None)


def test_stored_json_over_several_lines_stays_one_line() -> None:
    """An import may bring JSON that was laid out for people."""
    page = encode(EventLogPage([_event(1, '{\n  "a":\r\n 1}')], more=False, over=False))
    [event] = EventParser().feed(page.body)
    assert "\n" not in event.data
    assert msgspec.json.decode(event.data)["payload_json"] == {"a": 1}


@pytest.mark.parametrize(
    ("accept", "stream", "json"),
    [
        ("", 0, 0),
        ("*/*", 1, 1),
        ("text/event-stream", 1, 0),
        ("TEXT/Event-Stream", 1, 0),
        ("text/*", 1, 0),
        ("application/json, text/event-stream;q=0.5", 0.5, 1),
        ("text/event-stream;q=0.5, */*;q=0.8", 0.5, 0.8),
        ("*/*;q=0.1, text/event-stream", 1, 0.1),
        ("text/event-stream;q=0, */*", 0, 1),
        ("text/event-stream ; charset=utf-8 ; Q=0.7", 0.7, 0),
        ("text/event-stream;q=2", 0, 0),
        ("text/event-stream;q=nan", 0, 0),
        ("text/event-streams, application/jsonl", 0, 0),
        (",,;q=1,text/event-stream;", 1, 0),
    ],
)
def test_how_much_a_header_likes_each_form(accept: str, stream: float, json: float) -> None:
    """The closest range counts, with its weight; what cannot be read counts for nothing."""
    assert (quality(accept, STREAM), quality(accept, JSON)) == (stream, json)
