"""Every setting in one table, which also makes the flags and the documents.

Settings are read once at start, from the environment and then from flags, and passed down frozen. An unknown
`LANGLAUF_` name or a bad value stops the program.
"""

import ctypes
import difflib
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.access import Rate, read_rate
from langlauf.domain.attempt import Backoff, JobBounds
from langlauf.domain.errors import SettingsError
from langlauf.domain.mail import MailRules, MailSender, MailServer, read_mail_server, read_sender
from langlauf.domain.result import RetentionPolicy
from langlauf.domain.ssrf import AllowedRange, Network
from langlauf.limits import LIMITS, MEBIBYTE, read_limits
from langlauf.settings_values import (
    one_of,
    parse_duration,
    read_allowed_ranges,
    read_durations,
    read_executor,
    read_header_name,
    read_mail_domains,
    read_networks,
    read_origins,
    read_port,
    read_positive_duration,
    read_switch,
    read_text,
    read_variables,
    read_web_url,
    read_webhook_secrets,
    whole_number,
)

_TEST_NAMES = "LANGLAUF_TEST_"
#: Descriptors kept for the store, worker processes and requests for /health.
_OTHER_DESCRIPTORS = 160
_LEAST_CONNECTIONS = 16
#: With less, Python and an application cannot even be loaded.
_LEAST_MEMORY = 64 * 1_048_576
DEFAULT_STORE = "runtime/async_jobs/store.v1.db"
SHORTEST_JOBS_RETENTION = 86_400.0
_WEBHOOK_SCHEDULE = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)


class Setting(NamedTuple):
    """One row of the table. `unit` says what a value is."""

    name: str
    environment: str
    default: Any
    read: Callable[[str], Any]
    unit: str
    help: str


