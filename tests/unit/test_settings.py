"""Settings: one table, read strictly."""

import msgspec
import pytest

from langlauf.domain.errors import SettingsError
from langlauf.domain.ssrf import allowed_networks
from langlauf.limits import LIMITS
from langlauf.settings import SETTINGS, Settings, load_settings
from langlauf.settings_values import parse_duration

NAMED_IN_THE_CONTRACT = {
    "LANGLAUF_STORE", "ASYNC_JOBS_STORE_FILE", "LANGLAUF_HOST", "LANGLAUF_PORT", "API_AUTH_TOKEN",
    "LANGLAUF_MAX_RUNNING", "LANGLAUF_LEASE_SECONDS", "LANGLAUF_SWEEP_SECONDS", "LANGLAUF_CANCEL_GRACE",
    "LANGLAUF_SHUTDOWN_GRACE",
    "LANGLAUF_PUBLIC_URL", "ASYNC_JOB_RESULTS_RETENTION_SECONDS", "ASYNC_JOB_EVENTS_RETENTION_SECONDS",
    "LANGLAUF_FINAL_RETENTION", "LANGLAUF_PARTIAL_RETENTION", "LANGLAUF_JOBS_RETENTION", "ENABLE_E2E_FAULT_INJECTION",
    "LANGLAUF_RETRY_BASE", "LANGLAUF_RETRY_CAP", "LANGLAUF_URL",
}  # fmt: skip


def test_the_table_and_the_struct_are_the_same() -> None:
    """A setting that is read nowhere, or never read, cannot exist."""
    names = [one.name for one in SETTINGS if one.name != "limits"] + [one.name for one in LIMITS]
    assert sorted(names) == sorted(Settings.__struct_fields__)
    assert {setting.environment for setting in SETTINGS} >= NAMED_IN_THE_CONTRACT
    assert len({setting.environment for setting in SETTINGS}) == len(SETTINGS)


def test_the_defaults_are_those_of_the_contract() -> None:
    """Without an environment everything has its documented value."""
    settings = load_settings({})
    assert (settings.host, settings.port, settings.max_running) == ("127.0.0.1", 8080, 8)
    assert (settings.lease_seconds, settings.sweep_seconds) == (15, 5)
    assert (settings.cancel_grace, settings.shutdown_grace, settings.sync_limit) == (5, 25, 30)
    assert (settings.backoff.base, settings.backoff.cap) == (1, 60)
    assert msgspec.structs.astuple(settings.retention) == (604_800, 604_800, 259_200, 7_776_000)
    assert settings.store_path == "runtime/async_jobs/store.v1.db"


