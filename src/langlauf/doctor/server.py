"""The PostgreSQL server: durable, writable, in reach without a pooler that mixes sessions, and not held up."""

from typing import cast

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, ago, fine, odd, some, wrong
from langlauf.doctor.patient import Patient
from langlauf.store.tools.inspection import ServerInspector

_LONG_SECONDS, _TOO_LONG_SECONDS = 300.0, 3_600.0
_MANY_TRANSACTIONS = 1_000_000
_MANY_DEAD, _VACUUM_SECONDS = 50_000, 3_600.0
_QUEUE_SHARE, _QUEUE_FULL = 0.1, 0.5
_FEW_LEFT, _NONE_LEFT = 0.8, 0.95
_ASK = 'psql "$LANGLAUF_STORE" -c'


def _of(patient: Patient) -> ServerInspector:
    return cast("ServerInspector", patient.examiner)


def _sql(statement: str) -> str:
    return f'{_ASK} "{statement}"'


def server_version(patient: Patient) -> Seen:
    seen = patient.server
    if seen.version < seen.oldest:
        return wrong(f"PostgreSQL {seen.version}: {seen.oldest} or later is needed", _sql("SELECT version()"))
    return fine(f"PostgreSQL {seen.version}")


def server_durability(patient: Patient) -> Seen:
    seen = patient.server
    settings = {"fsync": seen.fsync, "full_page_writes": seen.full_page_writes}
    off = [name for name, on in settings.items() if not on]
    if off:
        step = _sql(f"ALTER SYSTEM SET {off[0]} = on") + " && " + _sql("SELECT pg_reload_conf()")
        return wrong(f"{' and '.join(off)} off: a power cut can take or tear what was committed", step)
    return fine("fsync and full_page_writes are on")


def synchronous_commit(patient: Patient) -> Seen:
    own, ours = patient.server.synchronous_commit, patient.session.synchronous_commit
    step = _sql("ALTER ROLE CURRENT_USER SET synchronous_commit = on")
    if ours == "off":
        return wrong("off in the sessions of the program: an accepted job can be lost", step)
    if own == "off":
        return odd("off for this login; the program switches it on for its own sessions, others do not", step)
    return fine(own)