#: By group, as the documents show them; the first has what most deployments set.
GROUPS: dict[str, tuple[Setting, ...]] = {
    "Essentials": (
        Setting("host", "LANGLAUF_HOST", "127.0.0.1", read_text, "address", "The address to listen on."),
        Setting("port", "LANGLAUF_PORT", 8080, read_port, "number", "The port to listen on; 0 picks a free one."),
        Setting("store", "LANGLAUF_STORE", None, read_text, "URL", "The store: sqlite:///path, memory://, postgresql://user@host/database or a path."),
        Setting("public_url", "LANGLAUF_PUBLIC_URL", None, read_web_url, "URL", "The URL under which people reach the server; links start with it."),
        Setting("auth_token", "API_AUTH_TOKEN", None, read_text, "secret", "The token of the operator, who may do everything, for every org."),
        Setting("workers", "LANGLAUF_WORKERS", 1, whole_number(0), "number", "Worker processes of this program; 0 serves the API only."),
        Setting("max_running", "LANGLAUF_MAX_RUNNING", 8, whole_number(1), "jobs", "The most jobs that run at once in the whole deployment."),
        Setting("shutdown_grace", "LANGLAUF_SHUTDOWN_GRACE", 25.0, parse_duration, "duration", "How long running attempts may go on at shutdown."),
        Setting("results_retention", "ASYNC_JOB_RESULTS_RETENTION_SECONDS", 604_800.0, parse_duration, "duration", "How long results are kept after the end of a job."),
        Setting("log_format", "LANGLAUF_LOG_FORMAT", "text", one_of("text", "json"), "word", "The format of the log: text or json."),
    ),
    "Store": (
        Setting("store_file", "ASYNC_JOBS_STORE_FILE", None, read_text, "path", "The store as a path, instead of LANGLAUF_STORE; .json names a store of the earlier system."),
        Setting("blobs", "LANGLAUF_BLOBS", None, read_text, "URL", "Where large results go: a path, file:///path or s3://bucket/prefix; without it they stay in the store."),
        Setting("notify", "LANGLAUF_NOTIFY", True, read_switch, "switch", "Whether hosts on PostgreSQL wake each other with NOTIFY; without it they poll."),
    ),
    "Workers": (
        Setting("max_running_org", "LANGLAUF_MAX_RUNNING_PER_ORG", None, whole_number(1), "jobs", "The most jobs of one org that run at once in the whole deployment."),
        Setting("map_processes", "LANGLAUF_MAP_PROCESSES", None, whole_number(1), "number", "Processes per worker that compute chunks of `job.map`; by default one per core."),
        Setting("executor", "LANGLAUF_EXECUTOR", "local", read_executor, "URL", "Where chunks of `job.map` are computed: local, or the Dask scheduler dask://host:port (tls:// with TLS)."),
        Setting("process_memory", "LANGLAUF_PROCESS_MEMORY", None, whole_number(_LEAST_MEMORY), "bytes", "Memory limit of a process that runs a plain `def`; at least 64 MiB."),
        Setting("child_env", "LANGLAUF_CHILD_ENV", (), read_variables, "list", "Additional environment variables that analyses may see, such as DATABASE_URL,MY_*."),
        Setting("watchdog", "LANGLAUF_WATCHDOG", True, read_switch, "switch", "Whether code that blocks the event loop of a worker is interrupted, and the worker ended if that fails."),
        Setting("lease_seconds", "LANGLAUF_LEASE_SECONDS", 15.0, read_positive_duration, "duration", "How long a silent worker keeps its jobs."),
        Setting("sweep_seconds", "LANGLAUF_SWEEP_SECONDS", 5.0, read_positive_duration, "duration", "The interval of the sweep for lost and overdue jobs."),
        Setting("poll_seconds", "LANGLAUF_POLL_SECONDS", 0.5, read_positive_duration, "duration", "The poll interval of an idle worker."),
        Setting("cancel_grace", "LANGLAUF_CANCEL_GRACE", 5.0, parse_duration, "duration", "How long a canceled attempt may take to stop."),
        Setting("retry_base", "LANGLAUF_RETRY_BASE", 1.0, parse_duration, "duration", "The longest wait before the first retry; it doubles with each further one."),
        Setting("retry_cap", "LANGLAUF_RETRY_CAP", 60.0, parse_duration, "duration", "The longest wait before any retry."),
        Setting("address_table", "LANGLAUF_ADDRESS_TABLE", None, one_of("15000", "5000", "1000", "500"), "number", "The places that the bundled analysis address knows: those with at least 15000, 5000, 1000 or 500 people."),
        Setting("fault_injection", "ENABLE_E2E_FAULT_INJECTION", False, read_switch, "switch", "Whether certain queries fail on purpose, for end-to-end tests; never in production."),
    ),
    "Requests": (
        Setting("processes", "LANGLAUF_PROCESSES", 1, whole_number(1), "number", "API processes of `langlauf serve`, behind one port; more than one needs PostgreSQL."),
        Setting("sync_limit", "LANGLAUF_SYNC_LIMIT", 30.0, read_positive_duration, "duration", "How long a synchronous request waits for its result; then the job is canceled."),
        Setting("mcp", "LANGLAUF_MCP", True, read_switch, "switch", "Whether agents can call the analyses as tools, at /mcp."),
        Setting("mcp_inline", "LANGLAUF_MCP_INLINE", 1.0, parse_duration, "duration", "How long the call of a tool waits for its result; then it is answered with a task, which the agent asks again."),
        Setting("max_body", "LANGLAUF_MAX_BODY", MEBIBYTE, whole_number(1), "bytes", "The largest request body."),
        Setting("max_connections", "LANGLAUF_MAX_CONNECTIONS", 10_000, whole_number(1), "number", "The most open connections; file descriptors may limit it further."),
        Setting("max_result", "LANGLAUF_MAX_RESULT", 64 * MEBIBYTE, whole_number(1), "bytes", "The largest result or interim result."),
        Setting("max_waiting_org", "LANGLAUF_MAX_WAITING_PER_ORG", 100_000, whole_number(1), "jobs", "The most waiting jobs of one org."),
        Setting("max_waiting_all", "LANGLAUF_MAX_WAITING", 1_000_000, whole_number(1), "jobs", "The most waiting jobs of all orgs together."),
        Setting("limits", "LANGLAUF_LIMITS", {}, read_limits, "list", "Further limits, which hardly any deployment changes, with semicolons between: head_seconds=5s; max_url=4096."),
    ),
    "Access": (
        Setting("access", "LANGLAUF_ACCESS", "tenant", one_of("tenant", "capability"), "word", "Who may read a job, its events and its result: tenant, callers of its org; capability, every caller that has the id."),
        Setting("rate_limit", "LANGLAUF_RATE_LIMIT", None, read_rate, "rate", "Requests of one org, such as 100/1m, counted by each API process."),
        Setting("rate_limit_submit", "LANGLAUF_RATE_LIMIT_SUBMIT", None, read_rate, "rate", "Submissions of one org; without it they count as requests."),
        Setting("trusted_proxies", "LANGLAUF_TRUSTED_PROXIES", (), read_networks, "list", "Addresses of proxies that are trusted to name the client, such as 127.0.0.1,10.1.0.0/16."),
        Setting("proxy_header", "LANGLAUF_PROXY_HEADER", "X-Forwarded-For", read_header_name, "name", "The header in which trusted proxies name the client."),
        Setting("cors_origins", "LANGLAUF_CORS_ORIGINS", (), read_origins, "list", "Origins of browsers that may call the API, comma-separated; * for all."),
    ),
    "Retention": (
        Setting("events_retention", "ASYNC_JOB_EVENTS_RETENTION_SECONDS", 259_200.0, parse_duration, "duration", "How long events are kept after the end of a job."),
        Setting("final_retention", "LANGLAUF_FINAL_RETENTION", None, parse_duration, "duration", "How long final results are kept, where that differs from other results."),
        Setting("partial_retention", "LANGLAUF_PARTIAL_RETENTION", None, parse_duration, "duration", "How long interim results are kept, where that differs from other results."),
        Setting("jobs_retention", "LANGLAUF_JOBS_RETENTION", 7_776_000.0, parse_duration, "duration", "How long the record of a job is kept; at least 24h."),
    ),
    "Webhooks and mail": (
        Setting("webhook_secret", "LANGLAUF_WEBHOOK_SECRET", None, read_webhook_secrets, "secret", "The secret that signs webhooks of jobs, with a key derived for each org: whsec_ and Base64; after a comma the previous one."),
        Setting("webhook_allow", "LANGLAUF_WEBHOOK_ALLOW", (), read_allowed_ranges, "list", "Private address ranges that webhooks may call, also with http and on any port: 10.1.0.0/16, or acme=10.2.0.0/16 for one org."),
        Setting("webhook_schedule", "LANGLAUF_WEBHOOK_SCHEDULE", _WEBHOOK_SCHEDULE, read_durations, "list", "The waits before further attempts to deliver a webhook or mail, such as 5s,5m,30m,2h."),
        Setting("webhook_seconds", "LANGLAUF_WEBHOOK_SECONDS", 15.0, read_positive_duration, "duration", "The time limit of one attempt to deliver a webhook or a mail."),
        Setting("webhook_ca", "LANGLAUF_WEBHOOK_CA", None, read_text, "path", "A PEM file with certificates of a private authority that webhook receivers may use."),
        Setting("deliveries", "LANGLAUF_DELIVERIES", 8, whole_number(0), "number", "Webhooks and mails that this process sends at once; 0 leaves delivery to other processes."),
        Setting("smtp", "LANGLAUF_SMTP", None, read_mail_server, "secret", "The mail server: smtp://user:password@host:587 with STARTTLS (?tls=none without), or smtps://user:password@host:465; without it no mail is sent."),
        Setting("mail_from", "LANGLAUF_MAIL_FROM", None, read_sender, "address", "The sender of mails: jobs@example.org, or Name <jobs@example.org>."),
        Setting("mail_language", "LANGLAUF_MAIL_LANGUAGE", "en", one_of("en", "de"), "word", "The language of mails if the submission names none: en or de."),
        Setting("mail_domains", "LANGLAUF_MAIL_DOMAINS", (), read_mail_domains, "list", "Domains that may receive mail, such as example.org, or *.example.org for all below it; without it any may."),
        Setting("mail_only_listed", "LANGLAUF_MAIL_ONLY_LISTED", False, read_switch, "switch", "Whether mail goes only to addresses on the org's list, which `langlauf mail allow` fills."),
    ),
    "Logs and metrics": (
        Setting("log_level", "LANGLAUF_LOG_LEVEL", "info", one_of("debug", "info", "warning", "error"), "word", "The lowest level that is logged: debug, info, warning or error."),
        Setting("metrics_port", "LANGLAUF_METRICS_PORT", None, read_port, "number", "The port on which `langlauf worker` serves /metrics, /health and /ready; 0 picks a free one."),
        Setting("metrics_orgs", "LANGLAUF_METRICS_ORGS", False, read_switch, "switch", "Whether /metrics names the orgs with the most waiting and running jobs."),
    ),
    "Client commands": (
        Setting("url", "LANGLAUF_URL", "http://127.0.0.1:8080", read_text, "URL", "The server to talk to."),
        Setting("org", "LANGLAUF_ORG", "default-org", read_text, "name", "The org to act for."),
        Setting("key", "LANGLAUF_KEY", None, read_text, "secret", "The API key to send."),
    ),
}  # fmt: skip
SETTINGS: tuple[Setting, ...] = tuple(setting for group in GROUPS.values() for setting in group)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
BY_ENVIRONMENT: dict[str, Setting] = {setting.environment: setting for setting in SETTINGS}
#: Variables that analyses must not see. The URL of a store may hold a password.
SECRETS = frozenset(one.environment for one in SETTINGS if one.unit == "secret" or one.name == "store")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and limits of one program, parsed and checked."""

    host: str
    port: int
    store: str | None
    store_file: str | None
    blobs: str | None
    inline_result: int
    blob_seconds: float
    blob_garbage_age: float
    workers: int
    max_running: int
    max_running_org: int | None
    processes: int
    map_processes: int | None
    executor: str
    process_memory: int | None
    child_env: tuple[str, ...]
    watchdog: bool
    lease_seconds: float
    sweep_seconds: float
    poll_seconds: float
    notify: bool
    cancel_grace: float
    shutdown_grace: float
    retry_base: float
    retry_cap: float
    sync_limit: float
    mcp: bool
    mcp_inline: float
    max_body: int
    max_depth: int
    head_seconds: float
    body_seconds: float
    write_seconds: float
    max_url: int
    max_headers: int
    max_header_fields: int
    max_connections: int
    max_result: int
    max_job_events: int
    max_job_partials: int
    max_submitting: int
    max_waiting_org: int
    max_waiting_all: int
    max_streams_org: int
    max_streams: int
    max_sending_org: int
    max_sending: int
    stream_heartbeat: float
    stream_lifetime: float
    stream_patience: float
    rate_limit: Rate | None
    rate_limit_submit: Rate | None
    rate_limit_wrong_keys: Rate
    credential_share: int
    trusted_proxies: tuple[Network, ...]
    proxy_header: str
    results_retention: float
    events_retention: float
    final_retention: float | None
    partial_retention: float | None
    jobs_retention: float
    retention_every: float
    webhook_secret: tuple[str, ...] | None
    webhook_allow: tuple[AllowedRange, ...]
    webhook_schedule: tuple[float, ...]
    webhook_seconds: float
    webhook_ca: str | None
    deliveries: int
    smtp: MailServer | None
    mail_from: MailSender | None
    mail_language: str
    mail_domains: tuple[str, ...]
    mail_only_listed: bool
    mail_rate_org: Rate
    mail_rate_address: Rate
    cors_origins: tuple[str, ...]
    public_url: str | None
    auth_token: str | None
    access: str
    address_table: str | None
    fault_injection: bool
    metrics_port: int | None
    metrics_orgs: bool
    log_format: str
    log_level: str
    url: str
    org: str
    key: str | None

    @property
    def backoff(self) -> Backoff:
        """Return the delays between attempts."""
        return Backoff(self.retry_base, self.retry_cap)

    @property
    def bounds(self) -> JobBounds:
        """Return the bounds of what one job stores."""
        return JobBounds(self.max_job_events, self.max_job_partials)

    @property
    def mail_rules(self) -> MailRules:
        """Return who may receive mail, and how much."""
        return MailRules(self.mail_domains, self.mail_only_listed, self.mail_rate_org, self.mail_rate_address)

    @property
    def by_id(self) -> bool:
        """Whether the id of a job or result is enough to read it."""
        return self.access == "capability"

    @property
    def connection_limit(self) -> int:
        """Return the most connections of this process, within its file descriptors."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return self.max_connections
        return min(self.max_connections, max(_LEAST_CONNECTIONS, descriptors - _OTHER_DESCRIPTORS))

    @property
    def process_count(self) -> int:
        """Return the number of processes per worker that compute chunks."""
        return self.map_processes or len(os.sched_getaffinity(0))

    @property
    def dask_scheduler(self) -> str | None:
        """Return the address of the Dask scheduler, or None if chunks are computed on this machine."""
        return None if self.executor == "local" else self.executor.replace("dask://", "tcp://", 1)

    @property
    def retention(self) -> RetentionPolicy:
        """Return how long records are kept."""
        return RetentionPolicy(
            final_results=self.results_retention if self.final_retention is None else self.final_retention,
            partial_results=self.results_retention if self.partial_retention is None else self.partial_retention,
            events=self.events_retention,
            jobs=self.jobs_retention,
        )

    @property
    def passed_on(self) -> dict[str, Any]:
        """Return what a worker process is sent: values as flags have them, and no secret."""
        names = [one.name for one in SETTINGS if one.environment not in SECRETS and one.name != "limits"]
        values = {name: getattr(self, name) for name in (*names, *(one.name for one in LIMITS))}
        lists = {name: ",".join(value) for name, value in values.items() if value and _is_words(value)}
        return {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)} | lists

    @property
    def store_path(self) -> str:
        """Return the store as it was given: `memory://`, a path or a URL."""
        return self.store or self.store_file or DEFAULT_STORE