def test_a_worker_process_gets_the_settings_and_no_secret() -> None:
    """What it is sent is read as flags are, and means the same there."""
    given = {
        "LANGLAUF_STORE": "postgresql://user:hidden-1@db/jobs",
        "API_AUTH_TOKEN": "hidden-2-hidden-2-hidden-2-hidden-2",
        "LANGLAUF_WEBHOOK_SECRET": "whsec_aGlkZGVuLTMtaGlkZGVuLTMtaGlkZGVuLTM=",
        "LANGLAUF_CHILD_ENV": "DATABASE_URL,MY_*",
        "LANGLAUF_LEASE_SECONDS": "30m",
        "LANGLAUF_WATCHDOG": "0",
        "LANGLAUF_MAX_RUNNING_PER_ORG": "3",
    }
    settings = load_settings(given)
    sent = msgspec.msgpack.encode(settings.passed_on)
    there = load_settings({}, **msgspec.msgpack.decode(sent))
    assert b"hidden" not in sent
    assert b"whsec" not in sent
    assert there.child_env == ("DATABASE_URL", "MY_*")
    assert (there.lease_seconds, there.watchdog, there.max_running_org) == (1_800, False, 3)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("30s", 30), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    """Seconds, or a number with s, m, h or d."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("executor", "scheduler"),
    [
        ("local", None),
        ("dask://cluster-1.example:8786", "tcp://cluster-1.example:8786"),
        ("dask://[::1]:8786", "tcp://[::1]:8786"),
        ("tls://10.0.0.7:8786", "tls://10.0.0.7:8786"),
    ],
)
def test_the_executor_names_a_dask_scheduler_or_this_machine(executor: str, scheduler: str | None) -> None:
    """As Dask itself writes its addresses."""
    assert load_settings({"LANGLAUF_EXECUTOR": executor}).dask_scheduler == scheduler


def test_a_range_may_be_named_for_one_org() -> None:
    """Others do not have it; what is named for none is for all."""
    allow = load_settings({"LANGLAUF_WEBHOOK_ALLOW": "10.1.0.0/16, acme=10.2.0.0/16, a:b.c=fd12::/48"}).webhook_allow
    found = {org: [str(one) for one in allowed_networks(allow, org)] for org in ("acme", "a:b.c", "other")}
    assert found == {
        "acme": ["10.1.0.0/16", "10.2.0.0/16"],
        "a:b.c": ["10.1.0.0/16", "fd12::/48"],
        "other": ["10.1.0.0/16"],
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASYNC_JOB_RESULTS_RETENTION_SECONDS", "a week"),
        ("ASYNC_JOB_EVENTS_RETENTION_SECONDS", "-1"),
        ("LANGLAUF_JOBS_RETENTION", "23h"),
        ("LANGLAUF_MAX_RUNNING", "0"),
        ("LANGLAUF_MAX_RUNNING", "many"),
        ("LANGLAUF_LEASE_SECONDS", "0"),
        ("LANGLAUF_PORT", ""),
        ("ENABLE_E2E_FAULT_INJECTION", "perhaps"),
        ("LANGLAUF_LOG_FORMAT", "xml"),
        ("LANGLAUF_WEBHOOK_ALLOW", "acme=10.0.0.1/8"),
        ("LANGLAUF_WEBHOOK_ALLOW", "a b=10.0.0.0/8"),
        ("LANGLAUF_WEBHOOK_ALLOW", "=10.0.0.0/8"),
        ("LANGLAUF_EXECUTOR", "dask"),
        ("LANGLAUF_EXECUTOR", "dask://cluster"),
        ("LANGLAUF_EXECUTOR", "dask://cluster:0"),
        ("LANGLAUF_EXECUTOR", "dask://cluster:65536"),
        ("LANGLAUF_EXECUTOR", "dask://user:secret@cluster:8786"),
        ("LANGLAUF_EXECUTOR", "tcp://cluster:8786"),
        ("LANGLAUF_EXECUTOR", ""),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    """Never a guess."""
    with pytest.raises(SettingsError, match=name):
        load_settings({name: value})


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    """A typing error does not silently leave a default in force; names of tests are left alone."""
    with pytest.raises(SettingsError, match="did you mean LANGLAUF_MAX_RUNNING"):
        load_settings({"LANGLAUF_MAX_RUNING": "3"})
    assert load_settings({"LANGLAUF_TEST_ANYTHING": "1", "OTHER": "x"}) == load_settings({})


def test_two_names_for_the_store_are_refused() -> None:
    """Which one would win is nobody's guess."""
    with pytest.raises(SettingsError, match="both set"):
        load_settings({"LANGLAUF_STORE": "memory://", "ASYNC_JOBS_STORE_FILE": "x.db"})


def test_flags_win_over_the_environment_and_none_means_not_given() -> None:
    """The environment first, then flags."""
    environment = {"LANGLAUF_MAX_RUNNING": "3"}
    assert load_settings(environment, max_running="5").max_running == 5
    assert load_settings(environment, max_running=None).max_running == 3


def test_finer_retention_wins_over_the_common_one() -> None:
    """Final and partial results may be kept for different times."""
    policy = load_settings({"ASYNC_JOB_RESULTS_RETENTION_SECONDS": "7d", "LANGLAUF_PARTIAL_RETENTION": "1d"}).retention
    assert (policy.final_results, policy.partial_results) == (604_800, 86_400)


def test_one_setting_has_all_limits() -> None:
    """By name, with semicolons between; a limit that is not named has its default, also in a worker process."""
    settings = load_settings({"LANGLAUF_LIMITS": "head_seconds=5m; max_url = 4096;"})
    assert (settings.head_seconds, settings.max_url, settings.body_seconds) == (300, 4_096, 30)
    there = load_settings({}, **settings.passed_on)
    assert (there.head_seconds, there.max_url) == (300, 4_096)
    assert load_settings({"LANGLAUF_LIMITS": "max_url=512"}, max_url=1_024).max_url == 1_024


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("head_second=5", "did you mean head_seconds?"),
        ("max_url=1", "max_url: must be 256 or more"),
        ("max_url", "not a limit"),
    ],
)
def test_a_bad_limit_stops_the_program(text: str, hint: str) -> None:
    """The message names the limit, and the nearest known one."""
    with pytest.raises(SettingsError, match=hint.replace("?", r"\?")):
        load_settings({"LANGLAUF_LIMITS": text})
