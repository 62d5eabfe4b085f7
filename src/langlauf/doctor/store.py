"""Checks of any store: its schema, its clock and its blobs; and of settings that conflict with each other."""

from langlauf.doctor.check import (
    Check,
    CheckResult,
    DoctorTarget,
    Needs,
    error,
    format_age,
    join_first,
    ok,
    unknown,
    warning,
)
from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.health import CLOCK_SKEW
from langlauf.domain.instant import seconds_between
from langlauf.domain.ssrf import is_loopback
from langlauf.store.blobs.large import is_garbage


def schema_version(target: DoctorTarget) -> CheckResult:
    facts = target.inspector.schema()
    if facts.found > facts.known:
        message = (
            f"the store has schema {facts.found}, this program knows {facts.known}: a newer version has migrated it"
        )
        return error(message, "pip install --upgrade langlauf")
    if facts.found < facts.known:
        return error(f"the store has schema {facts.found}, this program needs {facts.known}", target.command("migrate"))
    if facts.copied_from is not None:
        message = f"a copy of {facts.copied_from} into this store is not complete"
        return error(message, f"langlauf copy-store {facts.copied_from} {target.place.shown}")
    return ok(f"schema {facts.found}")


def schema_objects(target: DoctorTarget) -> CheckResult:
    changed = target.inspector.changed_objects()
    if changed:
        return error(join_first(changed), target.command("verify"))
    return ok("as the migrations created them")


def clock(target: DoctorTarget) -> CheckResult:
    facts = target.clock
    apart = seconds_between(facts.machine, facts.store)
    message = f"the store is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this machine"
    limit = max(CLOCK_SKEW.threshold, target.settings.lease_seconds / 10) + facts.doubt_seconds
    if abs(apart) > CLOCK_SKEW.bad_threshold:
        return error(message, CLOCK_SKEW.remedy)
    return warning(message, CLOCK_SKEW.remedy) if abs(apart) > limit else ok(message)


CHECKS = (
    Check(
        "schema_version",
        Needs.STORE,
        "The schema is of this version, and no copy into the store is under way.",
        schema_version,
    ),
    Check(
        "schema_objects",
        Needs.ROWS,
        "Every table, index, trigger, function and policy is as the migrations created it.",
        schema_objects,
    ),
    Check(
        "clock",
        Needs.ROWS,
        "The store's clock and this machine's are at most 2 s or a tenth of a lease apart; a minute is an error.",
        clock,
    ),
)


_SAMPLE, _ALL = 50, 10_000_000
_SAMPLE_KEYS = 1_000
_PAGE_SIZE = 500


def blobs_missing(target: DoctorTarget) -> CheckResult:
    named = target.inspector.blobs(_ALL if target.deep else _SAMPLE)
    if not named:
        return ok("no result is stored outside")
    if target.payloads is None:
        message = f"results of {named[0].org_id} and others are blobs, and LANGLAUF_BLOBS is not set"
        return error(message, "export LANGLAUF_BLOBS=URL")
    folder = target.inspector.blob_folder() or "none"
    lost = []
    for one in named:
        try:
            target.payloads.read(folder, one.org_id, one.job_id, one.ref)
        except PayloadUnavailable as reason:
            lost.append(f"result {one.result_id}: {reason}")
    if lost:
        return error(join_first(lost, 2), target.command("verify"))
    return ok(f"{len(named)} read, all readable")


def blobs_owner(target: DoctorTarget) -> CheckResult:
    folder = target.inspector.blob_folder()
    mark = None if target.payloads is None or folder is None else target.payloads.owner(folder)
    if mark is None:
        return ok("no server has started on blobs yet")
    here = target.inspector.blob_owner()
    if here is None or not mark.covers(here):
        message = (
            f"they belong to the store {mark.place}, so no server starts here; if that store is gone, take them over"
        )
        return error(message, target.command("blobs", "take-over"))
    return ok("this store")


def blobs_orphaned(target: DoctorTarget) -> CheckResult:
    if target.payloads is None:
        return ok("LANGLAUF_BLOBS is not set")
    folder = target.inspector.blob_folder()
    if folder is None:
        return ok("the store never had any")
    try:
        most, age = _ALL if target.deep else _SAMPLE_KEYS, target.settings.blob_garbage_age
        places = target.payloads.places(folder, most=most, min_age=age)
    except PayloadUnavailable as reason:
        return unknown(str(reason))
    orphans = 0
    for start in range(0, len(places), _PAGE_SIZE):
        page = places[start : start + _PAGE_SIZE]
        kept = target.inspector.kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        orphans += sum(is_garbage(place, kept.get((place.org_id, place.job_id))) for place in page)
    if orphans:
        return warning(f"{orphans} of {len(places)} belong to no row", target.command("cleanup"))
    return ok(f"{len(places)} checked, each has its row")


BLOB_CHECKS = (
    Check(
        "blobs_missing",
        Needs.ROWS,
        "The blobs of the last 50 ended jobs are readable and complete; with `--deep`, all.",
        blobs_missing,
    ),
    Check("blobs_owner", Needs.ROWS, "The blobs belong to this store.", blobs_owner),
    Check(
        "blobs_orphaned",
        Needs.ROWS,
        "Each of 1,000 blobs belongs to a row, or to a job that has not ended; with `--deep`, of all.",
        blobs_orphaned,
    ),
)


# -- settings ----------------------------------------------------------------------------------------------------------

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


SETTINGS_CHECKS = (
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
