"""The scenarios of abuse by name.

A new one is a module with `async def run(plan) -> list[Figure]` and a row here; the command, the test suite and the
table then have it. A load that others may want beside theirs is a class to enter, as `slow.SlowClients`.
"""

from collections.abc import Mapping

from tests.abuse import hostile, idempotency, overload, slow, streams, timing
from tests.faults.suite import Scenario

SCENARIOS: Mapping[str, Scenario] = {
    "slow": slow.run,
    "streams": streams.run,
    "overload": overload.run,
    "idempotency": idempotency.run,
    "hostile": hostile.run,
}
#: Judged by the laws of chance, which now and then say no although all is well: for a person, not for a test.
BY_HAND: Mapping[str, Scenario] = {"timing": timing.run}
