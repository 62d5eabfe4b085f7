"""Checks of settings that are valid on their own but conflict with each other or with the surroundings."""

from langlauf.doctor.check import (
    Check,
    CheckResult,
    Needs,
    error,
    format_age,
    join_first,
    ok,
    warning,
)
from langlauf.doctor.target import DoctorTarget
from langlauf.domain.ssrf import is_loopback

_HEARTBEATS_PER_LEASE = 3
_SHORT_LEASE = 5.0
#: Kubernetes kills after this time. systemd waits 90 s, Docker 10.
_KILL_SECONDS = 30.0
_TOLERANCE = 0.01


def lease_length(target: DoctorTarget) -> CheckResult:
    settings = target.settings
    lease = settings.lease_seconds
    if lease < _HEARTBEATS_PER_LEASE * settings.poll_seconds:
        message = f"a lease of {lease:g} s is shorter than three polls of {settings.poll_seconds:g} s"
        return error(
            message,
            f"export LANGLAUF_LEASE_SECONDS={max(_SHORT_LEASE, _HEARTBEATS_PER_LEASE * settings.poll_seconds):g}",
        )
    if lease < _SHORT_LEASE:
        message = f"a lease of {lease:g} s expires in a short pause of the machine or the store"
        return warning(message, "export LANGLAUF_LEASE_SECONDS=15")
    return ok(f"{lease:g} s, renewed every {lease / _HEARTBEATS_PER_LEASE:g} s")


def same_leases(target: DoctorTarget) -> CheckResult:
    """Compare leases; a worker reports three times per lease, which gives its lease."""
    leases = {one.report.every_seconds * _HEARTBEATS_PER_LEASE for one in target.workers if one.works(target.now)}
    leases.add(target.settings.lease_seconds)
    if max(leases) - min(leases) > _TOLERANCE:
        message = f"processes have leases of {join_first([f'{one:g} s' for one in sorted(leases)])}"
        return warning(message, f"export LANGLAUF_LEASE_SECONDS={max(leases):g}")
    return ok(f"{target.settings.lease_seconds:g} s everywhere")


def shutdown_grace(target: DoctorTarget) -> CheckResult:
    grace = target.settings.shutdown_grace
    if grace >= _KILL_SECONDS:
        message = f"attempts may run for {format_age(grace)} at shutdown; Kubernetes kills after 30 s by default"
        return warning(message, "export LANGLAUF_SHUTDOWN_GRACE=25")
    return ok(f"{grace:g} s (Kubernetes waits 30 s, systemd 90 s, `docker stop` 10 s by default)")


def retention_order(target: DoctorTarget) -> CheckResult:
    policy = target.settings.retention
    parts = {"results": policy.final_results, "partial results": policy.partial_results, "events": policy.events}
    jobs = policy.jobs
    longer = [name for name, age in parts.items() if age is not None and jobs is not None and age > jobs]
    if longer:
        message = f"{join_first(longer)} have a longer retention than their job's record"
        return warning(message, f"export LANGLAUF_JOBS_RETENTION={max(age for age in parts.values() if age):.0f}")
    return ok("a job's record and its idempotency key are kept longest")


def public_url(target: DoctorTarget) -> CheckResult:
    settings = target.settings
    if not is_loopback(settings.host) and settings.public_url is None:
        message = f"the server listens on {settings.host} and its public URL is not set"
        return warning(message, "export LANGLAUF_PUBLIC_URL=https://jobs.example.org")
    return ok(settings.public_url or "loopback only")


def open_access(target: DoctorTarget) -> CheckResult:
    settings = target.settings
    if is_loopback(settings.host):
        return ok(f"{settings.host} is loopback")
    if settings.auth_token is None and not target.inspector.has_keys():
        message = f"{settings.host} is open: anyone who can connect may submit and read jobs"
        return error(message, target.command("keys", "create", "--org", "ORG"))
    return ok("requests need a key")


def operator_token(target: DoctorTarget) -> CheckResult:
    if target.settings.auth_token is None and target.inspector.has_keys():
        message = (
            "requests need a key, and no key can read /metrics, see all orgs or pause for all of them; "
            "set API_AUTH_TOKEN for the server, and start it again"
        )
        return warning(message, 'export API_AUTH_TOKEN="$(openssl rand -hex 32)"')
    return ok("API_AUTH_TOKEN is set" if target.settings.auth_token else "requests need no key")


CHECKS = (
    Check("lease_length", Needs.SETTINGS, "A lease is at least three heartbeats, and 5 s.", lease_length),
    Check("same_leases", Needs.ROWS, "All workers have the lease of these settings.", same_leases),
    Check(
        "shutdown_grace",
        Needs.SETTINGS,
        "The grace period at shutdown is under the 30 s after which Kubernetes kills.",
        shutdown_grace,
    ),
    Check("retention_order", Needs.SETTINGS, "Nothing has a longer retention than its job's record.", retention_order),
    Check("public_url", Needs.SETTINGS, "A server that listens beyond loopback has a public URL.", public_url),
    Check("open_access", Needs.ROWS, "A server that listens beyond loopback requires keys.", open_access),
    Check(
        "operator_token",
        Needs.ROWS,
        "Where keys are required, an operator's token for `/metrics` is set.",
        operator_token,
    ),
)
