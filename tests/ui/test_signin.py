"""Signing in: a key becomes a session, a session reads, and nobody else's page can use it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from langlauf.auth.sessions import LIFETIME_SECONDS
from langlauf.domain.access import GRANTABLE_SCOPES, Scope
from langlauf.settings import load_settings
from langlauf.ui.responses import local_path
from tests.http.keyed_server import KeyedServer, run_job, until
from tests.support.keys import OPERATOR, bearer, make_key, revoke_key
from tests.support.live import live, sample_app
from tests.ui.html_page import HtmlPage, assert_page

SESSION, NONCE = "langlauf_session", "langlauf_signin"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """A server that asks for keys."""
    folder = tmp_path_factory.mktemp("signin")
    admin = make_key(folder / "store.db", "org-a", *GRANTABLE_SCOPES)
    with live(folder, API_AUTH_TOKEN=OPERATOR) as running:
        yield KeyedServer(running, folder / "store.db", admin.text)


@pytest.fixture
def browser(closed: KeyedServer) -> Iterator[httpx2.Client]:
    """A browser of its own: with cookies, and where its requests come from."""
    with httpx2.Client(base_url=closed.live.url, trust_env=False, timeout=30) as client:
        client.headers["Origin"] = closed.live.url
        yield client


def hidden(made: HtmlPage, name: str) -> str:
    """The value of a hidden field."""
    return next(field["value"] for field in made.all("input") if field.get("name") == name)


def action(made: HtmlPage, word: str) -> str:
    """Where the form for signing in or out is sent to."""
    return next(form["action"] for form in made.all("form") if word in form["action"])


def sign_in(browser: httpx2.Client, key: str, *, at: str = "/login", **fields: str) -> httpx2.Response:
    """Opens the form and sends it off, as a person would."""
    form = assert_page(browser.get(at), 200 if at == "/login" else 401)
    values = {"csrf_token": hidden(form, "csrf_token"), "next": hidden(form, "next"), "key": key, "org": "", **fields}
    return browser.post(urljoin(at, action(form, "login")), data=values)


def test_a_key_becomes_a_session_that_reads(closed: KeyedServer, browser: httpx2.Client) -> None:
    """The page that was asked for is where one ends up; it says who is signed in and how to sign out."""
    job = run_job(closed.live, bearer(closed.admin))
    address = f"/jobs/{job['job_id']}?lang=de"
    done = sign_in(browser, closed.admin, at=address)
    assert (done.status_code, done.headers["location"]) == (303, f"./jobs/{job['job_id']}?lang=de")
    assert done.headers["cache-control"] == "no-store"
    made = assert_page(browser.get(address))
    assert "org-a" in made.text
    assert "Abmelden" in made.text_of("button")
    for path in (f"/analyze/jobs/{job['job_id']}", f"/results/{job['result_id']}", "/analyze/jobs", "/"):
        assert browser.get(path).status_code == 200
    assert closed.admin not in browser.get("/").text


def test_the_cookie_is_no_key_and_scripts_cannot_read_it(closed: KeyedServer, browser: httpx2.Client) -> None:
    """HttpOnly, SameSite, for this application, for a working day; without https not Secure, or it would not work."""
    done = sign_in(browser, closed.admin)
    [cookie] = [line for line in done.headers.get_list("set-cookie") if line.startswith(f"{SESSION}=")]
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=lax", "path=/"} <= parts
    assert "secure" not in parts
    [age] = [int(part.partition("=")[2]) for part in parts if part.startswith("max-age=")]
    assert LIFETIME_SECONDS - 60 < age <= LIFETIME_SECONDS
    assert closed.admin not in cookie
    assert browser.cookies[SESSION] not in browser.get("/").text


def test_a_wrong_key_is_told_in_one_way(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Unknown, revoked, malformed, a token, nothing: the same page, without the key, and no session."""
    gone = make_key(closed.store, "org-a")
    revoke_key(closed.store, gone.key.key_id)
    job = run_job(closed.live, bearer(closed.admin))
    token = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", headers=bearer(closed.admin)).json()["token"]
    said = set()
    for key in (gone.text, "llk_wrong", closed.admin[:-1], token, "", "x" * 10_000, "schlüssel"):
        done = sign_in(browser, key)
        made = assert_page(done, 401)
        assert done.headers["www-authenticate"].startswith("Bearer")
        assert not key or key not in done.text
        assert SESSION not in browser.cookies
        said.add(made.text)
    assert len(said) == 1
    assert "This key is not valid" in said.pop()


