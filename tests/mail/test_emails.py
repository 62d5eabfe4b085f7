"""What stands in a letter: the end of a job in two languages and two forms, and nothing that its texts smuggle in."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from itertools import product
from typing import Any

import msgspec
import pytest

from langlauf.clock import new_id
from langlauf.delivery.mail import encode_email, read_job_ending
from langlauf.domain.attempt import Partial
from langlauf.domain.delivery import Delivery, DeliveryClaim, DeliveryEnd, Subscription
from langlauf.domain.errors import PermanentError, RetryHint
from langlauf.domain.mail import Email, MailSender, message_id
from langlauf.domain.outcome import MOST_LOST_LEASES, Completed, Failed, after_failure, after_loss, classify
from langlauf.domain.redact import MASK
from langlauf.domain.result import RetentionPolicy
from langlauf.settings import BY_NAME, load_settings
from langlauf.store.protocol import Store
from langlauf.ui.emails import EmailWriter, one_line, sample_email
from langlauf.ui.formats import zone_name
from langlauf.ui.language import LANGUAGES, load_language
from tests.support.stores import SetClock, opened
from tests.support.submissions import ORG, claim, new_job

PUBLIC = "https://jobs.example/app/"
SENDER = MailSender("jobs@sender.example", "Jobs")
TO = "who@mail.example"
#: Hostile names of analyses and inputs.
HOSTILE = (
    "x\r\nBcc: victim@other.example",
    "x\nSubject: another\n\nbody",
    "<script>alert(1)</script>",
    "</td></table><img src=https://evil.example/x.png>",
    "{{ 7 * 7 }}{% raw %}{org}",
    "\u202eevil\u2066\u200f\u061c hidden \ufeff\u200b",
    "=?utf-8?q?Bcc=3A_victim=40other.example?=",
    "a\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029b",
    "🏔️ Zürich, Ωμέγα, 東京 \U0010ffff " * 3,
    "x" * 10_000,
    "A very long name, with, commas; and <angle@brackets.example>, " * 5,
)


class Scene(msgspec.Struct):
    """A store with a job that was submitted with the wish for a mail."""

    store: Store
    clock: SetClock
    letters: EmailWriter

    async def ended(
        self, end: Completed | Failed, *, language: str | None = "en", analysis: str = "survey"
    ) -> Delivery:
        """The message about a job that ended like that."""
        wish = Subscription(channel="email", target=TO, lane="mail", language=language)
        await self.store.submit(new_job(self.clock, analysis=analysis, subscriptions=(wish,)))
        self.clock.pass_(90)
        [held] = await claim(self.store, analyses=(analysis,))
        self.clock.pass_(5)
        await self.store.record(held.lease, Partial(result_id=new_id(), payload="{}"))
        assert await self.store.record(held.lease, end)
        [delivery] = await self.store.deliveries.claim(
            DeliveryClaim(most=1, most_of_lane=1, claim_seconds=30, cautious_after=3)
        )
        sent = DeliveryEnd(
            org_id=delivery.org_id,
            notification_id=delivery.notification_id,
            attempt=delivery.attempt,
            status="sent",
            seconds=0.1,
        )
        assert await self.store.deliveries.finish(sent)
        return delivery

    async def about(self, delivery: Delivery, letters: EmailWriter | None = None) -> Email:
        """The letter of a message."""
        return (letters or self.letters).about(delivery, await read_job_ending(self.store, delivery))

    async def letter(self, end: Completed | Failed, **how: Any) -> Email:
        """The letter about it."""
        return await self.about(await self.ended(end, **how))


def play(use: Callable[[Scene], Awaitable[Any]], **settings: str) -> Any:
    """Runs a scene over a store in memory."""

    async def run() -> Any:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            return await use(Scene(store, clock, EmailWriter(load_settings(settings))))

    return asyncio.run(run())


def completed(summary: Any = None) -> Completed:
    return Completed(
        result_id=new_id(),
        payload='{"hidden": 1}',
        summary=None if summary is None else msgspec.json.encode(summary).decode(),
    )


def failed(message: str = "no such place", hint: RetryHint | None = None) -> Failed:
    return Failed(code="address_intel", message=message, retryable=False, hint=hint)


def received(letter: Email) -> EmailMessage:
    """The email as its receiver reads it."""
    sent = encode_email(letter, sender=SENDER, to=TO, message_id=message_id(new_id(), SENDER), now=0)
    read = message_from_bytes(sent, policy=default)
    assert isinstance(read, EmailMessage)
    return read


class Tags(HTMLParser):
    """Which elements a page has, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.places: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.places += [value or "" for name, value in attributes if name in {"href", "src", "action", "background"}]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_completed_job_in_both_languages(language: str) -> None:
    """What ran, for whom, when, how long, what came out, where to look, and why the reader gets this."""

    async def scene(scene: Scene) -> tuple[Email, Delivery]:
        delivery = await scene.ended(completed({"places": 12, "note": "fine"}), language=language)
        return await scene.about(delivery), delivery

    letter, delivery = play(scene, LANGLAUF_PUBLIC_URL=PUBLIC)
    say = load_language(language).plain
    ended = datetime(2026, 2, 2, 2, 41, tzinfo=UTC).astimezone()
    assert letter.subject == say("mail.completed.subject", analysis="survey", org=ORG)
    result_id = msgspec.json.decode(delivery.payload_json)["result_id"]
    for text in (letter.text, letter.html):
        for part in (
            say("mail.completed.title", analysis="survey"),
            ORG,
            f"{ended:{say('mail.time_format')}} {zone_name(ended)}",
            say("mail.took_waiting", took="5.0 s" if language == "en" else "5,0 s", waited="1 min 30 s"),
            "Places",
            "12",
            f"https://jobs.example/app/results/{result_id}",
            say("mail.why"),
        ):
            assert part in text
        assert "hidden" not in text.replace("overflow:hidden", "")
    assert f'lang="{language}"' in letter.html


