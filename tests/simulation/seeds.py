"""Where the schedules of a run start: at LANGLAUF_TEST_SEED, or anywhere."""

import os
import random

BASE = int(os.environ.get("LANGLAUF_TEST_SEED", random.randrange(10**9)))