def test_a_key_that_cannot_read_signs_nobody_in(closed: KeyedServer, browser: httpx2.Client) -> None:
    """It is told why."""
    done = sign_in(browser, make_key(closed.store, "org-a", Scope.SUBMIT).text)
    assert "lacks the scope read" in assert_page(done, 403).text
    assert SESSION not in browser.cookies


def test_the_operator_chooses_an_org(closed: KeyedServer, browser: httpx2.Client) -> None:
    """And is in it, and in no other."""
    run_job(closed.live, bearer(OPERATOR, **{"X-Org-Id": "org-z"}))
    assert sign_in(browser, OPERATOR, org="org-z").status_code == 303
    assert "org-z" in assert_page(browser.get("/")).text
    [job] = browser.get("/analyze/jobs").json()["jobs"]
    assert job["org_id"] == "org-z"
    assert browser.get("/analyze/jobs", headers={"X-Org-Id": "org-a"}).status_code == 403
    assert browser.get("/metrics").status_code == 200


def test_a_key_stays_in_its_org(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Another org in the form, or one that cannot be one, is refused; its own is fine."""
    for org in ("org-b", "a b", "ö"):
        assert "does not belong" in assert_page(sign_in(browser, closed.admin, org=org), 403).text
        assert SESSION not in browser.cookies
    assert sign_in(browser, closed.admin, org="org-a").status_code == 303


def test_signing_out_takes_the_session_back(closed: KeyedServer, browser: httpx2.Client) -> None:
    """By its own form; the way back is the form for signing in."""
    sign_in(browser, closed.admin)
    made = assert_page(browser.get("/"))
    done = browser.post("/logout", data={"csrf_token": hidden(made, "csrf_token")})
    assert (done.status_code, done.headers["location"]) == (303, "./login")
    assert SESSION not in browser.cookies
    assert_page(browser.get("/"), 401)
    assert browser.post("/logout", data={"csrf_token": ""}).status_code == 303


def test_signing_out_ends_every_copy_of_the_session(closed: KeyedServer, browser: httpx2.Client) -> None:
    """A copied cookie opens nothing any more; other sessions of the key go on."""
    sign_in(browser, closed.admin)
    copied = {"Cookie": f"{SESSION}={browser.cookies[SESSION]}"}
    made = assert_page(browser.get("/"))
    with httpx2.Client(base_url=closed.live.url, trust_env=False, timeout=30) as other:
        other.headers["Origin"] = closed.live.url
        sign_in(other, closed.admin)
        assert closed.live.http.get("/analyze/jobs", headers=copied).status_code == 200
        done = browser.post("/logout", data={"csrf_token": hidden(made, "csrf_token")})
        assert (done.headers["clear-site-data"], done.headers["cache-control"]) == ('"cache"', "no-store")
        assert closed.live.http.get("/analyze/jobs", headers=copied).status_code == 401
        assert closed.live.http.get("/", headers=copied).status_code == 401
        assert other.get("/analyze/jobs").status_code == 200


def test_a_session_ends_with_its_key(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Within the time promised, for pages and for the API."""
    key = make_key(closed.store, "org-a")
    sign_in(browser, key.text)
    assert browser.get("/").status_code == 200
    revoke_key(closed.store, key.key.key_id)
    until(lambda: browser.get("/").status_code == 401)
    assert browser.get("/analyze/jobs").status_code == 401


def test_a_session_has_the_scopes_of_its_key(closed: KeyedServer, browser: httpx2.Client) -> None:
    """No more, whatever the form carries."""
    job = run_job(closed.live, bearer(closed.admin))
    sign_in(browser, make_key(closed.store, "org-a", Scope.READ).text)
    mark = hidden(assert_page(browser.get("/")), "csrf_token")
    for path in (f"/analyze/jobs/{job['job_id']}/cancel", "/analyze/keys"):
        assert browser.post(path, headers={"X-CSRF-Token": mark}).status_code == 403
    assert browser.get("/analyze/keys").status_code == 403


SAME, CROSS = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize(
    ("headers", "marked", "status"),
    [
        (SAME, True, 200),
        ({}, True, 200),
        (SAME, False, 403),
        ({}, False, 403),
        (CROSS, True, 403),
        ({"Sec-Fetch-Site": "same-site"}, True, 403),
        ({"Sec-Fetch-Site": "none"}, True, 403),
        ({"Origin": "https://evil.example"}, True, 403),
        ({"Origin": "null"}, True, 403),
        ({"Origin": "http://["}, True, 403),
        ({"Origin": ""}, True, 403),
    ],
    ids=str,
)
def test_changing_something_takes_the_mark_and_the_origin(
    closed: KeyedServer, browser: httpx2.Client, headers: dict[str, str], marked: bool, status: int
) -> None:
    """A cross-site form or script has neither; one of them is not enough."""
    job = run_job(closed.live, bearer(closed.admin))
    sign_in(browser, closed.admin)
    mark = hidden(assert_page(browser.get("/")), "csrf_token")
    sent = {**headers, "X-CSRF-Token": mark if marked else "A" * 43}
    assert browser.post(f"/analyze/jobs/{job['job_id']}/cancel", headers=sent).status_code == status
    left = browser.post("/logout", data={"csrf_token": mark if marked else ""}, headers=headers)
    assert left.status_code == (303 if status == 200 else status)


def test_the_mark_of_one_session_is_not_that_of_another(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Not even of the same key."""
    sign_in(browser, closed.admin)
    mark = hidden(assert_page(browser.get("/")), "csrf_token")
    browser.cookies.clear()
    sign_in(browser, closed.admin)
    assert browser.post("/analyze/keys", json={}, headers={"X-CSRF-Token": mark}).status_code == 403


def test_a_key_in_a_header_needs_no_mark(closed: KeyedServer, browser: httpx2.Client) -> None:
    """What a browser does not send by itself cannot be sent by another site; the cookie beside it does not count."""
    sign_in(browser, make_key(closed.store, "org-b").text)
    headers = {**bearer(closed.admin), **CROSS}
    assert browser.post("/analyze", json={"query": "Bern"}, headers=headers).json()["result"]["org"] == "org-a"
    assert browser.get("/analyze/jobs", headers=bearer("llk_wrong")).status_code == 401


def test_the_api_is_read_by_our_own_pages_alone(closed: KeyedServer, browser: httpx2.Client) -> None:
    """A page may be reached from anywhere; the API, with a cookie, only from here."""
    sign_in(browser, closed.admin)
    for site, status in (("same-origin", 200), ("none", 200), ("cross-site", 401), ("same-site", 401)):
        assert browser.get("/analyze/jobs", headers={"Sec-Fetch-Site": site}).status_code == status
        assert browser.get("/", headers={"Sec-Fetch-Site": site}).status_code == 200


def test_nobody_can_be_signed_in_by_another_site(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Without the form's own mark and nonce, or from elsewhere, a good key signs nobody in."""
    form = assert_page(browser.get("/login"), 200)
    good: dict[str, Any] = {"key": closed.admin, "csrf_token": hidden(form, "csrf_token")}
    for data, headers, nonce in (
        ({**good, "csrf_token": ""}, {}, None),
        (good, CROSS, None),
        (good, {"Origin": "https://evil.example"}, None),
        (good, {}, ""),
        (good, {}, "A" * 24),
    ):
        sent = dict(headers)
        if nonce is not None:
            sent["Cookie"] = f"{NONCE}={nonce}"
        done = browser.post("/login", data=data, headers=sent)
        assert "try again" in assert_page(done, 403).text
        assert SESSION not in done.headers.get("set-cookie", "")


def test_every_sign_in_is_a_new_session(closed: KeyedServer, browser: httpx2.Client) -> None:
    """What the browser had before does not become the session."""
    browser.cookies.set(SESSION, "lls_planted.by-somebody")
    sign_in(browser, closed.admin)
    first = {cookie.value for cookie in browser.cookies.jar if cookie.name == SESSION}
    browser.cookies.clear()
    sign_in(browser, closed.admin)
    second = {cookie.value for cookie in browser.cookies.jar if cookie.name == SESSION}
    assert not first & second


def test_a_tampered_cookie_is_none(closed: KeyedServer, browser: httpx2.Client) -> None:
    """Whichever letter is another one; nor is a token for a job a session, or a session a token."""
    sign_in(browser, closed.admin)
    text = browser.cookies[SESSION]
    browser.cookies.clear()
    job = run_job(closed.live, bearer(closed.admin))
    token = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", headers=bearer(closed.admin)).json()["token"]
    changed = [text[:n] + ("A" if text[n] != "A" else "B") + text[n + 1 :] for n in range(0, len(text), 7)]
    for shown in (*changed, text[:-1], text + "A", "", token, closed.admin, "lls_"):
        answer = browser.get("/analyze/jobs", headers={"Cookie": f"{SESSION}={shown}"})
        assert answer.status_code == 401, shown
    assert browser.get("/analyze/jobs", headers={"Cookie": f"{SESSION}={text}"}).status_code == 200
    assert browser.get("/analyze/jobs", headers=bearer(text)).status_code == 401


@pytest.mark.parametrize(
    ("wish", "way"),
    [
        ("", ""),
        ("/", ""),
        ("/jobs/x", "jobs/x"),
        ("jobs/x?lang=de&view=requested", "jobs/x?lang=de&view=requested"),
        ("//evil.example", ""),
        ("///evil.example/x", ""),
        ("https://evil.example", ""),
        ("/\\evil.example", ""),
        ("\\\\evil.example", ""),
        ("javascript:alert(1)", ""),
        ("/jobs/../../x", ""),
        ("/%2e%2e/x", ""),
        ("/jobs/x\r\nSet-Cookie: a=b", ""),
        ("/jobs/x#frag", ""),
        ("/jobs//x", ""),
        ("/.well-known/x", ""),
        ("/jobs/x?next=//evil.example", ""),
        ("/" + "x" * 600, ""),
        ("/jobs/ö", ""),
    ],
)
def test_nobody_is_sent_elsewhere(closed: KeyedServer, browser: httpx2.Client, wish: str, way: str) -> None:
    """Whatever stands in the form or in the address, one ends up at a page of ours."""
    assert local_path(wish) == way
    done = sign_in(browser, closed.admin, next=wish)
    assert (done.status_code, done.headers["location"]) == (303, f"./{way}")
    shown = browser.get("/login", params={"next": wish})
    assert (shown.status_code, shown.headers["location"]) == (303, f"./{way}")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"key=%ff", "application/x-www-form-urlencoded", 400),
        (b"key=a&key=b", "application/x-www-form-urlencoded", 400),
        (b"x" * 20_000, "application/x-www-form-urlencoded", 413),
        ("key=ö".encode(), "application/x-www-form-urlencoded", 400),
        (b"&".join(b"f%d=1" % n for n in range(300)), "application/x-www-form-urlencoded", 400),
    ],
    ids=["json", "bytes", "twice", "large", "raw", "many"],
)
def test_a_form_that_is_none_is_refused(browser: httpx2.Client, content: bytes, kind: str, status: int) -> None:
    """As a page, and nothing happens."""
    for path in ("/login", "/logout"):
        assert_page(browser.post(path, content=content, headers={"Content-Type": kind}), status)


