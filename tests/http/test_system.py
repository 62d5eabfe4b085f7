"""Health, readiness, metrics, CORS, limits of the queue, the description of the API, stopping."""

import threading
from pathlib import Path

from langlauf.api.app import api_routes
from langlauf.api.openapi.document import build_document
from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import GATES, Live, live, sample_app
from tests.support.processes import eventually


def test_it_tells_that_it_is_up_and_ready(server: Live) -> None:
    """Both with ok and request_id."""
    for path, status in (("/health", "up"), ("/ready", "ready")):
        body = server.http.get(path).json()
        assert (body["ok"], body["status"], bool(body["request_id"])) == (True, status, True)


def test_a_server_without_workers_accepts_and_is_ready(tmp_path: Path) -> None:
    """workers=0 serves without working: jobs wait, and a server with a worker on the same store runs them."""
    with live(tmp_path, LANGLAUF_WORKERS="0") as idle:
        assert idle.http.get("/ready").status_code == 200
        job_id = idle.submit("echo", query="Bern")["job_id"]
        assert idle.job(job_id, wait=1)["status"] == "queued"
        with live(tmp_path) as working:
            assert working.wait(job_id)["status"] == "completed"
        assert idle.job(job_id)["status"] == "completed"


def test_metrics_are_counted(server: Live) -> None:
    """The text format of Prometheus, with what waits and runs, or that of OpenMetrics; nonsense in Accept is none."""
    plain = server.http.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'langlauf_jobs_waiting{analysis="echo"} 0.0\n' in plain.text
    assert 'langlauf_log_events_total{event="attempt_ended"}' in plain.text
    open_kind = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    openmetrics = server.http.get("/metrics", headers={"Accept": open_kind})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.text.endswith("# EOF\n")
    for nonsense in ("text/plain;version=x", "text/plain;version=9.9.9;escaping=x", "*/*", "application/json"):
        answer = server.http.get("/metrics", headers={"Accept": nonsense})
        assert (answer.status_code, answer.headers["content-type"]) == (200, plain.headers["content-type"])


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    """429 for the org's limit, 503 for the whole, with Retry-After; nothing is written."""
    with live(tmp_path, LANGLAUF_MAX_WAITING_PER_ORG="2", LANGLAUF_MAX_WAITING="3", LANGLAUF_WORKERS="0") as server:
        for number in range(2):
            server.submit("echo", "org-a", query=f"{number}")
        body = {"analysis": "echo", "query": "x"}
        full = server.http.post("/analyze", json=body, headers={"X-Org-Id": "org-a", "Prefer": "respond-async"})
        assert_problem(full, 429, "queue_full")
        assert int(full.headers["retry-after"]) >= 1
        server.submit("echo", "org-b", query="x")
        full = server.http.post("/analyze", json=body, headers={"X-Org-Id": "org-c", "Prefer": "respond-async"})
        assert_problem(full, 503, "queue_full")
        assert int(full.headers["retry-after"]) >= 1


def test_browsers_of_listed_origins_may_call(server: Live) -> None:
    """CORS for the allow-list with our headers, and for nobody else."""
    asked = "X-Org-Id, X-Tenant-Id, Authorization, Idempotency-Key, Prefer, Last-Event-ID, X-Request-Id, Content-Type"
    preflight = {
        "Origin": "https://ui.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": asked,
    }
    response = server.http.options("/analyze", headers=preflight)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (204, "https://ui.example")
    allowed = response.headers["access-control-allow-headers"].lower()
    assert all(name.strip().lower() in allowed for name in asked.split(","))
    response = server.http.get("/health", headers={"Origin": "https://ui.example"})
    assert "Location" in response.headers["access-control-expose-headers"]
    assert response.headers["x-request-id"]
    foreign = server.http.options("/analyze", headers={**preflight, "Origin": "https://evil.example"})
    assert foreign.headers["x-request-id"]
    assert "access-control-allow-origin" not in foreign.headers


def test_the_description_has_every_route(server: Live) -> None:
    """OpenAPI and routes agree, in both directions, and every reference leads somewhere."""
    document = server.http.get("/openapi.json").json()
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    context = server.app._current()
    routes = {
        (route.path, method.lower()) for route in api_routes(context) for method in (route.methods or set()) - {"HEAD"}
    }
    assert described == routes
    assert document["openapi"].startswith("3.1")
    text = server.http.get("/openapi.json").text
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(document["components"]["schemas"])
    assert "gated" in text


def test_another_prefix_moves_everything(tmp_path: Path) -> None:
    """api_prefix names where the API is, in routes, links and the description."""
    with live(tmp_path, sample_app(api_prefix="/v1/jobs-api")) as server:
        response = server.http.post("/v1/jobs-api", json={"query": "x"}, headers={"Prefer": "respond-async"})
        assert response.headers["location"].startswith("/v1/jobs-api/jobs/")
        assert server.http.get(response.headers["location"]).status_code == 200
        assert "/v1/jobs-api/jobs" in build_document(server.app.registry, "/v1/jobs-api")["paths"]
        assert server.http.post("/analyze", json={"query": "x"}).status_code == 404


def test_links_start_with_the_public_address(tmp_path: Path) -> None:
    """Behind a proxy, Location is what the caller can reach."""
    with live(tmp_path, LANGLAUF_PUBLIC_URL="https://jobs.example/api/") as server:
        response = server.http.post("/analyze", json={"query": "x"}, headers={"Prefer": "respond-async"})
        assert response.headers["location"].startswith("https://jobs.example/api/analyze/jobs/")


def test_stopping_does_not_cancel_what_a_caller_waits_for(tmp_path: Path) -> None:
    """A synchronous request is told that the server stops; its job finishes within the grace or after the restart."""
    gate = new_id()
    answers: list[tuple[int, str]] = []
    with live(tmp_path, LANGLAUF_SHUTDOWN_GRACE="0") as server:

        def post() -> None:
            response = server.http.post("/analyze", json={"analysis": "gated", "gate": gate})
            answers.append((response.status_code, response.json()["job_id"]))

        caller = threading.Thread(target=post)
        caller.start()
        GATES.wait_until_reached(gate)
        server.stop()
        caller.join(60)
    GATES.open(gate)
    [(status, job_id)] = answers
    assert status == 503
    with live(tmp_path) as server:
        assert server.wait(job_id)["status"] == "completed"


def test_stopping_lets_waiting_callers_go_and_gives_jobs_back(tmp_path: Path) -> None:
    """A long poll ends at once, a running job is released for the next worker without counting as a failure."""
    gate = new_id()
    answers: list[int] = []
    with live(tmp_path, LANGLAUF_SHUTDOWN_GRACE="0") as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        etag = server.http.get(f"/analyze/jobs/{job_id}").headers["etag"]

        def poll() -> None:
            response = server.http.get(f"/analyze/jobs/{job_id}", params={"wait": 30}, headers={"If-None-Match": etag})
            answers.append(response.status_code)

        poller = threading.Thread(target=poll)
        poller.start()
        assert server.app.runtime is not None
        places = server.app.runtime.services.followers.slots
        eventually(lambda: places.taken("poll") == 1)
        server.stop()
        poller.join(60)
    assert answers == [304]
    GATES.open(gate)
    with live(tmp_path) as server:
        job = server.wait(job_id)
        kinds = [event["event_type"] for event in job["events"]]
        assert (job["status"], job["attempt"], job["retry_count"], job["error_count"]) == ("completed", 2, 0, 0)
        assert kinds == ["job.queued", "job.running", "job.released", "job.attempt_started", "job.completed"]
