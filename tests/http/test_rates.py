"""Rates over HTTP: what counts, what is told, and that nothing of it tells of others."""

import asyncio
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2

from langlauf import Langlauf
from langlauf.api.middleware import EXPOSED_HEADERS
from langlauf.api.operations import OPERATIONS
from langlauf.auth.rates import REFUSALS, LocalMemory, RateKind, RateLimits
from langlauf.domain.access import Rate
from langlauf.settings import load_settings
from tests.http.test_errors import assert_problem
from tests.support.keys import bearer, make_key
from tests.support.live import Live, live, sample_app

QUERY = {"analysis": "echo", "query": "x"}
_FIELD = re.compile(r'^"(default|submit)";r=(\d+);t=(\d+)$')


def _told(response: httpx2.Response) -> tuple[str, int, int]:
    match = _FIELD.match(response.headers["ratelimit"])
    assert match
    return match[1], int(match[2]), int(match[3])


def test_without_a_setting_there_is_no_rate(server: Live) -> None:
    """And nothing is told of one."""
    for _ in range(50):
        response = server.http.get("/analyze/jobs")
        assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("ratelimit")]


def test_an_org_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    """The quota passes, the next request is 429; other orgs, and what is free, do not notice."""
    with live(tmp_path, LANGLAUF_RATE_LIMIT="5/1h") as server:
        left = []
        for number in range(5):
            path = "/analyze/jobs" if number % 2 else "/analyze/jobs/unknown"
            response = server.http.get(path, headers={"X-Org-Id": "busy"})
            assert response.headers["ratelimit-policy"] == '"default";q=5;w=3600'
            left.append(_told(response)[1])
        assert left == [4, 3, 2, 1, 0]
        refused = server.http.get("/analyze/jobs", headers={"X-Org-Id": "busy"})
        assert_problem(refused, 429, "rate_limited")
        kind, remaining, seconds = _told(refused)
        assert (kind, remaining) == ("default", 0)
        assert seconds <= int(refused.headers["retry-after"]) <= 720
        assert _told(server.http.get("/analyze/jobs", headers={"X-Org-Id": "other"}))[1] == 4
        for path in ("/health", "/ready", "/openapi.json", "/metrics"):
            response = server.http.get(path, headers={"X-Org-Id": "busy"})
            assert response.status_code == 200
            assert "ratelimit" not in response.headers


def test_a_flood_of_refusals_is_held_back(tmp_path: Path) -> None:
    """The first ones are told at once; who goes on all the same waits for each, and others wait for none."""
    now = 0.0
    rates = RateLimits({RateKind.REFUSAL: REFUSALS}, now=lambda: now)
    assert [rates.is_flood("busy") for _ in range(12)] == [False] * 10 + [True] * 2
    assert not rates.is_flood("other")
    now = 1.0
    assert not rates.is_flood("busy")
    with live(tmp_path, LANGLAUF_RATE_LIMIT="1/1h") as server:
        assert server.http.get("/analyze/jobs").status_code == 200
        began = time.monotonic()
        with ThreadPoolExecutor(40) as clients:  # all at once: one after the other may be too slow for a flood
            answers = list(clients.map(lambda _: server.http.get("/analyze/jobs").status_code, range(40)))
        held_back = time.monotonic() - began
    assert set(answers) == {429}
    assert held_back >= 1


def test_a_refused_submission_leaves_nothing(tmp_path: Path) -> None:
    """It is refused before its body is read, and reads have a count of their own."""
    with live(tmp_path, LANGLAUF_RATE_LIMIT_SUBMIT="2/1h", LANGLAUF_RATE_LIMIT="100/1m") as server:
        for _ in range(2):
            server.submit("echo", query="x")
        refused = server.http.post("/analyze", content=b"no JSON", headers={"Prefer": "respond-async"})
        assert_problem(refused, 429, "rate_limited")
        assert _told(refused)[:2] == ("submit", 0)
        listed = server.http.get("/analyze/jobs")
        assert len(listed.json()["jobs"]) == 2
        assert _told(listed)[0] == "default"
        cancel = server.http.post(f"/analyze/jobs/{listed.json()['jobs'][0]['job_id']}/cancel")
        assert _told(cancel)[0] == "default"


