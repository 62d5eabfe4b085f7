"""What hosts tell each other: that it is worth looking again. Ids, never facts: whoever hears it reads the database."""

from collections.abc import Iterable, Iterator

import msgspec

from langlauf.domain.errors import LanglaufError

#: The one channel of a database.
CHANNEL = "langlauf"
#: A notification of PostgreSQL takes less than 8,000 bytes.
LARGEST = 7_900
#: So many notifications go at once; jobs beyond that are not named, and are found by those who look each second.
MOST_AT_ONCE = 4
#: What an id takes besides its own bytes, and everything else in a notification.
_QUOTES, _FRAME = 3, 200


class News(msgspec.Struct, omit_defaults=True, rename={"sender": "from"}):
    """One notification, and what is collected for the next."""

    #: whose it is: a host does not listen to itself
    sender: str
    #: there may be something to claim
    work: bool = False
    #: somebody wants something of a job that runs
    attention: bool = False
    #: jobs that may look different now
    jobs: list[str] = []


class UnknownPayload(LanglaufError):
    """Somebody else's notification, or a later version's."""


def read(payload: str) -> News:
    """What a notification says."""
    try:
        return msgspec.json.decode(payload, type=News)
    except msgspec.MsgspecError as error:
        raise UnknownPayload(f"a notification that is not understood: {error}") from None


def written(sender: str, *, work: bool, attention: bool, jobs: Iterable[str]) -> list[str]:
    """The notifications that say so, each small enough, and not too many."""
    pages = list(_pages(jobs))[:MOST_AT_ONCE] or [[]]
    news = [News(sender, jobs=page) for page in pages]
    news[0].work, news[0].attention = work, attention
    return [msgspec.json.encode(one).decode() for one in news]


def _pages(jobs: Iterable[str]) -> Iterator[list[str]]:
    page: list[str] = []
    room = LARGEST - _FRAME
    for job_id in jobs:
        size = len(msgspec.json.encode(job_id)) + _QUOTES
        if size > LARGEST - _FRAME:
            continue
        if size > room:
            yield page
            page, room = [], LARGEST - _FRAME
        page.append(job_id)
        room -= size
    if page:
        yield page
