"""`Langlauf`: registers analyses, and serves or runs them."""

import importlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from langlauf.analysis import job
from langlauf.analysis.registry import Function, Registry
from langlauf.analysis.schema import InvalidInput
from langlauf.auth.caller import DEFAULT_ORG, internal_caller, is_valid_name
from langlauf.domain.errors import LanglaufError, NotRunning, QueueIsFull, RegistrationError
from langlauf.domain.job import Accepted, Duplicate, JobRecord, PriorityClass, QueueFull, Replayed
from langlauf.domain.provenance import read_trace
from langlauf.domain.result import Fact
from langlauf.settings import Settings, load_settings
from langlauf.settings_values import parse_duration

if TYPE_CHECKING:  # a process that only runs analyses loads neither the API nor the pages
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from langlauf.api.context import ApiContext
    from langlauf.auth.rates import LimitMemory
    from langlauf.bootstrap import Runtime

F = TypeVar("F", bound=Function)


class ToolRules(TypedDict, total=False):
    """The argument `mcp` of `@app.analysis`: how the analysis is described to agents."""

    #: for the model, instead of the docstring
    description: str
    #: whether it changes nothing outside of itself
    read_only: bool
    #: whether it may delete or overwrite something
    destructive: bool
    #: whether calling it again with the same input changes nothing more
    idempotent: bool
    #: whether it reaches systems beyond this server
    open_world: bool
    #: whether a call is always a task, and refused to clients that do not follow tasks
    task: bool


class Rules(TypedDict, total=False):
    """The arguments of `@app.analysis`."""

    name: str
    #: what people read instead of the name
    title: str
    #: the label of a job, with names of parameters: `{query}`
    label: str
    #: labels, units and order of the values of a summary
    facts: Sequence[Fact]
    #: by language, a text of the analysis and what stands for it
    texts: Mapping[str, Mapping[str, str]]
    #: seconds, or a text like `30m`
    timeout: float | str
    max_retries: int
    #: whether a second job with the same input is accepted while one is unfinished
    duplicates: bool
    cancelable: bool
    max_running: int
    queue_limit: int
    #: exception types that are retried
    transient: tuple[type[BaseException], ...]
    #: the analysis of requests that name none
    default: bool
    #: runs by a schedule of the default org: a cron expression or a duration, its time zone and its input
    every: str | float
    zone: str
    given: Mapping[str, Any]
    #: its description as a tool of agents; False hides it from them
    mcp: bool | ToolRules
    #: of its code; without it, the hash of the source and the version of the package
    version: str
    #: how long a result is reused for the same input, in seconds or as a text like `7d`
    reuse: float | str


class NotifyWish(TypedDict, total=False):
    """Where to notify of a job's end."""

    #: a URL
    webhook: str
    #: an e-mail address
    email: str


