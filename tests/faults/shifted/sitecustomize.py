"""On the path of a program under test: shifts the wall clock of its machine, not the monotonic clock."""

import os
import time

_SHIFT = float(os.environ["LANGLAUF_TEST_CLOCK_SHIFT"])
_SHIFT_NS = int(_SHIFT * 1_000_000_000)
_time, _time_ns = time.time, time.time_ns


def _shifted() -> float:
    return _time() + _SHIFT


def _shifted_ns() -> int:
    return _time_ns() + _SHIFT_NS


time.time, time.time_ns = _shifted, _shifted_ns
