"""What can be wrong with a database: only readable, full, or away."""

import asyncpg

from langlauf.store.health import Ailment

_AILMENTS: tuple[tuple[type[Exception], Ailment], ...] = (
    (asyncpg.ReadOnlySQLTransactionError, Ailment.READ_ONLY),
    (asyncpg.DiskFullError, Ailment.FULL),
)


def ailment_of(error: Exception) -> Ailment:
    """What a failed question says about the database."""
    return next((ailment for kind, ailment in _AILMENTS if isinstance(error, kind)), Ailment.AWAY)
