"""Lists that come in pages."""

from collections.abc import Mapping

from langlauf.client.exchange import Request, Talk, ask, read
from langlauf.client.shapes import JobsAnswer, JobSummary

_LONGEST_PAGE = 200


class JobPages:
    """An org's jobs, newest first; with a limit, so many of them and no more."""

    def __init__(self, path: str, which: Mapping[str, str], limit: int | None) -> None:
        if limit is not None and limit < 1:
            raise ValueError("limit must be 1 or more")
        self._path = path
        self._which = which
        self._left = limit
        self._cursor: str | None = None
        self.ended = False

    def next_page(self) -> Talk[list[JobSummary]]:
        """The next jobs; after them, `ended` tells whether there are more."""
        size = _LONGEST_PAGE if self._left is None else min(self._left, _LONGEST_PAGE)
        params: dict[str, str | int] = {**self._which, "limit": size}
        if self._cursor is not None:
            params["cursor"] = self._cursor
        page = read((yield from ask(Request(path=self._path, params=params))), JobsAnswer)
        self._cursor = page.next_cursor
        if self._left is not None:
            self._left -= len(page.jobs)
        self.ended = page.next_cursor is None or self._left == 0
        return page.jobs
