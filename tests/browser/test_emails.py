"""Mails as a browser shows them: readable by everybody, on a phone and in the dark, and nothing fetched for them."""

from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.delivery import Delivery
from langlauf.domain.job import JobRecord
from langlauf.domain.mail import JobEnding
from langlauf.domain.state import Status
from langlauf.settings import load_settings
from langlauf.ui.emails import EmailWriter, sample_email
from langlauf.ui.language import LANGUAGES
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.support.stores import START

PUBLIC = "https://jobs.example/a/long/way/to/where/the/application/is/mounted/behind/a/proxy"
#: Words that cannot be broken where one would break them.
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2


def job(status: Status) -> JobRecord:
    """A job that has ended, whose texts are as long as they may be."""
    return JobRecord(
        job_id=new_id(),
        org_id="acme." * 20,
        analysis=LONG,
        status=status,
        priority_class="default",
        request_payload_hash="0" * 64,
        request_payload_ref="inline:",
        queued_at=START,
        updated_at=START,
        timeout_seconds=60.0,
        max_retries=0,
        trace_id=new_trace_id(),
        request_id=new_id(),
        partial_count=1,
        result_id=new_id(),
        started_at=START + 90_000_000,
        finished_at=START + 95_000_000,
        error_code="address_intel",
        error_message=f"{LONG}\nnext line {LONG}",
        retry_hint="check_input_and_retry",
    )


def letters(code: str) -> list[str]:
    """The HTML of every kind of mail in a language."""
    writing = EmailWriter(load_settings({"LANGLAUF_PUBLIC_URL": PUBLIC, "LANGLAUF_MAIL_LANGUAGE": code}))
    summary = msgspec.json.encode({LONG: LONG, "places": 12}).decode()
    made = [sample_email(code).html]
    for told in (Status.COMPLETED, Status.FAILED):
        one = job(told)
        delivery = Delivery(
            org_id=one.org_id,
            notification_id=new_id(),
            job_id=one.job_id,
            channel="email",
            template_key=f"async.job.{told}",
            created_at=START,
            payload_json="{}",
            attempt=1,
            try_number=1,
            target="who@mail.example",
            lane="mail",
            endpoint_id=None,
            version=None,
            former_until=None,
            lane_failures=0,
            traceparent=None,
        )
        made += [
            writing.about(delivery, known).html for known in (JobEnding(job=one, summary_json=summary), JobEnding())
        ]
    return made


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 700)])
def test_every_mail_can_be_read(browser: Browser, scheme: Literal["light", "dark"], width: int) -> None:
    """Axe finds nothing serious, contrast included; nothing is wider than the window; nothing is asked of any host."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for code in LANGUAGES:
        for html in letters(code):
            page.set_content(html)
            assert_fits(page)
            if code == LANGUAGES[0]:  # the other one has other words, and the same elements and colours
                assert_accessible(page)
    assert asked == []
    context.close()
