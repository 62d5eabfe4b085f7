"""A store on SQLite that counts what its writer does."""

import time
from collections.abc import Sequence
from typing import Any

from langlauf.store.sqlite.driver import SqliteStore


class CountingStore(SqliteStore):
    """Counts its transactions, the rows that they write, and the processor time that they take."""

    transactions = 0
    row_writes = 0
    writer_seconds = 0.0

    def _run_statements(self, batch: Sequence[Any], *, waits: bool = True) -> list[Any]:
        self.transactions += 1
        rows, began = self._writer.total_changes(), time.thread_time()
        try:
            return super()._run_statements(batch, waits=waits)
        finally:
            self.writer_seconds += time.thread_time() - began
            self.row_writes += self._writer.total_changes() - rows

    def _finish(self, count: int) -> None:
        began = time.thread_time()
        super()._finish(count)
        self.writer_seconds += time.thread_time() - began
