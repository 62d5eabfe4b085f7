"""Garbage collection of a server: a request waits for a small one, not for one of everything."""

import subprocess
import sys

_PROGRAM = """
import gc
from langlauf.cli.process import freeze_garbage

freeze_garbage()
largest, kept = [], []

def note(phase, info):
    if phase == "start":
        largest.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

gc.callbacks.append(note)
for number in range(200_000):
    kept.append([number])  # of each request something lives longer
    if len(kept) > 3_000:
        kept.clear()
gc.callbacks.remove(note)
print(len(largest), max(largest))
"""


def test_a_collection_looks_at_few_objects() -> None:
    """It stops every thread for as long as it looks: at what is new, never at what the program loaded."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    count, largest = map(int, done.stdout.split())
    assert count > 10
    assert largest < 10_000
