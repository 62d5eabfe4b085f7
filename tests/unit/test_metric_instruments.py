"""How something is counted: what a scraper reads is what was counted, and labels stay few."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as LibraryHistogram

from langlauf.background import PeriodicDuty
from langlauf.clock import made_at, new_id
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.read_models import MOST_NAMED_ORGS, largest_counts
from langlauf.problems import JOB_TITLES
from langlauf.store.group_commit import GroupCommit
from langlauf.telemetry import metrics
from langlauf.telemetry.instruments import Counter, Gauge, Histogram, Instrument


class _One:
    """A registry of one metric."""

    def __init__(self, instrument: Counter | Histogram) -> None:
        self._instrument = instrument

    def collect(self) -> list[object]:
        """That one."""
        return [self._instrument.family()]


def _lines(registry: object) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]  # type: ignore[arg-type]


def test_a_histogram_exports_what_the_library_does_for_the_same_values() -> None:
    """Buckets, bounds that are met exactly, what is beyond all of them, sum and count."""
    bounds, values = (0.5, 1, 2.5), (0.1, 0.5, 0.75, 1, 2.4, 3, 30)
    ours = Histogram("x_seconds", "Some seconds.", "kind", bounds=bounds)
    registry = CollectorRegistry()
    theirs = LibraryHistogram("x_seconds", "Some seconds.", ["kind"], buckets=bounds, registry=registry)
    for value in values:
        ours.observe(value, "a")
        theirs.labels("a").observe(value)
    ours.observe(7, "b")
    theirs.labels("b").observe(7)
    assert sorted(_lines(_One(ours))) == sorted(_lines(registry))
    assert (ours.count("a"), ours.count("none")) == (7, 0)


def test_a_counter_exports_0_once_initialized() -> None:
    """Without labels from the start, with labels once initialized; a label value may be any text."""
    counter = Counter("x_total", "Some.", "kind")
    counter.initialize("a")
    counter.add('b"\n', by=2)
    counter.initialize('b"\n')
    assert _lines(_One(counter))[2:] == ['x_total{kind="a"} 0.0', 'x_total{kind="b\\"\\n"} 2.0']
    assert _lines(_One(Counter("y_total", "Some.")))[2:] == ["y_total 0.0"]


def test_names_say_what_they_count() -> None:
    """Ours by their first word, counters by their last, units in full, each once, each with a sentence."""
    names = [instrument.name for instrument in metrics.INSTRUMENTS]
    assert len(names) == len(set(names)) > 40
    for instrument in metrics.INSTRUMENTS:
        assert instrument.name.startswith("langlauf_")
        assert instrument.name.endswith("_total") == isinstance(instrument, Counter), instrument.name
        assert instrument.help.endswith("."), instrument.name
        assert not instrument.name.endswith(("_ms", "_mb", "_minutes"))
    assert {type(instrument) for instrument in metrics.INSTRUMENTS} == {Counter, Histogram, Gauge}
    assert all(isinstance(instrument, Instrument) for instrument in metrics.INSTRUMENTS)


def test_labels_stay_few() -> None:
    """Codes of an analysis' own and analyses of other programs are `other`; every code of ours has its name."""
    assert metrics.code_label(None) == ""
    assert metrics.code_label("address_intel") == "other"
    assert {metrics.code_label(code) for code in JOB_TITLES} == set(JOB_TITLES)
    assert metrics.analysis_label("of another program") == "other"
    metrics.register_analyses(["of-this-test"])
    assert metrics.analysis_label("of-this-test") == "of-this-test"


def test_the_largest_are_named_and_the_rest_is_one() -> None:
    """Also where an org has the name of the rest."""
    counts = {f"org-{number:02}": number for number in range(1, MOST_NAMED_ORGS + 4)}
    told = largest_counts(counts)
    assert len(told) == MOST_NAMED_ORGS + 1
    assert (told["other"], "org-03" in told, "org-04" in told) == (1 + 2 + 3, False, True)
    assert largest_counts({"other": 50, "a": 1}) == {"a": 1, "other": 50}
    assert largest_counts({"a": 1}) == {"a": 1}


def test_an_id_says_when_it_was_made() -> None:
    """Ours do; others say nothing."""
    first, made = made_at(new_id()), made_at("0190163d-8694-739b-aea5-966c26f8ad91")
    assert first is not None
    assert made == 0x0190163D8694 * 1_000
    for other in ("", "job-1", "0190163d-8694-439b-aea5-966c26f8ad91", "zzzzzzzz-zzzz-7zzz-aaaa-aaaaaaaaaaaa"):
        assert made_at(other) is None


def test_what_a_store_does_not_take_is_counted() -> None:
    """One by one, whoever shared the batch; a write that is refused for its own sake is not the store's fault."""

    async def run(batch: object) -> list[object]:
        words = {"away": StoreUnavailable("away"), "wrong": ValueError("wrong")}
        return [words.get(str(one), one) for one in batch]  # type: ignore[attr-defined]

    async def body() -> None:
        queue: GroupCommit[str, str] = GroupCommit(run, name="langlauf-of-this-test")  # type: ignore[arg-type]
        given = [queue.do(word) for word in ("fine", "away", "wrong", "away")]
        await asyncio.gather(*given, return_exceptions=True)

    asyncio.run(body())
    assert metrics.REFUSED.value("of-this-test") == 2
    assert metrics.BATCHES.count("of-this-test") == metrics.BATCH_SIZES.count("of-this-test") >= 1


@pytest.mark.parametrize("fails", [True, False])
def test_a_duty_tells_its_last_success_and_not_its_last_try(fails: bool) -> None:
    """A round that failed leaves the age as it is."""
    name = f"duty-{fails}"

    async def body() -> None:
        rounds, twice = 0, asyncio.Event()

        async def action() -> None:
            nonlocal rounds
            rounds += 1
            if rounds > 1:
                twice.set()
            if fails:
                raise ValueError("no")

        duty = PeriodicDuty(name, 0.001, action)
        before = duty.succeeded_at
        await duty.start()
        began = duty.succeeded_at
        await twice.wait()
        await duty.stop()
        assert before <= began
        assert (duty.succeeded_at > began) is not fails

    asyncio.run(body())
    counted = metrics.DUTIES.value(name, "failed"), metrics.DUTIES.value(name, "done")
    assert (counted[0] > 0, counted[1] > 0) == (fails, not fails)