def _is_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(word, str) for word in value)


def load_settings(environment: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Read the environment, then the flags, where None means not given. A limit may be given by its name as well."""
    environment = os.environ if environment is None else environment
    _refuse_unknown(environment)
    values: dict[str, Any] = {setting.name: _from_environment(setting, environment) for setting in SETTINGS}
    for name, value in overrides.items():
        if value is not None:
            values[name] = _read(BY_NAME[name], value) if isinstance(value, str) and name in BY_NAME else value
    values = {limit.name: limit.default for limit in LIMITS} | values.pop("limits") | values
    if values["store"] and values["store_file"]:
        raise SettingsError("LANGLAUF_STORE and ASYNC_JOBS_STORE_FILE are both set: keep one of them")
    if values["smtp"] and not values["mail_from"]:
        raise SettingsError("LANGLAUF_SMTP needs LANGLAUF_MAIL_FROM, the sender of mails")
    if values["jobs_retention"] < SHORTEST_JOBS_RETENTION:
        raise SettingsError("LANGLAUF_JOBS_RETENTION must be at least 24h: idempotency keys live as long as their job")
    return Settings(**values)


def forget_secrets(settings: Settings) -> None:
    """Remove secrets from the environment of this process, except those that analyses may see.

    For programs that serve one application: settings that are loaded later would have no token, and require none.
    """
    for name in SECRETS.intersection(os.environ).difference(settings.child_env):
        _wipe(name)
        del os.environ[name]


def _wipe(name: str) -> None:
    """Overwrite the value in memory: processes of the same user can read it in /proc as long as this one runs."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.getenv.restype = ctypes.c_void_p
        if (address := library.getenv(os.fsencode(name))) is not None:
            ctypes.memset(address, 0, len(ctypes.string_at(address)))


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    for name in environment:
        if name.startswith("LANGLAUF_") and not name.startswith(_TEST_NAMES) and name not in BY_ENVIRONMENT:
            nearest = difflib.get_close_matches(name, BY_ENVIRONMENT, n=1, cutoff=0.5)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; langlauf serve --help lists all"
            raise SettingsError(f"{name} is not a setting{hint}")


def _from_environment(setting: Setting, environment: Mapping[str, str]) -> Any:
    text = environment.get(setting.environment)
    return setting.default if text is None else _read(setting, text)


def _read(setting: Setting, text: str) -> Any:
    try:
        return setting.read(text)
    except ValueError as error:
        shown = setting.environment if setting.unit == "secret" else f"{setting.environment}={text!r}"
        raise SettingsError(f"{shown}: {error}") from None
