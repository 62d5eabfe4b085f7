"""Checks of a PostgreSQL server: durable, writable, without a transaction pooler, vacuumed, and with correct roles."""

from typing import cast

from langlauf.doctor.check import (
    Check,
    CheckResult,
    DoctorTarget,
    Needs,
    error,
    format_age,
    join_first,
    ok,
    warning,
)
from langlauf.store.tools.inspection import ServerInspector

_LONG_SECONDS, _TOO_LONG_SECONDS = 300.0, 3_600.0
_MANY_TRANSACTIONS = 1_000_000
_MANY_DEAD, _VACUUM_SECONDS = 50_000, 3_600.0
_QUEUE_SHARE, _QUEUE_FULL = 0.1, 0.5
_FEW_LEFT, _NONE_LEFT = 0.8, 0.95
_PSQL = 'psql "$LANGLAUF_STORE" -c'


def _examiner(target: DoctorTarget) -> ServerInspector:
    return cast("ServerInspector", target.inspector)


def _sql(statement: str) -> str:
    return f'{_PSQL} "{statement}"'


def server_version(target: DoctorTarget) -> CheckResult:
    facts = target.server
    if facts.version < facts.oldest:
        return error(f"PostgreSQL {facts.version}: upgrade to {facts.oldest} or later", _sql("SELECT version()"))
    return ok(f"PostgreSQL {facts.version}")


def server_durability(target: DoctorTarget) -> CheckResult:
    facts = target.server
    settings = {"fsync": facts.fsync, "full_page_writes": facts.full_page_writes}
    off = [name for name, on in settings.items() if not on]
    if off:
        next_step = _sql(f"ALTER SYSTEM SET {off[0]} = on") + " && " + _sql("SELECT pg_reload_conf()")
        return error(f"{' and '.join(off)} off: a power failure can lose or damage committed data", next_step)
    return ok("fsync and full_page_writes are on")


def synchronous_commit(target: DoctorTarget) -> CheckResult:
    own, ours = target.server.synchronous_commit, target.session.synchronous_commit
    next_step = _sql("ALTER ROLE CURRENT_USER SET synchronous_commit = on")
    if ours == "off":
        return error("off in the sessions of the program: an accepted job can be lost", next_step)
    if own == "off":
        return warning(
            "off for this login; the program turns it on in its own sessions, other clients do not", next_step
        )
    return ok(own)


