"""Reads that take long, one after another on a connection and a thread of their own: others do not wait behind them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from langlauf.domain.errors import StoreUnavailable
from langlauf.store.sqlite.connection import open_connection

T = TypeVar("T")


class LongReads:
    """Each has a snapshot of its own, and lets go of it at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "langlauf-long-reader")
        #: held while one runs; the writer takes it to empty the log
        self.no_reader = threading.RLock()

    _connection: apsw.Connection

    async def open(self) -> None:
        """Opens the connection: with the store, so that the first read does not wait for it."""
        loop = asyncio.get_running_loop()
        self._connection = await loop.run_in_executor(self._thread, open_connection, self._path)

    async def run(self, read: Callable[[apsw.Connection], T], /) -> T:
        """Runs a function on the connection."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, read)

    def _run(self, read: Callable[[apsw.Connection], T]) -> T:
        try:
            with self.no_reader:
                self._connection.execute("BEGIN")
                try:
                    return read(self._connection)
                finally:
                    self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise StoreUnavailable(f"the store cannot be read: {error}") from error

    async def close(self) -> None:
        """Lets go when what is under way has ended."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self.shut()

    def shut(self) -> None:
        """Ends the thread, also where the connection could not be opened."""
        self._thread.shutdown(wait=False)