def test_pages_count_as_well(tmp_path: Path) -> None:
    """A page costs what the API does, so it is no way around."""
    with live(tmp_path, LANGLAUF_RATE_LIMIT="1/1h") as server:
        assert server.http.get("/").status_code == 200
        assert server.http.get("/").status_code == 429


def test_a_flood_of_names_makes_nothing_grow() -> None:
    """The count forgets who asked the longest ago, and an address that still asks is not forgotten."""
    memory = LocalMemory(100)
    rates = RateLimits({RateKind.DEFAULT: Rate(2, 60)}, now=lambda: 1.0, memory=memory)
    rates.take(RateKind.DEFAULT, "busy")
    for number in range(1_000):
        rates.take(RateKind.DEFAULT, f"org-{number}")
        quota = rates.take(RateKind.DEFAULT, "busy")
    assert len(memory._full_at[RateKind.DEFAULT, 2]) == 100
    assert quota is not None
    assert not quota.standing.allowed


def test_one_credential_leaves_others_of_its_org_a_part(tmp_path: Path) -> None:
    """A token of one job, then all tokens: each stops at its part; keys have what is left to the org."""
    store = tmp_path / "store.db"
    keys = [make_key(store, "org-a").text for _ in range(2)]
    with live(tmp_path, LANGLAUF_RATE_LIMIT="32/1h", LANGLAUF_RATE_LIMIT_SUBMIT="100/1h") as server:

        def statuses(path: str, shown: str, times: int) -> list[int]:
            return [server.http.get(path, headers=bearer(shown)).status_code for _ in range(times)]

        headers = {**bearer(keys[0]), "Prefer": "respond-async"}
        jobs = [server.http.post("/analyze", json=QUERY, headers=headers).json()["job"]["job_id"] for _ in range(3)]
        paths = [f"/analyze/jobs/{job}" for job in jobs]
        tokens = [server.http.post(f"{path}/token", headers=bearer(keys[0])).json()["token"] for path in paths]
        assert statuses(paths[0], tokens[0], 9) == [200] * 8 + [429]
        assert statuses(paths[1], tokens[1], 9) == [200] * 8 + [429]
        refused = server.http.get(paths[2], headers=bearer(tokens[2]))
        assert_problem(refused, 429, "rate_limited")
        assert refused.headers["ratelimit-policy"] == '"default-credential";q=16;w=3600'
        assert statuses("/analyze/jobs", keys[0], 8) == [200] * 8
        assert statuses("/analyze/jobs", keys[1], 6) == [200] * 5 + [429], "the org asked for three tokens as well"


def test_an_id_leaves_the_keys_of_its_org_their_part(tmp_path: Path) -> None:
    """Where an id is enough, all who have no more than one take at most a part; a key that is shown counts."""
    key = make_key(tmp_path / "store.db", "org-a").text
    settings = {"LANGLAUF_ACCESS": "capability", "LANGLAUF_RATE_LIMIT": "8/1h", "LANGLAUF_RATE_LIMIT_SUBMIT": "9/1h"}
    with live(tmp_path, **settings) as server:
        headers = {**bearer(key), "Prefer": "respond-async"}
        path = f"/analyze/jobs/{server.http.post('/analyze', json=QUERY, headers=headers).json()['job']['job_id']}"
        assert [server.http.get(path).status_code for _ in range(3)] == [200, 200, 429]
        assert [server.http.get(path, headers=bearer(key)).status_code for _ in range(7)] == [200] * 6 + [429]


#: Where a proxy stands that the server is told to trust.
PROXY = "10.1.0.5"


def _shown(address: str, keys: Sequence[str | None], named: Sequence[str] = ()) -> list[int]:
    """The answers to keys that one address shows, one after the other; a proxy names clients."""

    async def main() -> list[int]:
        known = {
            "LANGLAUF_STORE": "memory://",
            "API_AUTH_TOKEN": "right",
            "LANGLAUF_LIMITS": "rate_limit_wrong_keys=3/1h",
        }
        app = Langlauf(settings=load_settings({**known, "LANGLAUF_TRUSTED_PROXIES": "10.1.0.0/16"}))
        transport = httpx2.ASGITransport(app.asgi(), client=(address, 1))
        async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
            headers = [{"Authorization": f"Bearer {key}"} if key else {} for key in keys]
            for one, name in zip(headers, named, strict=False):
                one["X-Forwarded-For"] = name
            return [(await client.get("/analyze/jobs", headers=one)).status_code for one in headers]

    return asyncio.run(main())


