"""The alerts of deploy/prometheus and the texts of /ops against the table of health rules."""

import json
import re
from typing import Any

import pytest
import yaml

from langlauf.domain.health import (
    DUTY_ROUNDS,
    DUTY_STOPPED,
    FAILURES,
    LARGE_LOG,
    MIN_ENDED,
    OPS_RULES,
    RULES,
    HealthRule,
    Severity,
)
from langlauf.store.sqlite.engine import LARGEST_LOG
from tests.docs.pages import ROOT

_SEVERITIES = {Severity.BAD: "critical", Severity.WARN: "warning"}
_WITH_ALERT = [rule for rule in RULES if rule.alert is not None]


def _alerts() -> dict[str, dict[str, Any]]:
    loaded = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8"))
    return {rule["alert"]: rule for group in loaded["groups"] for rule in group["rules"] if "alert" in rule}


def _compared(expression: str) -> set[float]:
    """The numbers that an expression compares with; products are multiplied."""
    found = re.findall(r"[<>=]=?\s*(\d[\d.]*(?:\s*\*\s*\d+)*)", expression)
    return {float(eval(text, {"__builtins__": {}})) for text in found}  # noqa: S307 - digits and * only


@pytest.mark.parametrize("rule", _WITH_ALERT, ids=lambda rule: rule.name)
def test_an_alert_has_the_severity_and_threshold_of_its_rule(rule: HealthRule) -> None:
    """An alert that differs on purpose has its own values in the table."""
    alert = _alerts()[rule.alert or ""]
    assert alert["labels"]["severity"] == (rule.alert_severity or _SEVERITIES[rule.severity])
    expected = rule.threshold if rule.alert_threshold is None else rule.alert_threshold
    if rule is DUTY_STOPPED:
        assert f"{DUTY_ROUNDS} * max by (job, duty) (langlauf_duty_interval_seconds) + {expected:g}" in alert["expr"]
    else:
        assert expected in _compared(alert["expr"]), alert["expr"]


def test_failures_alert_from_the_same_number_of_jobs() -> None:
    """Fewer ended jobs say nothing about a share."""
    assert MIN_ENDED in _compared(_alerts()[FAILURES.alert or ""]["expr"])


def test_the_ops_page_has_the_messages_of_the_table() -> None:
    """Each rule of the page in English, in the words that doctor uses."""
    texts = json.loads((ROOT / "src/langlauf/ui/translations/en/ops.json").read_text("utf-8"))
    for rule in OPS_RULES:
        shown = texts[f"ops.headline.{rule.name}"], texts[f"ops.health.{rule.name}"]
        assert shown == (rule.headline, rule.message), rule.name


def test_names_are_unique_and_every_rule_has_a_remedy() -> None:
    """A rule without a next step helps no operator."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.remedy for rule in RULES)


def test_a_large_log_is_twice_the_size_at_which_it_is_truncated() -> None:
    """The threshold follows the driver."""
    assert LARGE_LOG.threshold == 2 * LARGEST_LOG
