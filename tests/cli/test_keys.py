"""`langlauf keys`: on the store, with and without a server beside it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.domain.access import hash_key
from tests.support.keys import bearer
from tests.support.processes import eventually
from tests.support.server import ROOT, SAMPLE_APP, command, environment, run_command, serving

KEY = re.compile(r"llk_[0-9A-Za-z]{50}")


def _json(*words: str) -> Any:
    done = run_command(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_key_is_printed_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    """Standard output is the key alone, so that a shell can take it; the store has its hash and not its text."""
    store = tmp_path / "store.db"
    made = run_command("keys", "create", "--org", "acme", "--name", "ci", "--store", str(store))
    assert made.returncode == 0, made.stderr
    text = made.stdout.removesuffix("\n")
    assert KEY.fullmatch(text)
    assert text not in made.stderr
    assert all(word in made.stderr for word in ("--scope admin", "--scope debug", "API_AUTH_TOKEN"))
    listed = run_command("keys", "list", "--store", str(store))
    assert text[:16] in listed.stdout
    assert text not in listed.stdout
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert hash_key(text.encode()).encode() in kept
    assert text[16:].encode() not in kept


def test_keys_have_what_was_asked_for(tmp_path: Path) -> None:
    """Scopes, name and expiry; without a word, submit, read and cancel for ever; a list can be of one org."""
    store = ("--store", str(tmp_path / "store.db"))
    usual = _json("keys", "create", "--org", "acme", *store)
    assert (usual["scopes"], usual["expires_at"], usual["org_id"]) == (["cancel", "read", "submit"], None, "acme")
    wish = ("--scope", "read", "--scope", "admin", "--expires", "30d", "--name", "for Anna")
    special = _json("keys", "create", "--org", "other", *wish, *store)
    assert (special["scopes"], special["name"]) == (["admin", "read"], "for Anna")
    assert special["expires_at"] > special["created_at"]
    assert [one["key_id"] for one in _json("keys", "list", *store)] == [usual["key_id"], special["key_id"]]
    assert [one["org_id"] for one in _json("keys", "list", "--org", "other", *store)] == ["other"]
    assert "key" not in _json("keys", "list", *store)[0]


def test_a_key_is_revoked_for_good(tmp_path: Path) -> None:
    """Twice is as good as once; an unknown one is exit code 4."""
    store = ("--store", str(tmp_path / "store.db"))
    key_id = _json("keys", "create", "--org", "acme", *store)["key_id"]
    first, again = _json("keys", "revoke", key_id, *store), _json("keys", "revoke", key_id, *store)
    assert first == again
    assert first["revoked_at"] is not None
    assert run_command("keys", "revoke", "llk_unknown", *store).returncode == 4


def test_a_key_that_was_found_somewhere_is_revoked_as_it_is(tmp_path: Path) -> None:
    """The whole key is accepted in place of its id."""
    store = ("--store", str(tmp_path / "store.db"))
    made = _json("keys", "create", "--org", "acme", *store)
    assert _json("keys", "revoke", made["key"], *store)["key_id"] == made["key_id"]
    assert run_command("keys", "revoke", made["key"][:-1] + "!", *store).returncode == 4


@pytest.mark.parametrize(
    "words",
    [
        ("create",),
        ("create", "--org", "a b"),
        ("create", "--org", ""),
        ("create", "--org", "a", "--scope", "operate"),
        ("create", "--org", "a", "--scope", "everything"),
        ("create", "--org", "a", "--expires", "soon"),
        ("create", "--org", "a", "--expires", "0"),
        ("create", "--org", "a", "--name", "x" * 101),
        ("create", "--org", "a", "--name", "a\x1b[2J"),
        ("list", "--org", "a b"),
        ("revoke",),
    ],
    ids=repr,
)
def test_what_cannot_be_is_a_usage_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Exit code 2, and no store is made for it."""
    store = tmp_path / "store.db"
    done = run_command("keys", *words, "--store", str(store))
    assert (done.returncode, store.exists()) == (2, False), done.stderr