def test_an_address_that_guesses_is_not_listened_to() -> None:
    """After some wrong keys the next wrong one is 429; a right one, and none at all, cost nothing and pass."""
    assert _shown("203.0.113.5", [None] * 9) == [401] * 9
    assert _shown("203.0.113.5", ["right"] * 9) == [200] * 9
    answers = _shown("203.0.113.5", ["wrong", "wrong", "wrong", "wrong", "right", None, "wrong"])
    assert answers == [401, 401, 401, 429, 200, 401, 429]
    assert _shown("2001:db8::1", ["wrong"] * 4) == [401] * 3 + [429]


def test_behind_a_trusted_proxy_wrong_keys_count_by_client() -> None:
    """One client behind the proxy that guesses is refused, the next one is not; nor is the operator, beside either."""
    clients = ["198.51.100.1"] * 5 + ["198.51.100.2", "198.51.100.1"]
    assert _shown(PROXY, ["wrong"] * 6 + ["right"], clients) == [401] * 3 + [429] * 2 + [401, 200]


def test_a_header_of_a_stranger_says_nothing_of_its_address() -> None:
    """Else each guess would come from another address; nor does what it sends through a proxy, which adds its own."""
    made_up = [f"198.51.100.{number}" for number in range(4)]
    assert _shown("203.0.113.5", ["wrong"] * 4, made_up) == [401] * 3 + [429]
    assert _shown(PROXY, ["wrong"] * 4, [f"{name}, 203.0.113.5" for name in made_up]) == [401] * 3 + [429]
    assert _shown(PROXY, ["wrong"] * 4, ["unknown", "", "1.2.3.4.5", ",,"]) == [401] * 3 + [429], "it is the proxy's"


def test_guesses_of_one_do_not_shut_out_the_others_at_its_address(tmp_path: Path) -> None:
    """Behind one address for a whole office a good key passes, what was made with one, and the operator's token."""
    store = tmp_path / "store.db"
    key = make_key(store, "org-a").text

    async def main() -> None:
        known = {
            "LANGLAUF_STORE": str(store),
            "API_AUTH_TOKEN": "right",
            "LANGLAUF_LIMITS": "rate_limit_wrong_keys=3/1h",
        }
        app = sample_app(settings=load_settings(known))
        transport = httpx2.ASGITransport(app.asgi(), client=("203.0.113.5", 1))
        async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
            job = (await client.post("/analyze", json=QUERY, headers={**bearer(key), "Prefer": "respond-async"})).json()
            path = f"/analyze/jobs/{job['job']['job_id']}"
            token = (await client.post(f"{path}/token", headers=bearer(key))).json()["token"]
            wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
            told = [(await client.get("/analyze/jobs", headers=bearer(wrong))).status_code for _ in range(5)]
            assert told == [401] * 3 + [429] * 2
            for good in (key, "right"):
                assert (await client.get("/analyze/jobs", headers=bearer(good))).status_code == 200
            assert (await client.get(path, headers=bearer(token))).status_code == 200
            assert (await client.get(path, params={"access_token": token})).status_code == 200
            assert (await client.get(path, params={"access_token": token[:-1]})).status_code == 429

    asyncio.run(main())


def test_a_proxy_on_this_machine_is_not_shut_out() -> None:
    """It stands for everybody behind it."""
    assert _shown("127.0.0.1", ["wrong"] * 5 + ["right"]) == [401] * 5 + [200]


def test_browsers_may_read_the_fields() -> None:
    """They are not on the list of headers that a page sees by itself."""
    assert {"RateLimit", "RateLimit-Policy"} <= set(EXPOSED_HEADERS)


def test_every_operation_for_an_org_may_answer_429() -> None:
    """The description says so."""
    for operation in OPERATIONS:
        counted = operation.scope is not None and operation.name != "metrics"
        assert not counted or "rate_limited" in operation.all_problems()[429], operation.name
