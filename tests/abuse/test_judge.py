"""The assert_answer of the corpus can say no: what it lets pass was looked at."""

import pytest

from tests.abuse.test_corpus import assert_answer
from tests.support.raw_http import Reply

BODY = (
    b'{"type":"/problems/bad_request","title":"x","status":400,"detail":"x","ok":false,"error":"bad_request",'
    b'"message":"x","request_id":"one"}'
)
HEADERS = {"x-request-id": "one", "content-type": "application/problem+json", "cache-control": "no-store"}
WRONG = {
    "a fault of the server": Reply(500, HEADERS, BODY),
    "no request id": Reply(400, {"content-type": "application/problem+json"}, BODY),
    "a header that was smuggled in": Reply(400, {**HEADERS, "x-injected": "1"}, BODY),
    "a cookie": Reply(400, {**HEADERS, "set-cookie": "a=b"}, BODY),
    "plain text": Reply(400, {**HEADERS, "content-type": "text/plain"}, BODY),
    "a member missing": Reply(400, HEADERS, BODY.replace(b'"message":"x",', b"")),
    "another status in the body": Reply(404, HEADERS, BODY),
    "a path": Reply(400, HEADERS, BODY.replace(b'"x","ok"', b'"/usr/lib/x.so","ok"')),
    "a statement": Reply(400, HEADERS, BODY.replace(b'"x","ok"', b'"SELECT 1","ok"')),
}


def test_a_good_answer_passes() -> None:
    """Else the others would show nothing."""
    assert_answer(Reply(400, HEADERS, BODY), "good")
    assert_answer(Reply(200, HEADERS, b"{}"), "good")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_does_not(name: str) -> None:
    """Each for its one flaw."""
    with pytest.raises(AssertionError):
        assert_answer(WRONG[name], name)
