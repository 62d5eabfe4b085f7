"""What is ready to be used with Prometheus and Grafana: it names metrics that exist, and says what to do."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from langlauf.telemetry.instruments import Histogram
from langlauf.telemetry.metrics import INSTRUMENTS, process_registry
from tests.docs.pages import ROOT, anchors, read

PROMETHEUS = ROOT / "deploy" / "prometheus"
_DASHBOARD = ROOT / "deploy" / "grafana" / "langlauf.json"
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"\b(?:\w+:)?(?:langlauf|process)_\w+(?::\w+)?")
_DURATION = re.compile(r"\d+[smhd]")
#: Made by Prometheus itself, for each target.
_ITS_OWN = {"up"}
_SIGNALS = ("jobs-wait", "jobs-fail", "store", "deliveries", "upkeep")
_SEVERITIES = {"critical", "warning", "info"}


def _loaded(name: str) -> Any:
    return yaml.safe_load((PROMETHEUS / name).read_text("utf-8"))


def _rules() -> list[dict[str, Any]]:
    return [rule for group in _loaded("alerts.yml")["groups"] for rule in group["rules"]]


def _told() -> set[str]:
    """Every name that a scrape has samples of."""
    found: set[str] = set()
    for meter in INSTRUMENTS:
        parts = ("_bucket", "_sum", "_count") if isinstance(meter, Histogram) else ("",)
        found |= {meter.name + part for part in parts}
    return found | {sample.name for family in process_registry().collect() for sample in family.samples}


def _named(expression: str) -> set[str]:
    return set(_NAME.findall(_TEXT.sub('""', expression)))


def _balanced(expression: str) -> bool:
    bare = _TEXT.sub("", expression)
    return all(bare.count(left) == bare.count(right) for left, right in ("()", "{}", "[]"))


def test_rules_are_built_as_prometheus_reads_them() -> None:
    """Groups with names of their own; a rule records or alerts, and has nothing that Prometheus does not know."""
    groups = _loaded("alerts.yml")["groups"]
    assert [group["name"] for group in groups][1:] == [
        f"langlauf-{number}-{signal}" for number, signal in enumerate(_SIGNALS, 1)
    ]
    for rule in _rules():
        if "record" in rule:
            assert rule.keys() == {"record", "expr"}
            assert re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9]+", rule["record"])
        else:
            assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
            assert _DURATION.fullmatch(rule.get("for", "0s"))
            assert rule["labels"]["severity"] in _SEVERITIES
            assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        assert _balanced(rule["expr"]), rule


def test_rules_name_metrics_that_exist() -> None:
    """Of the program, of Prometheus, or recorded by a rule before."""
    known, used = _told() | _ITS_OWN, set()
    for rule in _rules():
        names = _named(rule["expr"])
        assert names or "up{" in rule["expr"], rule
        assert names <= known, names - known
        used |= names
        known |= {rule["record"]} if "record" in rule else set()
    assert len(used) > 15


def test_every_alert_leads_to_a_section_that_names_it() -> None:
    """The sections are those of the five signals, and each alert stands in its own."""
    page = read("docs/operations.md")
    known = anchors(page)
    alerts = [rule for rule in _rules() if "alert" in rule]
    for rule in alerts:
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (file, anchor in known) == ("docs/operations.md", True), rule
        section = next(text for text in re.split(r"^### ", page, flags=re.MULTILINE) if _anchor_of(text) == anchor)
        assert f"`{rule['alert']}`" in section, rule["alert"]
    assert len({rule["annotations"]["runbook"] for rule in alerts}) == len(_SIGNALS)
    assert len({rule["alert"] for rule in alerts}) == len(alerts) >= 10


def _anchor_of(section: str) -> str:
    return section.partition("\n")[0].lower().replace(" ", "-")


def test_every_alert_is_tried() -> None:
    """The tests of the rules let each of them ring once, and none where all is well."""
    well, unwell = _loaded("alerts_test.yml")["tests"]
    rings = {
        re.search(r'alertname="(\w+)"', sample["labels"])[1]  # type: ignore[index]
        for sample in unwell["promql_expr_test"][0]["exp_samples"]
    }
    assert rings == {rule["alert"] for rule in _rules() if "alert" in rule}
    assert well["promql_expr_test"][0]["exp_samples"] == []
    given = {name for one in (well, unwell) for series in one["input_series"] for name in _named(series["series"])}
    assert given <= _told()


def test_the_scrape_configuration_fits() -> None:
    """It asks where metrics are, with the operator's token, and reads the rules beside it."""
    config = _loaded("prometheus.yml")
    [job] = config["scrape_configs"]
    assert (job["job_name"], job["metrics_path"]) == ("langlauf", "/metrics")
    assert job["authorization"]["credentials_file"]
    assert all((PROMETHEUS / name).exists() for name in config["rule_files"])
    assert {one["labels"]["role"] for one in job["static_configs"]} == {"api", "worker"}


def test_the_dashboard_fits() -> None:
    """Panels over metrics that exist, from a data source that is chosen, side by side and none over another."""
    board = json.loads(_DASHBOARD.read_text("utf-8"))
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= board.keys()
    variables = {one["name"]: one["type"] for one in board["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    taken: set[tuple[int, int]] = set()
    used: set[str] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["title"]
        assert panel["description"]
        for target in panel["targets"]:
            assert 'job=~"$job"' in target["expr"]
            assert _balanced(target["expr"])
            used |= _named(target["expr"])
    assert used <= _told(), used - _told()
    # What is to be seen at a glance is there: everything but what an org or a log line needs a look of its own for.
    shown = {meter.name for meter in INSTRUMENTS if any(name.startswith(meter.name) for name in used)}
    assert {meter.name for meter in INSTRUMENTS} - shown == {
        "langlauf_claim_to_start_seconds",
        "langlauf_duty_interval_seconds",
        "langlauf_log_events_total",
        "langlauf_org_jobs_running",
        "langlauf_org_jobs_waiting",
    }


def test_prometheus_own_tool_agrees(tmp_path: Path) -> None:
    """Where it is at hand it checks the rules, their tests, the configuration and every expression of the dashboard.

    Where it is not, the tests above have checked how these are built, and that is all that can be said here.
    """
    tool = shutil.which("promtool")
    for name in ("alerts.yml", "alerts_test.yml", "prometheus.yml"):
        shutil.copy(PROMETHEUS / name, tmp_path)
    (tmp_path / "langlauf_token").write_text("secret", "utf-8")
    board = json.loads(_DASHBOARD.read_text("utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    plain = [one.replace("$__rate_interval", "5m").replace("$job", ".*") for one in expressions]
    assert not any("$" in one for one in plain)
    rules = [{"record": f"panel:{number}:value", "expr": one} for number, one in enumerate(plain)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    checks = (("check", "rules", "alerts.yml", "panels.yml"), ("check", "config", "prometheus.yml"))
    for words in (*checks, ("test", "rules", "alerts_test.yml")) if tool else ():
        done = subprocess.run(
            [str(tool), *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