@pytest.mark.parametrize(
    ("language", "advice"),
    [("en", "The cause is probably the input"), ("de", "Die Ursache ist wohl die Eingabe")],
)
def test_a_bare_exception_is_only_probably_the_input(language: str, advice: str) -> None:
    """A ValueError may be a bug, so the letter says so; a refusal of the analysis says to check the input."""

    async def scene(scene: Scene) -> tuple[Email, Email]:
        bare, refusal = (
            after_failure(classify(error), 0, 0, 0.0) for error in (ValueError("not a number"), PermanentError("no"))
        )
        assert isinstance(bare, Failed)
        assert isinstance(refusal, Failed)
        return await scene.letter(bare, language=language), await scene.letter(refusal, language=language)

    bare, refusal = play(scene)
    assert advice in bare.text
    assert advice in bare.html
    assert advice not in refusal.text
    assert load_language(language).plain("hint.check_input_and_retry") in refusal.text


def test_an_error_of_langlauf_itself_is_in_the_language_of_the_letter() -> None:
    """The stored message is English."""

    async def scene(scene: Scene) -> Email:
        lost = after_loss(cancel_requested=False, cancel_reason=None, lost_before=MOST_LOST_LEASES)
        assert isinstance(lost, Failed)
        return await scene.letter(lost, language="de")

    letter = play(scene)
    for text in (letter.text, letter.html):
        assert "Der Worker verschwand 10-mal, während dieser Job lief." in text
        assert "vanished" not in text


def test_a_failed_job_says_what_may_help() -> None:
    """Its message and its code as they are, the hint in words, and that the last partial is kept."""
    hints: tuple[RetryHint | None, ...] = ("retry_with_backoff", "check_input_and_retry", None)

    async def scene(scene: Scene) -> None:
        for language, hint in product(LANGUAGES, hints):
            letter = await scene.letter(failed("first\nsecond", hint), language=language)
            say = load_language(language).plain
            for text in (letter.text, letter.html):
                for part in ("first", "second", "address_intel", say(f"hint.{hint or 'none'}"), say("mail.kept")):
                    assert part in text

    play(scene)


def test_the_language_is_that_of_the_wish_else_the_usual_one() -> None:
    """One that we do not have is as none; a region is no other language."""

    async def scene(scene: Scene) -> None:
        for asked, usual, given in (("de", "en", "de"), (None, "de", "de"), ("fr", "de", "de"), ("de-CH", "en", "de")):
            letters = EmailWriter(load_settings({"LANGLAUF_MAIL_LANGUAGE": usual}))
            letter = await scene.about(await scene.ended(completed(), language=asked), letters)
            assert letter.language == given

    play(scene)
    for code in LANGUAGES:
        assert BY_NAME["mail_language"].read(code) == code
    with pytest.raises(ValueError, match=", ".join(LANGUAGES)):
        BY_NAME["mail_language"].read("fr")


def test_without_a_public_address_there_is_no_link() -> None:
    """But the id, and a sentence."""
    letter = play(lambda scene: scene.letter(completed()))
    assert "://" not in letter.text
    assert Tags(letter.html).places == []
    assert load_language("en").plain("mail.no_link") in letter.text


