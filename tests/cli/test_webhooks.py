"""`langlauf webhooks`: endpoints and deliveries in the store, also beside a running server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from standardwebhooks.webhooks import Webhook

from langlauf.cli.main import main
from langlauf.domain.webhook import secret_text
from tests.support.live import live
from tests.support.processes import eventually
from tests.support.receiver import Receiver, answer, receiving

URL = "https://hooks.example/jobs"


class WebhookCommands:
    """`langlauf webhooks …` on one store."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def run(self, *words: str, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["webhooks", *words, "--store", str(self._store)], prog_name="langlauf")
        assert result.exit_code == exit_code, result.output
        return result

    def json(self, *words: str, exit_code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", exit_code=exit_code).stdout)


@pytest.fixture
def webhooks(tmp_path: Path) -> WebhookCommands:
    """The commands on a store of the test's own."""
    return WebhookCommands(tmp_path / "store.db")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks on this machine."""
    with receiving() as found:
        yield found


def test_the_life_of_an_endpoint(webhooks: WebhookCommands) -> None:
    """Added with a secret alone on standard output, listed without it, switched off and on, rotated, removed."""
    added = webhooks.run("add", URL, "--name", "warehouse", "--events", "completed, failed")
    secret = added.stdout.strip()
    assert secret.startswith("whsec_")
    assert "not shown again" in added.stderr
    assert "langlauf webhooks test" in added.stderr
    [listed] = webhooks.json("list")
    assert (listed["events"], listed["name"], listed["status"]) == (["completed", "failed"], "warehouse", "working")
    endpoint = listed["endpoint_id"]
    shown = webhooks.run("list").stdout
    assert endpoint in shown
    assert "working" in shown
    assert secret not in shown + json.dumps(listed)
    assert webhooks.json("disable", URL)["status"] == "disabled"
    assert "disabled since" in webhooks.run("list").stdout
    assert webhooks.json("enable", endpoint)["status"] == "working"
    turned = webhooks.json("rotate", endpoint, "--overlap", "1h")
    assert turned["secret"] not in ("", secret)
    assert turned["webhook"]["secret_version"] == 2
    assert webhooks.json("remove", endpoint) == {"endpoint_id": endpoint}
    assert webhooks.json("list") == []
    assert "langlauf webhooks add" in webhooks.run("list").stderr


def test_an_org_sees_its_own(webhooks: WebhookCommands) -> None:
    """The org of the flag, else the usual one."""
    webhooks.json("add", URL, "--org", "acme")
    assert webhooks.json("list") == []
    [listed] = webhooks.json("list", "--org", "acme")
    webhooks.run("remove", listed["endpoint_id"], exit_code=4)
    webhooks.run("remove", listed["endpoint_id"], "--org", "acme")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "http://hooks.example/"), 2),
        (("add", "https://127.0.0.1/"), 2),
        (("add",), 2),
        (("add", URL, "--events", "completed,nothing"), 2),
        (("add", URL, "--events", ","), 2),
        (("add", URL, "--name", "x" * 101), 2),
        (("add", URL, "--org", "a b"), 2),
        (("rotate", URL, "--overlap", "31d"), 4),
        (("remove", "nothing"), 4),
        (("test", "nothing"), 4),
        (("enable", "nothing"), 4),
        (("deliveries", "nothing"), 4),
        (("deliveries", "--endpoint", "nothing"), 4),
        (("deliveries", "--status", "lost"), 2),
        (("deliveries", "--limit", "0"), 2),
        (("replay",), 2),
        (("replay", "x", "--endpoint", "y"), 2),
        (("replay", "x", "--since", "2h"), 2),
        (("replay", "--endpoint", "y", "--since", "soon"), 2),
        (("replay", "x"), 4),
    ],
    ids=lambda one: " ".join(one)[:60] if isinstance(one, tuple) else str(one),
)
def test_what_cannot_be_done_ends_with_the_code_of_the_contract(
    webhooks: WebhookCommands, words: tuple[str, ...], code: int
) -> None:
    """2 for what cannot be used, 4 for what is not there; nothing on standard output."""
    refused = webhooks.run(*words, exit_code=code)
    assert refused.stdout == ""
    assert refused.stderr


def test_an_address_that_is_there_is_a_conflict(webhooks: WebhookCommands) -> None:
    """Exit code 7, and what to do about it."""
    webhooks.run("add", URL)
    assert "remove it first" in webhooks.run("add", URL, exit_code=7).stderr


def test_a_store_in_memory_has_none() -> None:
    """Exit code 1 and why."""
    result = CliRunner().invoke(main, ["webhooks", "list", "--store", "memory://"])
    assert (result.exit_code, "in memory" in result.stderr) == (1, True)


def test_the_secret_of_an_org_is_its_own(webhooks: WebhookCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whenever it is asked for, another one for another org, and none without the operator's."""
    assert "LANGLAUF_WEBHOOK_SECRET" in webhooks.run("secret", "--org", "acme", exit_code=1).stderr
    operator = secret_text(b"o" * 32)
    monkeypatch.setenv("LANGLAUF_WEBHOOK_SECRET", operator)
    own = webhooks.run("secret", "--org", "acme").stdout.strip()
    assert webhooks.json("secret", "--org", "acme") == {"secret": own, "former_secret": None}
    assert len({own, operator, webhooks.json("secret", "--org", "other")["secret"]}) == 3
    monkeypatch.setenv("LANGLAUF_WEBHOOK_SECRET", f"{secret_text(b'n' * 32)},{operator}")
    assert webhooks.json("secret", "--org", "acme")["former_secret"] == own
    assert own in webhooks.run("secret", "--org", "acme").stderr


def test_beside_a_running_server(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added is called; the log tells each attempt, and what failed is replayed under its old id."""
    monkeypatch.setenv("LANGLAUF_WEBHOOK_ALLOW", "127.0.0.0/8")
    settings = {"LANGLAUF_WEBHOOK_ALLOW": "127.0.0.0/8", "LANGLAUF_WEBHOOK_SCHEDULE": "0.05"}
    receiver.manners["/in"] = answer(500, "not now")
    with live(tmp_path, **settings) as server:
        webhooks = WebhookCommands(Path(server.app.settings.store_path))
        secret = webhooks.json("add", receiver.url("/in"))["secret"]
        assert "the receiver answered 500" in webhooks.run("test", receiver.url("/in"), exit_code=1).stderr
        receiver.take(1, "/in")
        job = server.wait(server.submit("echo", query="Bern")["job_id"])
        [refused, _] = receiver.take(2, "/in")
        assert Webhook(secret).verify(refused.body, refused.headers)["data"]["job_id"] == job["job_id"]
        found = eventually(lambda: webhooks.json("deliveries", "--job", job["job_id"], "--status", "failed"))
        delivery = found[0]["notification_id"]
        shown = webhooks.run("deliveries", delivery).stdout
        assert "not taken" in shown  # it lies inside a network: the server's log tells more
        assert delivery in webhooks.run("deliveries").stdout
        receiver.manners["/in"] = answer(200)
        assert webhooks.json("test", receiver.url("/in"))["taken"] is True
        receiver.take(1, "/in")
        assert webhooks.json("replay", "--endpoint", receiver.url("/in"), "--since", "1h") == {
            "replayed": 1,
            "more": False,
        }
        [arrived] = receiver.take(1, "/in")
        assert arrived.headers["webhook-id"] == delivery
        assert (
            webhooks.json("replay", "--endpoint", receiver.url("/in"), "--since", "2999-01-01T00:00:00Z")["replayed"]
            == 0
        )
        eventually(lambda: webhooks.json("deliveries", "--status", "sent"))
        assert "1 message queued again" in webhooks.run("replay", delivery).stderr
        receiver.take(1, "/in")
