"""The texts: the same keys in both languages, none missing, none left over; and values that people read."""

import re
from itertools import product
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from langlauf.domain.delivery import CHANNELS, MAIL_SUBJECTS, SUBJECTS, TEMPLATES, DeliveryStatus
from langlauf.domain.errors import SENTENCES
from langlauf.domain.event import EventType
from langlauf.domain.health import OPS_RULES
from langlauf.domain.job import LimitReached, Phase
from langlauf.domain.schedule import Missed, RunOverlap
from langlauf.domain.state import TERMINAL, Status
from langlauf.domain.statistics import TimeRange
from langlauf.service.webhooks import EndpointHealth
from langlauf.ui import form_validation, formats
from langlauf.ui.language import LANGUAGES, PHRASES, load_language
from langlauf.ui.page_request import RANGES, THEMES, ListFilters
from langlauf.ui.pages.ended_jobs import ALL_TIME
from langlauf.ui.pages.job_list import AGAIN, CANCEL
from langlauf.ui.pages.job_timeline import EVENT_FILTERS
from langlauf.ui.pages.public import PROBLEM_CODES
from langlauf.ui.pages.result_comparison import ChangeKind
from langlauf.ui.pages.schedules import SCHEDULE_FIELDS
from langlauf.ui.pages.submit_form import NOTIFY_FIELDS, OPTION_FIELDS
from langlauf.ui.renderer import NAVIGATION
from langlauf.ui.views.chart_renderer import ChartTrouble
from langlauf.ui.views.chart_spec import ChartRefusal
from langlauf.ui.views.stored_views import AnyRawView

_LITERAL = re.compile(r"""\b(?:t|text|plain)\(\s*["']([a-z_.]+)["']\s*[,)]""")
_MISSING = re.compile(r"""missing(?:: str)? ?= ?"([a-z_.]+)\"""")
_NAMED = re.compile(r"""texts\[["']([a-z_.]+)["']\]""")

ENGLISH = load_language("en")


def used_keys() -> set[str]:
    """Every key that a template or a page names, and the families that are put together from known words."""
    room = Path(formats.__file__).parent
    sources = [*room.rglob("*.py"), *(room / "templates").rglob("*.html"), *(room / "templates").rglob("*.txt")]
    text = "\n".join(source.read_text() for source in sources)
    keys = {key for pattern in (_LITERAL, _MISSING, _NAMED) for key in pattern.findall(text)}
    faces = {formats.display_state(status, phase) for status, phase in possible_states()}
    keys |= {f"{family}.{face}" for family, face in product(("state", "help"), faces)}
    keys |= {f"nav.{name}" for name, _ in NAVIGATION}
    keys |= {f"form.error.{word}" for word in form_validation.ERROR_NAMES}
    keys |= {f"form.kind.{kind}" for kind in ("lines", "json", "date", "rows")}
    keys |= {f"form.choice.{value}" for value in ("true", "false", "default", "expedite")}
    keys |= {
        f"start.{option.html_name}{part}" for option, part in product((*OPTION_FIELDS, *NOTIFY_FIELDS), ("", ".text"))
    }
    keys |= {f"webhooks.health.{word}" for word in get_args(EndpointHealth)}
    keys |= {f"webhooks.subject.{word}" for word in SUBJECTS}
    keys |= {f"schedules.overlap.{word}" for word in get_args(RunOverlap)}
    keys |= {f"schedules.missed.{word}" for word in get_args(Missed)}
    keys |= {f"schedules.last.{word}" for word in ("skipped", "missed")}
    keys |= {
        f"schedules.{option.html_name}{part}"
        for option, part in product((*SCHEDULE_FIELDS, *NOTIFY_FIELDS), ("", ".text"))
    }
    keys |= {f"delivery.status.{word}" for word in get_args(DeliveryStatus)}
    keys |= {f"states.next.{face}" for face in faces}
    keys |= {f"{family}.theme.{theme}" for family, theme in product(("nav", "settings"), ("system", *THEMES))}
    keys |= {f"event.{kind}" for kind in EventType}
    keys |= {
        f"{family}.{limit}" for family, limit in product(("event.bound", "job.limit_reached"), get_args(LimitReached))
    }
    keys |= {f"problem.{code}.{part}" for code, part in product(PROBLEM_CODES, ("title", "means", "next"))}
    keys |= {f"result.kind.{kind}" for kind in ("partial", "final")}
    keys |= {f"field.where.{where}" for where in ("path", "query", "header")}
    keys |= {
        f"hint.{hint}" for hint in ("retry_with_backoff", "check_input_and_retry", "internal", "probably_input", "none")
    }
    keys |= {f"ending.canceled.{by}" for by in ("user", "system", "worker")}
    keys |= {f"tab.{tab}" for tab in ("all", *Status)}
    keys |= {f"range.{name}" for name in (*RANGES, ALL_TIME)}
    keys |= {f"lists.by.{name}" for name in ListFilters.__struct_fields__}
    keys |= {f"lists.bulk_outcome.{deed}" for deed in ("canceled", "repeated")}
    keys |= {
        f"selected.{action}.{part}"
        for action, part in product((CANCEL, AGAIN), ("title", "text", "left", "none", "keep", "do"))
    }
    keys |= {f"inbox.{told}" for told in TEMPLATES}
    keys |= {f"view.kind.{one.__struct_config__.tag}" for one in get_args(AnyRawView)}
    keys |= {f"view.sizes.{kind}" for kind in ("object", "list", "text", "number", "other")}
    keys |= {f"view.trouble.{why}" for why in (*get_args(ChartTrouble), *get_args(ChartRefusal))}
    keys |= {f"diff.{what}" for what in get_args(ChangeKind)}
    keys |= {f"job.cancel_by.{by}" for by in ("user", "system", "worker")}
    keys |= {f"job.timeline.{kind}" for kind in ("waiting", "backoff")}
    keys |= {f"job.events.{sort}" for sort in EVENT_FILTERS}
    keys |= {f"message.channel.{channel}" for channel in CHANNELS}
    keys |= {f"message.status.{status}" for status in get_args(DeliveryStatus)}
    keys |= {f"mail.{told}.{part}" for told, part in product(MAIL_SUBJECTS, ("subject", "title"))}
    keys |= {f"mail.test.{part}" for part in ("subject", "title", "text", "why")}
    keys |= {f"ops.health.{rule.name}" for rule in OPS_RULES}
    keys |= {f"ops.headline.{name}" for name in (*(rule.name for rule in OPS_RULES), "failures_most")}
    keys |= {f"ops.range.{span}" for span in TimeRange}
    keys |= {f"sentence.{name}" for name in SENTENCES}
    # Closed lists: `test_error_texts.py` compares them with what is stored.
    keys |= {key for key in ENGLISH.texts if key.startswith(PHRASES)}
    return keys