def test_secrets_are_masked_as_on_pages() -> None:
    """In a summary by name and by look, and in a message."""
    summary = {"token": "abc123", "note": "Bearer abcdefghijkl", "deep": {"password": "hunter2hunter2"}, "fine": "yes"}
    letter = play(lambda scene: scene.letter(completed(summary)))
    other = play(lambda scene: scene.letter(failed("password=hunter2hunter2 is wrong")))
    for text in (letter.text, letter.html, other.text, other.html):
        assert MASK in text
        for secret in ("abc123", "abcdefghijkl", "hunter2"):
            assert secret not in text
    assert "yes" in letter.text


def test_a_large_summary_is_for_the_page() -> None:
    """A few lines are shown of a long one, none of one that is too large; each says that there is more."""
    more = load_language("en").plain("mail.summary_more")
    long = play(lambda scene: scene.letter(completed({f"name {number}": number for number in range(40)})))
    assert "Name 9" in long.text
    assert "Name 10" not in long.text
    assert more in long.text
    large = play(lambda scene: scene.letter(completed({"big": "x" * 5_000})))
    assert "big" not in large.text
    assert more in large.text
    assert len(large.html) < 20_000


def test_no_text_of_a_job_gets_out_of_its_place() -> None:
    """Not as a header, not as markup, not as a line of ours, not by turning the direction of writing."""

    async def scene(scene: Scene) -> list[Email]:
        made = []
        for text, language in product(HOSTILE, LANGUAGES):
            for end in (completed({text: text, "plain": [text]}), failed(text)):
                made.append(await scene.letter(end, analysis=text, language=language))  # noqa: PERF401 - each after the other
        return made

    for letter in play(scene, LANGLAUF_PUBLIC_URL=PUBLIC):
        read = received(letter)
        assert sorted(read.keys()) == sorted(
            [
                "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress",
                "MIME-Version", "Content-Type", "Content-Language",
            ]
        )  # fmt: skip
        assert str(read["To"]) == TO
        assert len(str(read["Subject"])) <= 150
        assert str(read["Subject"]) == letter.subject
        plain, html = (part.get_content() for part in read.iter_parts())
        for shown in (letter.subject, plain, html):
            assert not re.search(
                "[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u061c\ufeff\u2028\u2029\x1b\x7f\x85]", shown
            )
        assert not re.search(r"(?m)^(Bcc|Subject):", plain)
        tags = Tags(html)
        assert not tags.names & {"script", "img", "iframe", "form", "link", "object", "svg"}
        assert {place[: len(PUBLIC)] for place in tags.places} == {PUBLIC}
        assert "49" not in letter.subject
        assert len(html) < 20_000


def test_a_line_is_cut_and_cleaned() -> None:
    """What cannot be seen goes, what is too long is cut, and words stay words."""
    assert one_line(" a\r\nb\tc\u202e d ", 80) == "a b c d"
    assert one_line("word " * 100, 20) == "word word word word…"
    assert one_line("\ud800x\x00", 10) == "x"


def test_what_retention_took_is_missing_and_nothing_else() -> None:
    """First the result, then the whole job: the letter, sent again, is still one."""

    async def scene(scene: Scene) -> list[Email]:
        delivery = await scene.ended(completed({"places": 12}))
        letters = []
        for jobs in (10**9, 0.0):
            scene.clock.pass_(86_400)
            policy = RetentionPolicy(final_results=0.0, partial_results=0.0, events=0.0, jobs=jobs)
            await scene.store.retire(policy, dry_run=False)
            letters.append(await scene.about(delivery))
        return letters

    without_result, without_job = play(scene, LANGLAUF_PUBLIC_URL=PUBLIC)
    say = load_language("en").plain
    assert without_result.subject == f"Completed: survey ({ORG})"
    assert say("mail.result_expired") in without_result.text
    assert "places" not in without_result.text
    [place] = Tags(without_result.html).places
    assert place.startswith(f"{PUBLIC}jobs/")
    assert without_job.subject.startswith("Completed: Job ")
    assert say("mail.gone") in without_job.text
    assert Tags(without_job.html).places == []


def test_the_letter_of_a_trial() -> None:
    """The test mail, in each language."""
    for code in LANGUAGES:
        letter = sample_email(code)
        say = load_language(code).plain
        assert letter.subject == say("mail.test.subject")
        assert say("mail.test.text") in letter.text
        assert say("mail.test.text") in letter.html
        assert received(letter)["Content-Language"] == code


def test_a_long_domain_does_not_break_the_message_id() -> None:
    """It stays one word, whatever the length of the line."""
    sender = MailSender("jobs@" + ".".join(["a" * 60] * 3) + ".example")
    mark = message_id(new_id(), sender)
    sent = encode_email(sample_email("en"), sender=sender, to=TO, message_id=mark, now=0)
    assert message_from_bytes(sent, policy=default)["Message-ID"].strip() == mark
