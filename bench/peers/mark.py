"""The job of every peer: it appends when it was enqueued and when it started to the file BENCH_MARK."""

import os
import struct
import time

RECORD = struct.Struct("dd")
_file = os.open(os.environ["BENCH_MARK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def mark(enqueued_at: float) -> int:
    """Note the start of a job."""
    os.write(_file, RECORD.pack(enqueued_at, time.time()))
    return 1
