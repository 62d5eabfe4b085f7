"""Every setting in one table: it feeds the flags, the documents and a test.

Read at the door, from the environment and then from flags, and handed down frozen. An unknown `LANGLAUF_` name or a bad
value stops the program: never a guess.
"""

import ctypes
import difflib
import os
import re
import resource
import sys
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.attempt import LEAST_EVENTS, MOST_EVENTS, MOST_PARTIAL_BYTES, Backoff, JobBounds
from langlauf.domain.errors import SettingsError
from langlauf.domain.mail import MailRules, MailSender, MailServer, read_mail_address, read_mail_server, read_sender
from langlauf.domain.rate import Rate, read_rate
from langlauf.domain.retention import RetentionPolicy
from langlauf.domain.ssrf import AllowedRange, Network
from langlauf.domain.webhook import read_secret

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)$")
_EXECUTOR = re.compile(r"(?:dask|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORG = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_MOST_SECRETS = 2
_TEST_NAMES = "LANGLAUF_TEST_"
LONGEST_DURATION = 100 * 365 * 86_400.0
_LARGEST_PORT = 65_535
_WHOLE_PERCENT = 100
#: Descriptors that are left for the store, the workers' processes and requests for /health.
_OTHER_DESCRIPTORS = 160
_LEAST_CONNECTIONS = 16
#: Less than that, Python and an application cannot even be loaded.
_LEAST_MEMORY = 64 * 1_048_576
DEFAULT_STORE = "runtime/async_jobs/store.v1.db"
SHORTEST_JOBS_RETENTION = 86_400.0


def duration(text: str, longest: float = LONGEST_DURATION) -> float:
    """Seconds from `90`, `30m`, `24h` or `7d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError("give seconds or a value like 30m, 24h, 7d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > longest:
        raise ValueError("is longer than a hundred years")
    return seconds


def _positive_duration(text: str) -> float:
    seconds = duration(text)
    if seconds <= 0:
        raise ValueError("must be longer than nothing")
    return seconds


def _whole(lowest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("give a whole number") from None
        if number < lowest:
            raise ValueError(f"must be {lowest} or more")
        return number

    return read


def _percent(text: str) -> int:
    number = _whole(1)(text)
    if number > _WHOLE_PERCENT:
        raise ValueError("must be 100 or less")
    return number


def _port(text: str) -> int:
    number = _whole(0)(text)
    if number > _LARGEST_PORT:
        raise ValueError(f"must be {_LARGEST_PORT} or less")
    return number


def _web_address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    return text


def _executor(text: str) -> str:
    """Where chunks are computed: here, or on the Dask cluster whose scheduler is there."""
    match = _EXECUTOR.fullmatch(text)
    if text != "local" and (match is None or not 0 < int(match[1]) <= _LARGEST_PORT):
        raise ValueError("give local, dask://host:port, or tls://host:port for a Dask scheduler that asks for TLS")
    return text


def _switch(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[text.strip().lower()]
    except KeyError:
        raise ValueError("give 1 or 0") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _origins(text: str) -> tuple[str, ...]:
    """As browsers write them: a trailing slash or a capital letter would never match."""
    origins = _words(text)
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{origin!r} is no origin; give scheme, host and port alone, such as https://ui.example, or *"
            )
    return origins


def _allowed_ranges(text: str) -> tuple[AllowedRange, ...]:
    """Address ranges, each for all orgs or, behind `org=`, for one. A single address is a range of one."""
    return tuple(map(_allowed_range, _words(text)))


def _allowed_range(word: str) -> AllowedRange:
    before, named, network = word.rpartition("=")
    org_id = before.strip() if named else None
    if org_id is not None and not _ORG.fullmatch(org_id):
        raise ValueError(f"{org_id!r} is no name of an org; give ranges such as 10.1.0.0/16 or acme=10.2.0.0/16")
    try:
        return AllowedRange(org_id, ip_network(network.strip()))
    except ValueError as error:
        raise ValueError(f"{error}; give ranges such as 10.1.0.0/16 or acme=10.2.0.0/16, with commas between") from None


def _networks(text: str) -> tuple[Network, ...]:
    """Address ranges. A single address is a range of one."""
    try:
        return tuple(ip_network(word) for word in _words(text))
    except ValueError as error:
        raise ValueError(f"{error}; give ranges such as 10.1.0.0/16, with commas between") from None


def _header_name(text: str) -> str:
    """The name of a header, as HTTP allows it."""
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError("give the name of a header, such as X-Forwarded-For")
    return text


def _mail_domains(text: str) -> tuple[str, ...]:
    """Domains, each for itself or, behind `*.`, for all below it."""
    domains = tuple(word.lower() for word in _words(text))
    for domain in domains:
        try:
            read_mail_address(f"x@{domain.removeprefix('*.')}")
        except ValueError:
            raise ValueError(f"{domain!r} is no domain; give some such as example.org or *.example.org") from None
    return domains


def _schedule(text: str) -> tuple[float, ...]:
    """Durations, one after another."""
    return tuple(_positive_duration(word) for word in _words(text))


def _webhook_secrets(text: str) -> tuple[str, ...]:
    """The secret that signs, and the one before."""
    secrets = _words(text)
    for secret in secrets:
        read_secret(secret)
    if not 1 <= len(secrets) <= _MOST_SECRETS:
        raise ValueError("give one secret, or two with a comma between while receivers change over")
    return secrets


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"give one of {', '.join(choices)}")
        return text

    return read


def variables(text: str) -> tuple[str, ...]:
    """Names of variables of the environment; a `*` at the end stands for any rest."""
    names = _words(text)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a variable; give names such as DATABASE_URL or MY_*, with commas")
    return names


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


class Setting(NamedTuple):
    """One row of the table. `unit` tells people what a value is."""

    name: str
    environment: str
    default: Any
    read: Callable[[str], Any]
    unit: str
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("host", "LANGLAUF_HOST", "127.0.0.1", _text, "address", "Where the server listens."),
    Setting("port", "LANGLAUF_PORT", 8080, _port, "number", "The port it listens on; 0 takes a free one."),
    Setting("store", "LANGLAUF_STORE", None, _text, "URL", "sqlite:///path, memory://, postgresql://user@host/database or a path; see also ASYNC_JOBS_STORE_FILE."),
    Setting("store_file", "ASYNC_JOBS_STORE_FILE", None, _text, "path", "The store as a path; .json names a store of the earlier system."),
    Setting("blobs", "LANGLAUF_BLOBS", None, _text, "URL", "Where results over LANGLAUF_INLINE_RESULT go: a path, file:///path or s3://bucket/prefix; unset, all stay in the store."),
    Setting("inline_result", "LANGLAUF_INLINE_RESULT", 1_048_576, _whole(0), "bytes", "The largest result or partial that stays in the store where LANGLAUF_BLOBS is set."),
    Setting("blob_seconds", "LANGLAUF_BLOB_SECONDS", 30.0, _positive_duration, "duration", "How long reading or writing one of the results that lie there may take."),
    Setting("blob_garbage_age", "LANGLAUF_BLOB_GARBAGE_AGE", 86_400.0, duration, "duration", "A blob that no row names is only removed when it is this old."),
    Setting("workers", "LANGLAUF_WORKERS", 1, _whole(0), "number", "Worker processes of this program; 0 serves without working."),
    Setting("max_running", "LANGLAUF_MAX_RUNNING", 8, _whole(1), "jobs", "How many jobs run at once over the whole deployment."),
    Setting("max_running_org", "LANGLAUF_MAX_RUNNING_PER_ORG", None, _whole(1), "jobs", "How many jobs of one org run at once over the whole deployment."),
    Setting("processes", "LANGLAUF_PROCESSES", 1, _whole(1), "number", "API processes of this server, behind one port; more than one needs PostgreSQL."),
    Setting("map_processes", "LANGLAUF_MAP_PROCESSES", None, _whole(1), "number", "Processes that compute chunks of `job.map` at once, in each worker; else one per core."),
    Setting("executor", "LANGLAUF_EXECUTOR", "local", _executor, "URL", "Where chunks of `job.map` are computed: local, or dask://host:port of a scheduler (tls:// with TLS)."),
    Setting("process_memory", "LANGLAUF_PROCESS_MEMORY", None, _whole(_LEAST_MEMORY), "bytes", "How much memory a process that runs a plain `def` may take; at least 64 MiB."),
    Setting("child_env", "LANGLAUF_CHILD_ENV", (), variables, "list", "Variables of the environment that analyses may see beside the usual ones: names with commas between, such as DATABASE_URL,MY_*."),
    Setting("watchdog", "LANGLAUF_WATCHDOG", True, _switch, "switch", "Interrupts code that blocks the event loop of its worker for most of a lease; ends the worker where that fails."),
    Setting("lease_seconds", "LANGLAUF_LEASE_SECONDS", 15.0, _positive_duration, "duration", "How long a silent worker keeps its jobs."),
    Setting("sweep_seconds", "LANGLAUF_SWEEP_SECONDS", 5.0, _positive_duration, "duration", "How often lost and overdue jobs are looked for."),
    Setting("poll_seconds", "LANGLAUF_POLL_SECONDS", 0.5, _positive_duration, "duration", "How often an idle worker looks without a hint."),
    Setting("notify", "LANGLAUF_NOTIFY", True, _switch, "switch", "Lets hosts on PostgreSQL wake each other; switched off, each looks by itself."),
    Setting("cancel_grace", "LANGLAUF_CANCEL_GRACE", 5.0, duration, "duration", "How long a canceled attempt may take to stop."),
    Setting("shutdown_grace", "LANGLAUF_SHUTDOWN_GRACE", 25.0, duration, "duration", "How long running attempts may finish at shutdown."),
    Setting("retry_base", "LANGLAUF_RETRY_BASE", 1.0, duration, "duration", "The backoff before the first retry is drawn from 0 to this."),
    Setting("retry_cap", "LANGLAUF_RETRY_CAP", 60.0, duration, "duration", "No backoff is longer."),
    Setting("sync_limit", "LANGLAUF_SYNC_LIMIT", 30.0, _positive_duration, "duration", "How long a synchronous request may take."),
    Setting("max_body", "LANGLAUF_MAX_BODY", 1_048_576, _whole(1), "bytes", "The largest request body."),
    Setting("max_depth", "LANGLAUF_MAX_DEPTH", 64, _whole(1), "levels", "How deep a request body may be nested."),
    Setting("head_seconds", "LANGLAUF_HEAD_SECONDS", 10.0, _positive_duration, "duration", "How long the head of a request may take to arrive."),
    Setting("body_seconds", "LANGLAUF_BODY_SECONDS", 30.0, _positive_duration, "duration", "How long the body of a request may take to arrive."),
    Setting("write_seconds", "LANGLAUF_WRITE_SECONDS", 30.0, _positive_duration, "duration", "How long a client may take nothing of its answer."),
    Setting("max_url", "LANGLAUF_MAX_URL", 8_192, _whole(256), "bytes", "The longest address of a request."),
    Setting("max_headers", "LANGLAUF_MAX_HEADERS", 16_384, _whole(1_024), "bytes", "The most that the headers of a request may take."),
    Setting("max_header_fields", "LANGLAUF_MAX_HEADER_FIELDS", 100, _whole(8), "fields", "How many headers a request may have."),
    Setting("max_connections", "LANGLAUF_MAX_CONNECTIONS", 10_000, _whole(1), "number", "How many connections may be open; never more than there are descriptors."),
    Setting("max_result", "LANGLAUF_MAX_RESULT", 64 * 1_048_576, _whole(1), "bytes", "The largest result or partial."),
    Setting("max_job_events", "LANGLAUF_MAX_JOB_EVENTS", MOST_EVENTS, _whole(LEAST_EVENTS), "events", "How many events one job may have; past them its progress and partials are not stored, its end always is."),
    Setting("max_job_partials", "LANGLAUF_MAX_JOB_PARTIALS", MOST_PARTIAL_BYTES, _whole(0), "bytes", "What the stored partials of one job may take in all; past it no further ones are stored."),
    Setting("max_submitting", "LANGLAUF_MAX_SUBMITTING", 1_000, _whole(1), "requests", "How many submissions a process writes at once."),
    Setting("max_waiting_org", "LANGLAUF_MAX_WAITING_PER_ORG", 100_000, _whole(1), "jobs", "How many jobs of one org may wait."),
    Setting("max_waiting_all", "LANGLAUF_MAX_WAITING", 1_000_000, _whole(1), "jobs", "How many jobs may wait in all."),
    Setting("max_streams_org", "LANGLAUF_MAX_STREAMS_PER_ORG", 1_000, _whole(1), "requests", "How many event streams, long polls and synchronous requests of one org may be open at once in this process."),
    Setting("max_streams", "LANGLAUF_MAX_STREAMS", 10_000, _whole(1), "requests", "How many event streams, long polls and synchronous requests may be open at once in this process."),
    Setting("max_sending_org", "LANGLAUF_MAX_SENDING_PER_ORG", 128 * 1_048_576, _whole(1), "bytes", "How much memory large answers to one org may take at once in this process."),
    Setting("max_sending", "LANGLAUF_MAX_SENDING", 256 * 1_048_576, _whole(1), "bytes", "How much memory large answers may take at once in this process."),
    Setting("stream_heartbeat", "LANGLAUF_STREAM_HEARTBEAT", 15.0, _positive_duration, "duration", "How long an event stream is silent before it sends a comment."),
    Setting("stream_lifetime", "LANGLAUF_STREAM_LIFETIME", 900.0, _positive_duration, "duration", "How long an event stream lasts at most; its client connects again and goes on."),
    Setting("stream_patience", "LANGLAUF_STREAM_PATIENCE", 30.0, _positive_duration, "duration", "How long an event stream waits for a client that does not read before it is cut."),
    Setting("rate_limit", "LANGLAUF_RATE_LIMIT", None, read_rate, "rate", "How often one org may ask, such as 100/1m; counted by each API process."),
    Setting("rate_limit_submit", "LANGLAUF_RATE_LIMIT_SUBMIT", None, read_rate, "rate", "Submissions alone; else they count as all requests."),
    Setting("rate_limit_wrong_keys", "LANGLAUF_RATE_LIMIT_WRONG_KEYS", Rate(60, 60), read_rate, "rate", "How many wrong keys one address may show; not on this machine."),
    Setting("credential_share", "LANGLAUF_CREDENTIAL_SHARE", 50, _percent, "percent", "How much of the streams and rates of an org a session, the tokens of a key, or all who have only an id may take; 100 lets each take all."),
    Setting("trusted_proxies", "LANGLAUF_TRUSTED_PROXIES", (), _networks, "list", "Address ranges of proxies before the server, such as 127.0.0.1,10.1.0.0/16: what they say of a client's address is believed."),
    Setting("proxy_header", "LANGLAUF_PROXY_HEADER", "X-Forwarded-For", _header_name, "name", "The header in which those proxies name the address of the client."),
    Setting("results_retention", "ASYNC_JOB_RESULTS_RETENTION_SECONDS", 604_800.0, duration, "duration", "How long results are kept after a job's end."),
    Setting("events_retention", "ASYNC_JOB_EVENTS_RETENTION_SECONDS", 259_200.0, duration, "duration", "How long events are kept after a job's end."),
    Setting("final_retention", "LANGLAUF_FINAL_RETENTION", None, duration, "duration", "Final results alone; else as all results."),
    Setting("partial_retention", "LANGLAUF_PARTIAL_RETENTION", None, duration, "duration", "Partial results alone; else as all results."),
    Setting("jobs_retention", "LANGLAUF_JOBS_RETENTION", 7_776_000.0, duration, "duration", "How long a job's record is kept; not under 24h."),
    Setting("retention_every", "LANGLAUF_RETENTION_EVERY", 3_600.0, _positive_duration, "duration", "How often the server cleans up."),
    Setting("webhook_secret", "LANGLAUF_WEBHOOK_SECRET", None, _webhook_secrets, "secret", "What the secret of each org is made from, which signs webhooks that its jobs name for themselves: whsec_ and Base64; a second one after a comma is the one before."),
    Setting("webhook_allow", "LANGLAUF_WEBHOOK_ALLOW", (), _allowed_ranges, "list", "Address ranges that may be called although they are private, such as 10.1.0.0/16, or acme=10.2.0.0/16 for one org alone; there, http and any port are allowed."),
    Setting("webhook_schedule", "LANGLAUF_WEBHOOK_SCHEDULE", (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0), _schedule, "list", "How long to wait before each further try of a delivery, such as 5s,5m,30m,2h."),
    Setting("webhook_seconds", "LANGLAUF_WEBHOOK_SECONDS", 15.0, _positive_duration, "duration", "How long one try of a delivery may take in all."),
    Setting("webhook_ca", "LANGLAUF_WEBHOOK_CA", None, _text, "path", "A file with certificates (PEM) of an own authority that receivers of webhooks may be signed by, beside those of the system."),
    Setting("deliveries", "LANGLAUF_DELIVERIES", 8, _whole(0), "number", "How many webhooks and mails this process sends at once; 0 leaves that to others."),
    Setting("smtp", "LANGLAUF_SMTP", None, read_mail_server, "secret", "The mail server: smtp://user:password@host:587 with STARTTLS (?tls=none without), or smtps://user:password@host:465; unset, no mail is sent."),
    Setting("mail_from", "LANGLAUF_MAIL_FROM", None, read_sender, "address", "Whom mail comes from: jobs@example.org, or Name <jobs@example.org>."),
    Setting("mail_language", "LANGLAUF_MAIL_LANGUAGE", "en", _one_of("en", "de"), "word", "The language of mails for whoever asked for none: en or de."),
    Setting("mail_domains", "LANGLAUF_MAIL_DOMAINS", (), _mail_domains, "list", "Domains that mail may go to, such as example.org, or *.example.org for all below it; unset, mail may go to any."),
    Setting("mail_only_listed", "LANGLAUF_MAIL_ONLY_LISTED", False, _switch, "switch", "Lets mail go only to addresses on the list of the org, which `langlauf mail allow` fills."),
    Setting("mail_rate_org", "LANGLAUF_MAIL_RATE_PER_ORG", Rate(1_000, 3_600), read_rate, "rate", "How many mails of one org are sent; what is more is suppressed."),
    Setting("mail_rate_address", "LANGLAUF_MAIL_RATE_PER_ADDRESS", Rate(60, 3_600), read_rate, "rate", "How many mails of one org are sent to one address; what is more is suppressed."),
    Setting("cors_origins", "LANGLAUF_CORS_ORIGINS", (), _origins, "list", "Origins of browsers that may call the API, with commas between; * for all."),
    Setting("public_url", "LANGLAUF_PUBLIC_URL", None, _web_address, "URL", "The address people reach the server at; links start with it."),
    Setting("auth_token", "API_AUTH_TOKEN", None, _text, "secret", "The operator's token."),
    Setting("access", "LANGLAUF_ACCESS", "tenant", _one_of("tenant", "capability"), "word", "Who may read a job, its events and a result: its tenant, or with capability whoever has the id."),
    Setting("address_table", "LANGLAUF_ADDRESS_TABLE", None, _one_of("15000", "5000", "1000", "500"), "number", "The gazetteer of the address analysis: places with at least so many people."),
    Setting("fault_injection", "ENABLE_E2E_FAULT_INJECTION", False, _switch, "switch", "Lets certain queries fail on purpose, for end-to-end tests."),
    Setting("metrics_port", "LANGLAUF_METRICS_PORT", None, _port, "number", "Where `langlauf worker` serves /metrics, /health and /ready, at LANGLAUF_HOST; 0 takes a free port."),
    Setting("metrics_orgs", "LANGLAUF_METRICS_ORGS", False, _switch, "switch", "Lets /metrics name the orgs that have most waiting and running."),
    Setting("log_format", "LANGLAUF_LOG_FORMAT", "text", _one_of("text", "json"), "word", "text or json."),
    Setting("log_level", "LANGLAUF_LOG_LEVEL", "info", _one_of("debug", "info", "warning", "error"), "word", "The least important thing that is logged."),
    Setting("url", "LANGLAUF_URL", "http://127.0.0.1:8080", _text, "URL", "The server that client commands talk to."),
    Setting("org", "LANGLAUF_ORG", "default-org", _text, "name", "The org that client commands work for."),
    Setting("key", "LANGLAUF_KEY", None, _text, "secret", "The key that client commands show."),
)  # fmt: skip

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
BY_ENVIRONMENT: dict[str, Setting] = {setting.environment: setting for setting in SETTINGS}
#: Names of the environment that analyses have no business with. The URL of a store may have a password in it.
SECRETS = frozenset(one.environment for one in SETTINGS if one.unit == "secret" or one.name == "store")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one program, all read and checked."""

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
        """The delays between attempts."""
        return Backoff(self.retry_base, self.retry_cap)

    @property
    def bounds(self) -> JobBounds:
        """How much one job may leave behind."""
        return JobBounds(self.max_job_events, self.max_job_partials)

    @property
    def mail_rules(self) -> MailRules:
        """Who may be written to, and how often."""
        return MailRules(self.mail_domains, self.mail_only_listed, self.mail_rate_org, self.mail_rate_address)

    @property
    def by_id(self) -> bool:
        """Whether an id is enough to read what it names."""
        return self.access == "capability"

    @property
    def connection_limit(self) -> int:
        """How many connections this process may have; no more than the system gives it descriptors for."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return self.max_connections
        return min(self.max_connections, max(_LEAST_CONNECTIONS, descriptors - _OTHER_DESCRIPTORS))

    @property
    def process_count(self) -> int:
        """How many processes compute chunks at once, in each worker."""
        return self.map_processes or len(os.sched_getaffinity(0))

    @property
    def dask_scheduler(self) -> str | None:
        """The address of the Dask scheduler whose cluster computes chunks; None where this machine does."""
        return None if self.executor == "local" else self.executor.replace("dask://", "tcp://", 1)

    @property
    def retention(self) -> RetentionPolicy:
        """How long what is kept."""
        return RetentionPolicy(
            final_results=self.results_retention if self.final_retention is None else self.final_retention,
            partial_results=self.results_retention if self.partial_retention is None else self.partial_retention,
            events=self.events_retention,
            jobs=self.jobs_retention,
        )

    @property
    def passed_on(self) -> dict[str, Any]:
        """What a worker process may know: values as flags have them, and no secret."""
        values = {one.name: getattr(self, one.name) for one in SETTINGS if one.environment not in SECRETS}
        lists = {name: ",".join(value) for name, value in values.items() if value and _is_words(value)}
        return {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)} | lists

    @property
    def store_path(self) -> str:
        """Where the store is, as it was given: `memory://`, a path or a URL."""
        return self.store or self.store_file or DEFAULT_STORE


def _is_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(word, str) for word in value)


def load_settings(environment: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Reads the environment, then what flags say; None means that a flag was not given."""
    environment = os.environ if environment is None else environment
    _refuse_unknown(environment)
    values: dict[str, Any] = {setting.name: _from_environment(setting, environment) for setting in SETTINGS}
    for name, value in overrides.items():
        if value is not None:
            values[name] = _read(BY_NAME[name], value) if isinstance(value, str) else value
    if values["store"] and values["store_file"]:
        raise SettingsError("LANGLAUF_STORE and ASYNC_JOBS_STORE_FILE are both set: keep one of them")
    if values["smtp"] and not values["mail_from"]:
        raise SettingsError("LANGLAUF_SMTP needs LANGLAUF_MAIL_FROM: the address that mail comes from")
    if values["jobs_retention"] < SHORTEST_JOBS_RETENTION:
        raise SettingsError("LANGLAUF_JOBS_RETENTION must not be under 24h: idempotency keys live as long as their job")
    return Settings(**values)


def forget_secrets(settings: Settings) -> None:
    """Takes secrets that were read out of the environment of this process, save those that analyses may see.

    For programs that serve one application: one that reads its settings later would find no token, and ask for none.
    """
    for name in SECRETS.intersection(os.environ).difference(settings.child_env):
        _wipe(name)
        del os.environ[name]


def _wipe(name: str) -> None:
    """Overwrites the value where the system keeps it: processes of the same user may read it there as long as we run."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.getenv.restype = ctypes.c_void_p
        if (place := library.getenv(os.fsencode(name))) is not None:
            ctypes.memset(place, 0, len(ctypes.string_at(place)))


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