def test_methods_that_are_not_known_are_told(browser: httpx2.Client) -> None:
    """Signing out is no link that a browser could follow by itself."""
    assert set(browser.delete("/login").headers["allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}
    assert (browser.get("/logout").status_code, browser.get("/logout").headers["allow"]) == (405, "OPTIONS, POST")


def test_where_nobody_is_asked_for_a_key_nobody_signs_in(tmp_path: Path) -> None:
    """The form is not shown; whoever posts one is sent on; but another site may not change anything."""
    with live(tmp_path, LANGLAUF_CORS_ORIGINS="https://ui.example") as running:
        for answer in (running.http.get("/login?next=/docs"), running.http.post("/login", data={"next": "docs"})):
            assert (answer.status_code, answer.headers["location"]) == (303, "./docs")
        assert SESSION not in running.http.cookies
        body: dict[str, Any] = {"json": {"query": "Bern"}}
        assert running.http.post("/analyze", **body, headers=CROSS).status_code == 403
        assert running.http.post("/analyze", **body, headers=SAME).status_code == 200
        allowed = {**CROSS, "Origin": "https://ui.example"}
        assert running.http.post("/analyze", **body, headers=allowed).status_code == 200


def test_signing_in_works_below_a_mount_point(tmp_path: Path) -> None:
    """The cookie is for that part of the site, and with https it is Secure."""
    store = tmp_path / "s.db"
    key = make_key(store, "org-a")
    app = sample_app(settings=load_settings({"ASYNC_JOBS_STORE_FILE": str(store)}))

    async def scene() -> None:
        outer = Starlette(routes=[Mount("/tools/jobs", app.asgi())])
        async with (
            app.lifespan(),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url="https://jobs.example") as client,
        ):
            address = "/tools/jobs/jobs/x"
            form = assert_page(await client.get(address), 401)
            values = {"csrf_token": hidden(form, "csrf_token"), "next": hidden(form, "next"), "key": key.text}
            target = urljoin(address, action(form, "login"))
            assert target == "/tools/jobs/login"
            done = await client.post(target, data=values, headers={"Origin": "https://jobs.example"})
            assert urljoin(target, done.headers["location"]) == address
            [cookie] = [line for line in done.headers.get_list("set-cookie") if line.startswith(f"{SESSION}=")]
            assert {"Path=/tools/jobs/", "Secure", "HttpOnly"} <= {part.strip() for part in cookie.split(";")}
            made = assert_page(await client.get("/tools/jobs/"))
            assert urljoin("/tools/jobs/", action(made, "logout")) == "/tools/jobs/logout"

    asyncio.run(scene())


def test_a_public_address_decides_about_the_cookie(tmp_path: Path) -> None:
    """Behind a proxy that speaks https and takes a prefix off, the cookie and the origin are those of outside."""
    key = make_key(tmp_path / "store.db", "org-a")
    with live(tmp_path, LANGLAUF_PUBLIC_URL="https://jobs.example/tools") as running:
        form = running.http.get("/login")
        [nonce] = form.headers.get_list("set-cookie")
        assert "Path=/tools/" in nonce
        assert "Secure" in nonce
        data = {"csrf_token": hidden(HtmlPage(form.text), "csrf_token"), "key": key.text}
        sent = {"Cookie": nonce.partition(";")[0]}
        for origin, status in (("https://jobs.example", 303), ("http://jobs.example", 403), (running.url, 403)):
            done = running.http.post("/login", data=data, headers={**sent, "Origin": origin})
            assert done.status_code == status, origin
