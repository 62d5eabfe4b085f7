"""The probe: two jobs through a real server, with and without a key, and a server that does not do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from langlauf.analysis.job import PROBE_NAME, PROBE_ORG
from langlauf.cli.main import main
from langlauf.client import Client
from langlauf.doctor.probe import STEPS, Probe
from langlauf.domain.errors import RegistrationError
from langlauf.domain.state import Status
from tests.support.live import sample_app
from tests.support.server import ServerProcess, serving


def test_the_probe_goes_through_a_server(server: ServerProcess) -> None:
    """Every step is made and timed; one job is completed, the other canceled, and none goes on."""
    found = list(Probe(server.url, None).findings())
    assert [(one.name, one.level) for one in found] == [(step.name, "ok") for step in STEPS]
    assert all("ms" in one.seen for one in found)
    with Client(server.url, PROBE_ORG) as client:
        states = [job.status for job in client.jobs()]
    assert states == [Status.CANCELED, Status.COMPLETED]


def test_nobody_sees_the_analysis_of_the_probe() -> None:
    """It is in no list, and no analysis can have its name."""
    app = sample_app()
    assert PROBE_NAME not in app.registry.names
    assert PROBE_NAME not in [analysis.name for analysis in app.registry]
    assert PROBE_NAME in app.registry.runnable
    with pytest.raises(RegistrationError, match="already"):
        app.analysis(name=PROBE_NAME)(_another)
    assert PROBE_NAME not in CliRunner().invoke(main, ["openapi"]).stdout


async def _another(job: object) -> None:
    """Never run."""


def test_a_server_that_asks_for_a_token_is_probed_with_it(tmp_path: Path) -> None:
    """The operator's token of the settings is shown; a wrong one is told, and no worker as well."""
    settings = {"API_AUTH_TOKEN": "an-operators-token", "LANGLAUF_WORKERS": "0"}
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path / "s.db", settings=settings) as running:
        patch.setattr("langlauf.doctor.probe.STEP_SECONDS", 2)  # a request on a busy machine needs most of it
        [wrong] = Probe(running.url, "another").findings()
        assert (wrong.name, wrong.level) == ("probe_submit", "error")
        submitted, started = Probe(running.url, "an-operators-token").findings()
        assert (submitted.level, started.name, started.level) == ("ok", "probe_start", "error")
        with Client(running.url, PROBE_ORG, "an-operators-token") as client:
            assert [job.status for job in client.jobs()] == [Status.CANCELED]


def test_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    """With --probe, as a finding like the others."""
    flags = ["doctor", "--store", str(tmp_path / "none.db"), "--probe", "--url", "http://127.0.0.1:1", "--json"]
    said = CliRunner().invoke(main, flags)
    levels = {one["name"]: one["level"] for one in json.loads(said.stdout)["findings"]}
    assert (said.exit_code, levels) == (1, {"store": "unknown", "probe_submit": "error"})