def test_a_store_in_memory_has_no_keys_of_its_own() -> None:
    """Exit code 1 and why."""
    done = run_command("keys", "list", "--store", "memory://")
    assert (done.returncode, "in memory" in done.stderr) == (1, True)


def test_keys_beside_a_running_server(tmp_path: Path) -> None:
    """The server learns of the first key, takes it, and refuses it once it is revoked; client commands show it."""
    store = tmp_path / "store.db"
    with serving(store) as server:
        made = _json("keys", "create", "--org", "acme", "--store", str(store))
        address = f"{server.url}/analyze/jobs"
        taken = httpx2.get(address, headers=bearer(made["key"]), trust_env=False, timeout=60)
        assert taken.status_code == 200
        assert httpx2.get(address, trust_env=False, timeout=60).status_code == 401
        assert run_command("jobs", "--url", server.url).returncode == 6
        assert run_command("jobs", "--url", server.url, "--key", made["key"]).returncode == 0
        of_other = run_command("jobs", "--url", server.url, "--key", made["key"], "--org", "other")
        assert (of_other.returncode, "leave out --org" in of_other.stderr) == (6, True)
        pause = ("pause", "sleep", "--because", "x", "--url", server.url, "--key")
        assert "keys create --org ORG --scope read --scope admin" in run_command(*pause, made["key"]).stderr
        admin = _json("keys", "create", "--org", "acme", "--scope", "admin", "--store", str(store))["key"]
        eventually(lambda: "name it with --org" in run_command(*pause, admin).stderr)
        unknown = run_command("pause", "slep", "--because", "x", "--url", server.url, "--key", admin, "--org", "acme")
        assert (unknown.returncode, "known are" in unknown.stderr, "list the jobs" in unknown.stderr) == (
            4,
            True,
            False,
        )
        _json("keys", "revoke", made["key_id"], "--store", str(store))
        eventually(
            lambda: httpx2.get(address, headers=bearer(made["key"]), trust_env=False, timeout=60).status_code == 401
        )
        assert run_command("jobs", "--url", server.url, "--key", made["key"]).returncode == 6
    log = "".join(server.log)
    assert made["key"] not in log


def test_a_store_with_a_key_may_listen_beyond_this_machine(tmp_path: Path) -> None:
    """Without one it is refused, and told how to make one; nothing is made by being refused."""
    store = tmp_path / "store.db"
    beyond = ("serve", SAMPLE_APP, "--host", "0.0.0.0", "--port", "0", "--store", str(store))  # noqa: S104 - the point
    refused = subprocess.run(command(*beyond), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (refused.returncode, store.exists()) == (1, False)
    assert "langlauf keys create" in refused.stderr
    made = _json("keys", "create", "--org", "acme", "--store", str(store))
    _json("keys", "revoke", made["key_id"], "--store", str(store))
    with serving(store, settings={"LANGLAUF_HOST": "0.0.0.0"}) as server:  # noqa: S104
        assert (
            httpx2.get(f"http://127.0.0.1:{server.port}/analyze/jobs", trust_env=False, timeout=60).status_code == 401
        )


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_what_a_server_offers_to_try_works_with_the_key_in_the_environment(tmp_path: Path, closed: bool) -> None:
    """Pasted as it is: where a key is asked for, the command takes it from where client commands do."""
    store = tmp_path / "store.db"
    key = _json("keys", "create", "--org", "acme", "--store", str(store))["key"] if closed else ""
    with serving(store, app="langlauf.bundled:app") as server:
        httpx2.get(f"{server.url}/ready", trust_env=False, timeout=60)
        stopped = server.stop()
    assert stopped == 0
    offered = next(line for line in server.log if "try    curl" in line)
    assert ("$LANGLAUF_KEY" in offered) == closed
    assert not key or key not in "".join(server.log)
