"""HTTP: whole stacks with the same client, status polls of a finished job, and durable submissions under wrk."""

import json
import time
import urllib.request

import msgspec

from bench import wrk
from bench.context import Context
from bench.processes import cpu_seconds
from bench.results import Measured
from bench.sections.rounds import run_rounds
from bench.stack import (
    APPS,
    ARQ,
    BARE_POSTGRES,
    BARE_SQLITE,
    LANGLAUF_POSTGRES,
    LANGLAUF_PROCESSES,
    LANGLAUF_SQLITE,
    PROCRASTINATE,
    Running,
    Stack,
    peer_environment,
    run_peer,
    serves_in_processes,
    started,
)

ENVIRONMENTS = ("arq", "procrastinate", "bare", "client")
_JOBS = 2_000
_END_SECONDS = 30.0
_WORK = {"task": "report.render", "payload": {"a": "x" * 200}}
_SUBMISSION = {"analysis": "noop", "input": _WORK, "options": {"async_mode": {"requested": True}}}
_POST = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '%s'
"""
_BARE_STATUS = Stack(name="bare Starlette + msgspec", environment="bare", app="bare_status:api", on_disk="")


def _langlauf() -> tuple[Stack, ...]:
    more = (LANGLAUF_PROCESSES,) if serves_in_processes() else ()
    return (LANGLAUF_SQLITE, LANGLAUF_POSTGRES, *more)


def measure_stacks(context: Context, found: Measured) -> None:
    """Submit all, then poll each until it has ended."""

    def measure(stack: Stack) -> dict[str, float]:
        jobs = context.of_jobs(_JOBS)
        with started(stack, context, context.data / "stack.log") as running:
            words = [str(APPS / "load.py"), running.url, stack.kind, str(jobs)]
            said = run_peer("client", words, peer_environment(context, context.data / "marks"), seconds=300)
        return msgspec.json.decode(said, type=dict[str, float])

    run_rounds(context, found, (*_langlauf(), ARQ, PROCRASTINATE, BARE_SQLITE, BARE_POSTGRES), measure)


def measure_posts(context: Context, found: Measured) -> None:
    """Durable submissions while the worker drains them."""

    def measure(stack: Stack) -> dict[str, float]:
        with started(stack, context, context.data / "posts.log") as running:
            path, body = ("/analyze", _SUBMISSION) if stack.kind == "langlauf" else ("/jobs", _WORK)
            script = context.data / "post.lua"
            script.write_text(_POST % json.dumps(body), "utf-8")
            wrk.run(context, running.url + path, script=script, seconds=1)
            return wrk.run(context, running.url + path, script=script)

    stacks = (*_langlauf(), ARQ, BARE_SQLITE, BARE_POSTGRES)
    run_rounds(context, found, [_with_wrk(stack) for stack in stacks], measure)


def measure_polls(context: Context, found: Measured) -> None:
    """The same document from Langlauf and from bare Starlette, whose file is what Langlauf answered."""
    document = context.data / "document.json"

    def measure(stack: Stack) -> dict[str, float]:
        surroundings = {"BENCH_DOCUMENT": str(document)}
        with started(stack, context, context.data / "polls.log", environment=surroundings) as running:
            path = "/analyze/jobs/any"
            if stack.kind == "langlauf":
                path, answer = finished_job(running.url)
                document.write_bytes(answer)
            wrk.run(context, running.url + path, seconds=1)
            figures = _poll(context, running, path)
            if stack.kind == "langlauf":
                figures["health_per_second"] = wrk.run(context, running.url + "/health", seconds=1)["per_second"]
            return figures

    run_rounds(context, found, [_with_wrk(stack) for stack in (*_langlauf(), _BARE_STATUS)], measure)


def _poll(context: Context, running: Running, path: str) -> dict[str, float]:
    used = cpu_seconds(running.pids)
    figures = wrk.run(context, running.url + path)
    used = cpu_seconds(running.pids) - used
    return {**figures, "processor_us": used / (figures["per_second"] * context.seconds) * 1e6}


def finished_job(url: str, org: str = "") -> tuple[str, bytes]:
    """Submit a job of an org, and return the path of its status and the answer once it has ended."""
    headers = {"Content-Type": "application/json", **({"X-Org-Id": org} if org else {})}
    submitted = _asked(f"{url}/analyze", headers, json.dumps(_SUBMISSION).encode())
    path = f"/analyze/jobs/{json.loads(submitted)['job']['job_id']}"
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        answer = _asked(url + path, headers)
        if json.loads(answer)["job"]["status"] == "completed":
            return path, answer
        time.sleep(0.05)
    raise RuntimeError("the job that is to be polled did not end")


def _asked(url: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - a server that was started here
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - the same
        found: bytes = response.read()
    return found


def _with_wrk(stack: Stack) -> Stack:
    return msgspec.structs.replace(stack, needs=(*stack.needs, "wrk"))
