"""`langlauf mail`: an org's list of receivers, and who has unsubscribed."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main

WHO = "who@mail.example"


class MailCommands:
    """`langlauf mail …` on one store."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def run(self, *words: str, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["mail", *words, "--store", str(self._store)], prog_name="langlauf")
        assert result.exit_code == exit_code, result.output
        return result

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)

    def marks(self, org: str = "acme") -> list[tuple[str, str]]:
        return [(one["address"], one["mark"]) for one in self.json("list", "--org", org)]


@pytest.fixture
def mail(tmp_path: Path) -> MailCommands:
    """The commands on a store of the test's own."""
    return MailCommands(tmp_path / "store.db")


def test_the_list_of_an_org_is_kept(mail: MailCommands) -> None:
    """Put on it and taken off it, once each, whatever the spelling; another org has another list."""
    assert "none has unsubscribed" in mail.run("list", "--org", "acme").stderr
    assert mail.json("allow", "Who@Mail.example", "--org", "acme") == {"address": WHO, "changed": True}
    assert mail.json("allow", WHO, "--org", "acme")["changed"] is False
    assert mail.marks() == [(WHO, "allowed")]
    assert mail.marks("other") == []
    assert WHO in mail.run("list", "--org", "acme").stdout
    assert "was not on the list" in mail.run("remove", WHO, "--org", "other").stderr
    assert "no longer on the list" in mail.run("remove", WHO, "--org", "acme").stderr
    assert mail.marks() == []


def test_who_asks_by_mail_is_unsubscribed_and_comes_back(mail: MailCommands) -> None:
    """Being on the list and having unsubscribed are two things."""
    mail.run("allow", WHO, "--org", "acme")
    assert "gets no more mail" in mail.run("unsubscribe", WHO, "--org", "acme").stderr
    assert mail.marks() == [(WHO, "allowed"), (WHO, "unsubscribed")]
    assert mail.json("subscribe", WHO, "--org", "acme")["changed"] is True
    assert mail.json("subscribe", WHO, "--org", "acme")["changed"] is False
    assert mail.marks() == [(WHO, "allowed")]


@pytest.mark.parametrize("command", ["allow", "remove", "unsubscribe", "subscribe"])
def test_what_is_no_address_is_refused(mail: MailCommands, command: str) -> None:
    """Exit code 2 with what is wrong."""
    assert "plain e-mail address" in mail.run(command, "nobody", exit_code=2).stderr
