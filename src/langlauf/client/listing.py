"""Lists that come in pages."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from langlauf.client.exchange import Reply, Request, Talk, ask, read
from langlauf.client.shapes import InboxAnswer, InboxMessage, JobsAnswer, JobSummary

_LONGEST_PAGE = 200
T = TypeVar("T")


class Pages(Generic[T]):
    """A list of an org, newest first; with a limit, so many of it and no more."""

    def __init__(
        self,
        path: str,
        which: Mapping[str, str],
        limit: int | None,
        read_page: Callable[[Reply], tuple[list[T], str | None]],
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError("limit must be 1 or more")
        self._path = path
        self._which = which
        self._left = limit
        self._read_page = read_page
        self._cursor: str | None = None
        self.ended = False

    def next_page(self) -> Talk[list[T]]:
        """The next part of the list; after it, `ended` tells whether there is more."""
        size = _LONGEST_PAGE if self._left is None else min(self._left, _LONGEST_PAGE)
        params: dict[str, str | int] = {**self._which, "limit": size}
        if self._cursor is not None:
            params["cursor"] = self._cursor
        found, self._cursor = self._read_page((yield from ask(Request(path=self._path, params=params))))
        if self._left is not None:
            self._left -= len(found)
        self.ended = self._cursor is None or self._left == 0
        return found


def page_of_jobs(reply: Reply) -> tuple[list[JobSummary], str | None]:
    """Some of an org's jobs, and where the next ones are."""
    page = read(reply, JobsAnswer)
    return page.jobs, page.next_cursor


def page_of_messages(reply: Reply) -> tuple[list[InboxMessage], str | None]:
    """Some of an org's messages, and where the next ones are."""
    page = read(reply, InboxAnswer)
    return page.notifications, page.next_cursor