def writable(target: DoctorTarget) -> CheckResult:
    facts = target.server
    if facts.standby:
        return error("the server is a read-only standby: name the primary", _sql("SELECT pg_is_in_recovery()"))
    if facts.read_only:
        next_step = _sql("ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
        return error("transactions of this login are read-only", next_step)
    return ok("primary, and writable")


def session_timeouts(target: DoctorTarget) -> CheckResult:
    facts = target.session
    limits = {
        "statement_timeout": facts.statement_timeout,
        "lock_timeout": facts.lock_timeout,
        "idle_in_transaction_session_timeout": facts.idle_timeout,
    }
    missing = [name for name, value in limits.items() if value == 0]
    if missing:
        return error(
            f"{join_first(missing)} are not set in the sessions of the program",
            "pip install --force-reinstall langlauf",
        )
    return ok(f"statements {facts.statement_timeout} ms, locks {facts.lock_timeout} ms")


def old_transactions(target: DoctorTarget) -> CheckResult:
    holders = _examiner(target).holders()
    if not holders:
        return ok("no transaction keeps dead rows from vacuum")
    oldest = holders[0]
    message = f"{oldest.what}: for {format_age(oldest.seconds)}, over {oldest.transactions} transactions"
    next_step = _sql(
        "SELECT pid, state, xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY 3"
    )
    if oldest.seconds > _TOO_LONG_SECONDS:
        return error(message, next_step)
    if oldest.seconds > _LONG_SECONDS or oldest.transactions > _MANY_TRANSACTIONS:
        return warning(message, next_step)
    return ok(message)


def dead_rows(target: DoctorTarget) -> CheckResult:
    late = [
        table
        for table in _examiner(target).hot_tables()
        if table.dead > _MANY_DEAD + table.live and (table.vacuumed_ago is None or table.vacuumed_ago > _VACUUM_SECONDS)
    ]
    if late:
        message = join_first([f"{table.name} has {table.dead} dead rows and {table.live} live ones" for table in late])
        return warning(message, _sql(f"VACUUM langlauf.{late[0].name}"))
    return ok("vacuum keeps up")


def notification_queue(target: DoctorTarget) -> CheckResult:
    usage = target.server.notify_usage
    message = f"{usage:.0%} full"
    next_step = _sql("SELECT pid, state, xact_start FROM pg_stat_activity WHERE query ILIKE 'listen%' ORDER BY 3")
    if usage >= _QUEUE_FULL:
        return error(f"{message}: when it is full, commits with a NOTIFY fail", next_step)
    return warning(message, next_step) if usage >= _QUEUE_SHARE else ok(message)


def connections(target: DoctorTarget) -> CheckResult:
    facts = target.server
    room = facts.most_connections - facts.reserved_connections
    message = f"{facts.connections} of {room} in use"
    next_step = _sql("SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC")
    if facts.connections >= _NONE_LEFT * room:
        return error(message, next_step)
    return warning(message, next_step) if facts.connections >= _FEW_LEFT * room else ok(message)


def pooler(target: DoctorTarget) -> CheckResult:
    facts = target.server
    next_step = _sql("SELECT pg_backend_pid()")
    if facts.shared:
        return error("a pooler shares one server connection between two of ours: set it to session mode", next_step)
    if facts.pooled and not facts.pooler_expected:
        message = (
            "a pooler is in between: connect to the server directly, or add ?pooler=session to the URL for session mode"
        )
        return error(message, next_step)
    return ok("one in session mode" if facts.pooled else "no pooler")


def row_security(target: DoctorTarget) -> CheckResult:
    facts = target.rights
    if facts.unguarded_tables:
        table = facts.unguarded_tables[0]
        next_step = _sql(f"ALTER TABLE langlauf.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        return error(f"row-level security is not in force on {join_first(facts.unguarded_tables)}", next_step)
    if facts.boundless_roles:
        role = facts.boundless_roles[0]
        return error(
            f"{join_first(facts.boundless_roles)} may bypass it", _sql(f"ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS")
        )
    return ok("in force on every table with an org")


def rights(target: DoctorTarget) -> CheckResult:
    facts = target.rights
    if facts.missing_roles:
        next_step = target.command("migrate", "--print-roles")
        return error(f"the roles {join_first(facts.missing_roles)} are missing", next_step)
    if facts.open_to_all:
        what = facts.open_to_all[0].partition(",")[0]
        kind, _, name = what.partition(" ")
        known = name if kind == "schema" else f"langlauf.{name.removeprefix('langlauf.')}"
        return error(
            f"PUBLIC has privileges on {join_first(facts.open_to_all)}",
            _sql(f"REVOKE ALL ON {kind} {known} FROM PUBLIC"),
        )
    return ok("only the roles of the store have privileges")


def damage(target: DoctorTarget) -> CheckResult:
    found = target.inspector.damages()
    return error(join_first(found), target.command("verify")) if found else ok("none reported")


CHECKS = (
    Check("server_version", Needs.POSTGRES, "PostgreSQL 15 or later.", server_version),
    Check("server_durability", Needs.POSTGRES, "`fsync` and `full_page_writes` are on.", server_durability),
    Check(
        "synchronous_commit",
        Needs.POSTGRES,
        "Not off for the login, nor in the program's sessions.",
        synchronous_commit,
    ),
    Check("writable", Needs.POSTGRES, "Not a standby, and transactions of the login may write.", writable),
    Check(
        "session_timeouts",
        Needs.POSTGRES,
        "The program's sessions have limits for statements, locks and idle transactions.",
        session_timeouts,
    ),
    Check(
        "old_transactions",
        Needs.POSTGRES,
        "No session keeps dead rows from vacuum for more than 5 minutes (an hour is an error); it is named.",
        old_transactions,
    ),
    Check(
        "dead_rows",
        Needs.POSTGRES,
        "No table has many more dead rows than live ones without a vacuum within an hour.",
        dead_rows,
    ),
    Check("notification_queue", Needs.POSTGRES, "Under 10 % full; from 50 % it is an error.", notification_queue),
    Check("connections", Needs.POSTGRES, "Under 80 % are in use; from 95 % it is an error.", connections),
    Check("pooler", Needs.POSTGRES, "No pooler in between, or one in session mode that the URL names.", pooler),
    Check(
        "row_security",
        Needs.POSTGRES,
        "Row-level security is forced on every table with an org, and no role of the store may bypass it.",
        row_security,
    ),
    Check("rights", Needs.POSTGRES, "Both roles exist, and PUBLIC has no privileges in the schema.", rights),
    Check("damage", Needs.POSTGRES, "No invalid index, no page with a wrong checksum.", damage),
)
