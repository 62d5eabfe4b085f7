"""The page about webhooks: its receivers take what is really sent, and its figures are those of the code."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langlauf.domain.delivery_outcome import DISABLE_AFTER_SECONDS, PAUSE_AFTER_FAILURES, pause_after
from langlauf.domain.webhook import LONGEST_WEBHOOK_URL
from langlauf.settings import BY_NAME
from tests.delivery.rig import rig
from tests.docs.pages import blocks, read, rows, sections, words
from tests.support.receiver import receiving

PAGE = "docs/webhooks.md"
SAMPLE = "whsec_bGFuZ2xhdWYgdGVsbHMgeW91IHdoZW4gaXQgaXMgZG9uZQ=="
Receive = Callable[[Mapping[str, str], bytes], int]


def _receivers(secret: str) -> list[Receive]:
    """What the blocks of the page define, with the secret that was really shown."""
    found: list[Receive] = []
    for number, block in enumerate(blocks(PAGE, "python")):
        assert SAMPLE in block.text
        names: dict[str, Any] = {}
        exec(compile(block.text.replace(SAMPLE, secret), f"{PAGE}[{number}]", "exec"), names)  # noqa: S102
        found.append(names["receive"])
    return found


def test_the_receivers_of_the_page_take_what_is_sent_and_nothing_else(tmp_path: Path) -> None:
    with rig(tmp_path, LANGLAUF_PUBLIC_URL="https://jobs.example.org") as sending, receiving() as receiver:
        endpoint = sending.endpoint(receiver.url())
        sending.run_job()
        [arrived] = receiver.wait_for(1)
        receivers = _receivers(sending.secret(endpoint))
        strangers = _receivers(sending.secret(endpoint, version=2))
    assert len(receivers) == 2
    for receive, stranger in zip(receivers, strangers, strict=True):
        assert receive(arrived.headers, arrived.body) == 204
        assert receive(arrived.headers, arrived.body) == 204, "a repetition is fine"
        assert receive(arrived.headers, arrived.body + b" ") == 401
        assert receive({**arrived.headers, "webhook-timestamp": "1"}, arrived.body) == 401
        assert stranger(arrived.headers, arrived.body) == 401
    _same_shape(json.loads(arrived.body), json.loads(blocks(PAGE, "json")[0].text))
    documented = {word for cells in rows(sections(PAGE)["What is sent"]) for word in words(cells[0])}
    usual = {"host", "content-length", "connection", "accept"}
    assert arrived.headers.keys() - usual <= documented


def _same_shape(sent: dict[str, Any], shown: dict[str, Any]) -> None:
    assert sent.keys() == shown.keys()
    assert sent["data"].keys() == shown["data"].keys()
    for name in ("specversion", "source", "type", "datacontenttype"):
        assert sent[name] == shown[name]


def _shown(seconds: float) -> str:
    for unit, size in (("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def test_the_figures_are_those_of_the_code() -> None:
    page = " ".join(read(PAGE).split())
    schedule = BY_NAME["webhook_schedule"].default
    assert ", ".join(map(_shown, schedule)) in page
    assert len(schedule) + 1 == 10
    assert "ten attempts in a little over three days" in page
    assert 3 < sum(schedule) / 86_400 < 3.5
    assert f"`LANGLAUF_WEBHOOK_SECONDS` ({BY_NAME['webhook_seconds'].default:g} s)" in page
    assert f"up to {LONGEST_WEBHOOK_URL:,} characters" in page
    assert (PAUSE_AFTER_FAILURES, pause_after(PAUSE_AFTER_FAILURES), pause_after(1_000)) == (5, 60, 3_600)
    assert "After five failures in a row it is paused for a minute, then for two, up to an hour" in page
    assert DISABLE_AFTER_SECONDS == 5 * 86_400
    assert "for five days is disabled" in page
