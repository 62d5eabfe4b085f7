"""Settings that are each allowed and do not go well together."""

import ipaddress

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, ago, fine, odd, some, wrong
from langlauf.doctor.patient import Patient

_BEATS = 3
_SHORT_LEASE = 5.0
#: What Kubernetes waits before it kills. systemd waits 90 s, Docker 10.
_KILL_SECONDS = 30.0
_SAME = 0.01


def lease_length(patient: Patient) -> Seen:
    settings = patient.settings
    lease = settings.lease_seconds
    if lease < _BEATS * settings.poll_seconds:
        words = f"a lease of {lease:g} s is not three looks of {settings.poll_seconds:g} s"
        return wrong(words, f"export LANGLAUF_LEASE_SECONDS={max(_SHORT_LEASE, _BEATS * settings.poll_seconds):g}")
    if lease < _SHORT_LEASE:
        words = f"a lease of {lease:g} s is lost in a short pause of the machine or the store"
        return odd(words, "export LANGLAUF_LEASE_SECONDS=15")
    return fine(f"{lease:g} s, renewed every {lease / _BEATS:g} s")


def same_leases(patient: Patient) -> Seen:
    """A worker reports three times per lease, so that its lease can be told."""
    leases = {one.report.every_seconds * _BEATS for one in patient.workers if one.works(patient.now)}
    leases.add(patient.settings.lease_seconds)
    if max(leases) - min(leases) > _SAME:
        words = f"processes have leases of {some([f'{one:g} s' for one in sorted(leases)])}"
        return odd(words, f"export LANGLAUF_LEASE_SECONDS={max(leases):g}")
    return fine(f"{patient.settings.lease_seconds:g} s everywhere")


def shutdown_grace(patient: Patient) -> Seen:
    grace = patient.settings.shutdown_grace
    if grace >= _KILL_SECONDS:
        words = f"attempts may go on for {ago(grace)} at shutdown; Kubernetes kills after 30 s unless told otherwise"
        return odd(words, "export LANGLAUF_SHUTDOWN_GRACE=25")
    return fine(f"{grace:g} s (Kubernetes waits 30 s, systemd 90 s, `docker stop` 10 s unless told otherwise)")


def retention_order(patient: Patient) -> Seen:
    policy = patient.settings.retention
    parts = {"results": policy.final_results, "partial results": policy.partial_results, "events": policy.events}
    jobs = policy.jobs
    longer = [name for name, age in parts.items() if age is not None and jobs is not None and age > jobs]
    if longer:
        words = f"{some(longer)} are to be kept for longer than their job's record"
        return odd(words, f"export LANGLAUF_JOBS_RETENTION={max(age for age in parts.values() if age):.0f}")
    return fine("a job's record and its idempotency key outlive what belongs to it")


def public_url(patient: Patient) -> Seen:
    settings = patient.settings
    if not _is_loopback(settings.host) and settings.public_url is None:
        words = f"the server listens on {settings.host} and does not know the address that people use"
        return odd(words, "export LANGLAUF_PUBLIC_URL=https://jobs.example.org")
    return fine(settings.public_url or "this machine alone")


def open_access(patient: Patient) -> Seen:
    settings = patient.settings
    if _is_loopback(settings.host):
        return fine(f"{settings.host} is this machine alone")
    if settings.auth_token is None and not patient.examiner.has_keys():
        words = f"everybody who reaches {settings.host} may submit and read jobs"
        return wrong(words, patient.command("keys", "create", "--org", "ORG"))
    return fine("callers are asked for a key")


def operator_token(patient: Patient) -> Seen:
    if patient.settings.auth_token is None and patient.examiner.has_keys():
        words = "callers need a key, and without API_AUTH_TOKEN none can read /metrics, /ops or traces of errors"
        return odd(words, 'export API_AUTH_TOKEN="$(openssl rand -hex 32)"')
    return fine("API_AUTH_TOKEN is set" if patient.settings.auth_token else "no key is asked for")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


CHECKS = (
    Check("lease_length", Needs.SETTINGS, "A lease is at least three heartbeats, and 5 s.", lease_length),
    Check("same_leases", Needs.ROWS, "All workers have the lease of these settings.", same_leases),
    Check(
        "shutdown_grace",
        Needs.SETTINGS,
        "The grace at shutdown is under the 30 s after which Kubernetes kills.",
        shutdown_grace,
    ),
    Check(
        "retention_order", Needs.SETTINGS, "Nothing is to be kept for longer than its job's record.", retention_order
    ),
    Check("public_url", Needs.SETTINGS, "A server that others reach knows its public address.", public_url),
    Check("open_access", Needs.ROWS, "A server that others reach asks for keys.", open_access),
    Check(
        "operator_token",
        Needs.ROWS,
        "Where keys are asked for, there is an operator's token for `/metrics`.",
        operator_token,
    ),
)