def possible_states() -> list[tuple[Status, Phase]]:
    """Every pair that a job can show."""
    ended = [(status, Phase.DONE) for status in TERMINAL]
    return ended + list(product(set(Status) - TERMINAL, set(Phase) - {Phase.DONE}))


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_text_is_missing_or_left_over(code: str) -> None:
    """What is used exists, and what exists is used."""
    texts = load_language(code).texts
    assert set(texts) - used_keys() == set()
    assert used_keys() - set(texts) == set()
    assert all(text.strip() for text in texts.values())


def test_both_languages_take_the_same_values() -> None:
    """The places for values have the same names."""
    first, second = (load_language(code).texts for code in LANGUAGES)

    def named(text: str) -> set[str]:
        return {name for _, name, _, _ in Formatter().parse(text) if name is not None}

    for key, text in first.items():
        assert named(text) == named(second[key]), key


def test_values_in_texts_are_escaped() -> None:
    """Also where the text itself has markup."""
    said = load_language("en").text("missing.text", org="<b>")
    assert "<strong>&lt;b&gt;</strong>" in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "Less than 10 s left"),
        (31.0, "About 40 s left"),
        (61.0, "About 2 min left"),
        (3_600.0, "About 1 h 0 min left"),
        (9_000.0, "About 2 h 30 min left"),
    ],
)
def test_estimates_are_coarse(seconds: float, words: str) -> None:
    """Rounded up, as sure as they are."""
    assert formats.format_estimate(seconds, load_language("en")) == words


def test_durations_and_sizes_are_short() -> None:
    """In the unit that fits."""
    assert [formats.format_duration(seconds, ENGLISH) for seconds in (0.04, 0.12, 59.0, 312.0, 7_260.0)] == [
        "40 ms", "0.1 s", "59.0 s", "5 min 12 s", "2 h 1 min",
    ]  # fmt: skip
    assert [formats.format_size(count, ENGLISH) for count in (12, 2_048, 3_145_728)] == ["12 B", "2 KiB", "3.0 MiB"]


def test_json_of_many_lines_shows_its_beginning() -> None:
    """The first lines, and that there are more; numbers stay as they were written."""
    many = formats.json_excerpt("[" + ",".join(["1"] * 6_000) + "]", ENGLISH)
    assert (many.complete, many.text.count("\n")) == (False, 199)
    whole = formats.json_excerpt('{"a":1.50,"b":12345678901234567890}', ENGLISH)
    assert (whole.complete, whole.text) == (True, '{\n  "a": 1.50,\n  "b": 12345678901234567890\n}')
