"""The two tiers of the suite, and the seed of a run.

`make test` skips the tests that `tests/long.py` lists and uses a fixed seed. `make test-all` sets
`LANGLAUF_TEST_ALL=1`: everything runs, from a seed drawn anew. The seed is printed either way; `LANGLAUF_TEST_SEED`
sets it.
"""

import os
import random

#: Whether everything runs.
ALL = os.environ.get("LANGLAUF_TEST_ALL") == "1"
SEED_NAME = "LANGLAUF_TEST_SEED"
_FIXED_SEED = 20_261_117


class Missing(RuntimeError):
    """This machine, or this user, lacks something that a test needs: a browser, a database, network namespaces.

    The message says what, and how to get it. `make test` skips such tests, with one line of its summary for each
    reason; in `make test-all` they fail.
    """


def choose_seed(*, fixed: bool = not ALL) -> int:
    """Return the seed of this run; the first call decides for this process and those it starts."""
    return int(os.environ.setdefault(SEED_NAME, str(_FIXED_SEED if fixed else random.randrange(10**9))))


def at_scale(everything: int, share: int) -> int:
    """Return how many to run: `share` of them in `make test`."""
    return everything if ALL else share
