"""The four figures that tell most, each with a chart and a sentence about it."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from langlauf.domain.figures import Figures
from langlauf.domain.periods import Times
from langlauf.ui.drawing import Bar, bars, sparkline
from langlauf.ui.language import Language
from langlauf.ui.ops.words import NONE, amount, lasting


class Tile(msgspec.Struct, frozen=True):
    """One figure."""

    name: str
    label: Markup
    value: str
    sentence: Markup
    chart: Markup


def tiles(seen: Figures, language: Language) -> list[Tile]:
    """What waits, how much is done, and how long waiting and running take."""
    waits = [period.wait_p95 for period in seen.periods]
    runs = [period.run_p95 for period in seen.periods]
    return [
        _waiting(seen, language),
        _done(seen, language),
        _times("wait", language.say("ops.wait"), seen.total.wait, waits, language),
        _times("run", language.say("ops.run"), seen.total.run, runs, language),
    ]


def _waiting(seen: Figures, language: Language) -> Tile:
    label, values = language.say("ops.waiting"), [period.waiting for period in seen.periods]
    most = max((value for value in values if value is not None), default=None)
    sentence = language.say("ops.waiting.most", most=NONE if most is None else amount(most))
    chart = sparkline("waiting", f"{label}. {sentence}", values)
    return Tile("waiting", label, amount(seen.total.waiting), sentence, chart)


def _done(seen: Figures, language: Language) -> Tile:
    label, total = language.say("ops.done"), seen.total
    sentence = language.say("ops.done.sum", ended=amount(total.ended), failed=amount(total.failed))
    values = [None if period.ended is None else Bar(period.ended, period.failed or 0) for period in seen.periods]
    chart = bars("done", f"{label}. {sentence}", values)
    return Tile("done", label, amount(total.ended / seen.minutes), sentence, chart)


def _times(name: str, label: Markup, times: Times | None, values: Sequence[float | None], language: Language) -> Tile:
    sentence = language.say("ops.half", half=lasting(times.p50 if times else None))
    chart = sparkline(name, f"{label}. {sentence}", values)
    return Tile(name, label, lasting(times.p95 if times else None), sentence, chart)