class Langlauf:
    """An application: a set of analyses behind one API."""

    def __init__(self, *, api_prefix: str = "/analyze", settings: Settings | None = None) -> None:
        self.api_prefix = _usable_prefix("api_prefix", api_prefix)
        self.registry = Registry()
        self.registry.reserve(job.probe, name=job.PROBE_NAME, duplicates=True, max_retries=0, timeout=job.PROBE_TIMEOUT)
        self.runtime: Runtime | None = None
        self._context: ApiContext | None = None
        self._settings = settings
        self._target: str | None = None
        self._limits: LimitMemory | None = None

    @property
    def settings(self) -> Settings:
        """Return the given settings, else those of the environment."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def use(self, settings: Settings, target: str | None = None, limits: "LimitMemory | None" = None) -> None:
        """Replace the settings, before anything runs.

        With a `target`, the `module:name` of this application, its workers are processes of their own that load it.
        `limits` counts rates and slots for several API processes together.
        """
        if self.runtime is not None:
            raise LanglaufError("the application runs already; its settings can no longer change")
        self._settings = settings
        self._target = target
        self._limits = limits

    @overload
    def analysis(self, function: F, /) -> F: ...

    @overload
    def analysis(self, /, **rules: Unpack[Rules]) -> Callable[[F], F]: ...

    def analysis(self, function: F | None = None, /, **rules: Unpack[Rules]) -> F | Callable[[F], F]:
        """Register an analysis, as `@app.analysis` or `@app.analysis(timeout="30m")`."""
        known: dict[str, Any] = {**rules}
        for name in ("timeout", "reuse"):
            if isinstance(known.get(name), str):
                known[name] = parse_duration(known[name])
        with suppress(ValueError):  # else it is a cron expression
            if isinstance(known.get("every"), str):
                known["every"] = parse_duration(known["every"])

        def register(made: F) -> F:
            self.registry.register(made, **known)
            return made

        return register if function is None else register(function)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Run the application; enter it in the lifespan of an application that mounts this one."""
        from langlauf.api.context import ApiContext
        from langlauf.auth.rates import rate_limits_from
        from langlauf.bootstrap import run_application

        if self.runtime is not None:
            raise LanglaufError("the application runs already: enter `lifespan()` once, in one place")
        async with run_application(
            self.registry, self.settings, self.api_prefix, self._target, self._limits
        ) as runtime:
            self.runtime = runtime
            rates = rate_limits_from(self.settings, self._limits)
            self._context = ApiContext(runtime.services, self.settings, self.api_prefix, runtime.alive, rates)
            try:
                yield
            finally:
                self.runtime = self._context = None

    def asgi(self) -> "ASGIApp":
        """Return the API as an ASGI application with its own lifespan."""
        from langlauf.api.app import Application
        from langlauf.mcp.endpoint import mcp_routes
        from langlauf.ui.routes import missing_page, page_routes

        def routes(context: "ApiContext") -> list["Route"]:
            return [*mcp_routes(context), *page_routes(context)]

        return Application(self._current, self.lifespan, routes, missing_page, self.settings)

    def system_asgi(self) -> "ASGIApp":
        """Return an ASGI application with health, readiness and metrics only, for a worker process."""
        from langlauf.api.app import system_application

        return system_application(self._current, self.lifespan, self.settings)

    def mount_in(self, outer: "ASGIApp", prefix: str) -> "ASGIApp":
        """Return both applications as one: ours under the prefix, the outer one elsewhere, each with its lifespan.

        For Django, which can neither mount nor take part in a lifespan, and for every other ASGI application.
        """
        from langlauf.server.asgi import MountedApplication

        return MountedApplication(self.asgi(), self.lifespan, outer, _usable_prefix("prefix", prefix))

    def _current(self) -> "ApiContext":
        self._running()
        if self._context is None:
            raise NotRunning("the application has just stopped")
        return self._context

    def _running(self) -> "Runtime":
        if self.runtime is None:
            raise NotRunning(
                "the application is not running: enter `app.lifespan()` in the lifespan of the application that "
                "mounts it, or combine both with `app.mount_in(outer, prefix)`"
            )
        return self.runtime

    async def submit(
        self,
        analysis: str | None = None,
        /,
        *,
        org: str = DEFAULT_ORG,
        priority_class: PriorityClass = "default",
        idempotency_key: str | None = None,
        allow_duplicate: bool = False,
        job_label: str | None = None,
        traceparent: str | None = None,
        notify: NotifyWish | None = None,
        **values: Any,
    ) -> JobRecord:
        """Submit a job without HTTP, inside `app.lifespan()`; it is on disk when this returns.

        `job_label` is what people read in lists, the inbox and mails; the analysis may have a parameter `label`.
        `traceparent` is the trace context of the job; a malformed one is ignored. `notify` says where to report its
        end: `{"webhook": "https://…", "email": "name@example.org"}`, or one of the two.
        """
        from langlauf.service.notifications import NotifyOptions
        from langlauf.service.submit import SubmitRequest

        if not is_valid_name(org):
            raise InvalidInput("org", f"{org!r} cannot name an org: 1 to 128 of A-Z a-z 0-9 _ . : -")
        submission = SubmitRequest(
            analysis=analysis,
            input=values,
            priority_class=priority_class,
            idempotency_key=idempotency_key,
            allow_duplicate=allow_duplicate,
            label=job_label,
            notify=None if notify is None else NotifyOptions(**notify),
        )
        caller = internal_caller(org, None if traceparent is None else read_trace([traceparent]))
        submitted = await self._running().services.submissions.submit(caller, submission)
        if isinstance(submitted, Accepted | Replayed | Duplicate):
            return submitted.job
        if isinstance(submitted, QueueFull):
            raise QueueIsFull(submitted.reason, scope=submitted.scope, retry_after=submitted.retry_after)
        raise LanglaufError("the idempotency key was used with another payload; the job was not accepted")


def load_app(target: str) -> Langlauf:
    """Return the application that `module:name` names."""
    module_name, _, name = target.partition(":")
    sys.path.insert(0, "")
    try:
        app = getattr(importlib.import_module(module_name), name or "app")
    except (ImportError, AttributeError, LanglaufError) as error:
        raise LanglaufError(f"{target} cannot be loaded: {error}") from error
    if not isinstance(app, Langlauf):
        raise LanglaufError(f"{target} is a {type(app).__name__}, not a Langlauf application")
    return app


def _usable_prefix(name: str, prefix: str) -> str:
    """Check a prefix. It is never empty: at the root, the API and the pages would share URLs."""
    if len(prefix) < len("/x") or prefix != "/" + prefix.strip("/"):
        raise RegistrationError(f"{name}={prefix!r} must look like /analyze")
    return prefix