def writable(patient: Patient) -> Seen:
    seen = patient.server
    if seen.standby:
        return wrong("the server is a standby, which only reads: name the primary", _sql("SELECT pg_is_in_recovery()"))
    if seen.read_only:
        step = _sql("ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
        return wrong("transactions of this login only read", step)
    return fine("primary, and writable")


def session_timeouts(patient: Patient) -> Seen:
    seen = patient.session
    limits = {
        "statement_timeout": seen.statement_timeout,
        "lock_timeout": seen.lock_timeout,
        "idle_in_transaction_session_timeout": seen.idle_timeout,
    }
    missing = [name for name, value in limits.items() if value == 0]
    if missing:
        return wrong(
            f"{some(missing)} not set in the sessions of the program", "pip install --force-reinstall langlauf"
        )
    return fine(f"statements {seen.statement_timeout} ms, locks {seen.lock_timeout} ms")


def old_transactions(patient: Patient) -> Seen:
    holders = _of(patient).holders()
    if not holders:
        return fine("nobody holds back dead rows")
    oldest = holders[0]
    words = f"{oldest.what}: for {ago(oldest.seconds)}, over {oldest.transactions} transactions"
    step = _sql("SELECT pid, state, xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY 3")
    if oldest.seconds > _TOO_LONG_SECONDS:
        return wrong(words, step)
    if oldest.seconds > _LONG_SECONDS or oldest.transactions > _MANY_TRANSACTIONS:
        return odd(words, step)
    return fine(words)


def dead_rows(patient: Patient) -> Seen:
    late = [
        table
        for table in _of(patient).hot_tables()
        if table.dead > _MANY_DEAD + table.live and (table.vacuumed_ago is None or table.vacuumed_ago > _VACUUM_SECONDS)
    ]
    if late:
        words = some([f"{table.name} has {table.dead} dead rows and {table.live} live ones" for table in late])
        return odd(words, _sql(f"VACUUM langlauf.{late[0].name}"))
    return fine("vacuum keeps up")


def notification_queue(patient: Patient) -> Seen:
    usage = patient.server.notify_usage
    words = f"{usage:.0%} full"
    step = _sql("SELECT pid, state, xact_start FROM pg_stat_activity WHERE query ILIKE 'listen%' ORDER BY 3")
    if usage >= _QUEUE_FULL:
        return wrong(f"{words}: when it is full, commits that notify fail", step)
    return odd(words, step) if usage >= _QUEUE_SHARE else fine(words)


def connections(patient: Patient) -> Seen:
    seen = patient.server
    room = seen.most_connections - seen.reserved_connections
    words = f"{seen.connections} of {room} are taken"
    step = _sql("SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC")
    if seen.connections >= _NONE_LEFT * room:
        return wrong(words, step)
    return odd(words, step) if seen.connections >= _FEW_LEFT * room else fine(words)


def pooler(patient: Patient) -> Seen:
    seen = patient.server
    step = _sql("SELECT pg_backend_pid()")
    if seen.shared:
        return wrong("a pooler gives one connection of the server to two of ours: it is not in session mode", step)
    if seen.pooled and not seen.pooler_expected:
        words = "a pooler is in between: connect to the server itself, or say ?pooler=session for one in session mode"
        return wrong(words, step)
    return fine("one in session mode" if seen.pooled else "none in between")


def row_security(patient: Patient) -> Seen:
    seen = patient.rights
    if seen.unguarded_tables:
        table = seen.unguarded_tables[0]
        step = _sql(f"ALTER TABLE langlauf.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        return wrong(f"row-level security is not in force on {some(seen.unguarded_tables)}", step)
    if seen.boundless_roles:
        role = seen.boundless_roles[0]
        return wrong(f"{some(seen.boundless_roles)} may bypass it", _sql(f"ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS"))
    return fine("in force on every table with an org")


def rights(patient: Patient) -> Seen:
    seen = patient.rights
    if seen.missing_roles:
        step = patient.command("migrate", "--print-roles")
        return wrong(f"the roles {some(seen.missing_roles)} are missing", step)
    if seen.open_to_all:
        what = seen.open_to_all[0].partition(",")[0]
        kind, _, name = what.partition(" ")
        known = name if kind == "schema" else f"langlauf.{name.removeprefix('langlauf.')}"
        return wrong(
            f"everybody has rights on {some(seen.open_to_all)}", _sql(f"REVOKE ALL ON {kind} {known} FROM PUBLIC")
        )
    return fine("nobody but the roles of the store")


def damage(patient: Patient) -> Seen:
    found = patient.examiner.damages()
    return wrong(some(found), patient.command("verify")) if found else fine("none told of")


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
        "Nobody keeps dead rows from being removed for more than 5 minutes (an hour is an error), with who it is.",
        old_transactions,
    ),
    Check(
        "dead_rows",
        Needs.POSTGRES,
        "No table has many more dead rows than live ones and no vacuum within an hour.",
        dead_rows,
    ),
    Check("notification_queue", Needs.POSTGRES, "Under 10 % full; from 50 % it is an error.", notification_queue),
    Check("connections", Needs.POSTGRES, "Under 80 % are taken; from 95 % it is an error.", connections),
    Check("pooler", Needs.POSTGRES, "No pooler in between, or one in session mode that the URL names.", pooler),
    Check(
        "row_security",
        Needs.POSTGRES,
        "Row-level security is forced on every table with an org, and no role of the store may bypass it.",
        row_security,
    ),
    Check("rights", Needs.POSTGRES, "Both roles are there, and PUBLIC has no right in the schema.", rights),
    Check("damage", Needs.POSTGRES, "No invalid index, no page with a wrong checksum.", damage),
)
