"""What a claim and a submission cost beside a long queue, beside an org that a limit holds back, and with many orgs."""

from contextlib import AsyncExitStack

from bench.store.figures import Compared, compare_medians
from bench.store.postgres.comparison import LEASE_SECONDS, Site, Step, in_turns
from bench.store.postgres.fill import Filling, fill
from langlauf.bench.postgres import connected
from langlauf.bench.rounds import OnProgress, claim_request
from langlauf.domain.errors import LanglaufError

_ORGS, _ANALYSES = 1_000, 5
_SLOTS = 50
_POLLED = 1_000
#: Sorts before the other orgs, so that it would always have the next turn.
_HELD = "a-held"
_HELD_RUNNING = 10


def _claims(samples: int, waiting: int) -> list[Step]:
    slots = min(_SLOTS, waiting)
    return [
        ("claim of one job", "claim", samples, lambda site: site.claim(1)),
        (f"claim of {slots} jobs, each", "claim", max(1, samples // 6), lambda site: site.claim(slots)),
    ]


def _submits(samples: int) -> list[Step]:
    return [("submission of one job", "submit", samples, lambda site: site.submit())]


async def measure_backlog(
    server: str, sizes: tuple[int, ...], samples: int, watch_fill: OnProgress, watch: OnProgress
) -> list[Compared]:
    """Queues of different length, of a thousand orgs and a few analyses."""
    steps = [*_claims(samples, min(sizes)), *_submits(samples)]
    async with AsyncExitStack() as stack:
        sites = []
        for size in sorted(sizes):
            # As many lanes to each org, however many jobs there are: that number costs, and it is not what is asked.
            filling = Filling(jobs=size, orgs=max(1, min(_ORGS, size // _ANALYSES)), analyses=_ANALYSES)
            sites.append(await Site.made(stack, server, f"{size:,} waiting", filling, watch_fill))
        await in_turns(sites, steps, watch)
        return [compare_medians(name, sites) for name, *_ in steps]


async def measure_held_back(
    server: str, waiting: int, held: int, samples: int, watch_fill: OnProgress, watch: OnProgress
) -> list[Compared]:
    """Return an org at its limit, once with nothing and once with so many jobs that wait behind it."""
    steps = _claims(samples, waiting)
    async with AsyncExitStack() as stack:
        sites = [
            await _beside_held(stack, server, label, waiting, more, watch_fill)
            for label, more in (("nothing held back", 0), (f"{held:,} held back by a limit", held))
        ]
        await in_turns(sites, steps, watch)
        return [compare_medians(name, sites) for name, *_ in steps]


async def _beside_held(
    stack: AsyncExitStack, server: str, label: str, waiting: int, held: int, watch: OnProgress
) -> Site:
    full = Filling(jobs=held + _HELD_RUNNING, prefix=_HELD)
    site = await Site.made(stack, server, label, full, watch)
    claims = await site.store.claim(claim_request(_HELD_RUNNING, full.names, lease_seconds=LEASE_SECONDS))
    if len(claims) != _HELD_RUNNING:
        raise LanglaufError("the org that is to be held back did not get to its limit")
    site.filling = Filling(jobs=waiting, orgs=min(_ORGS, waiting))
    await fill(site.url, site.filling, watch)
    async with connected(site.url) as connection:
        await connection.execute("UPDATE lanes SET virtual_start = 0, served = 0 WHERE starts_with(org_id, $1)", _HELD)
    site.max_running_org = _HELD_RUNNING
    return site


async def measure_orgs(
    server: str, sizes: tuple[int, ...], waiting: int, samples: int, watch_fill: OnProgress, watch: OnProgress
) -> list[Compared]:
    """Return the same number of jobs in the lanes of few and of many orgs."""
    steps = [*_claims(samples, waiting), *_submits(samples)]
    async with AsyncExitStack() as stack:
        sites = []
        for orgs in sorted(sizes):
            filling = Filling(jobs=waiting, orgs=orgs)
            sites.append(await Site.made(stack, server, f"{orgs:,} orgs", filling, watch_fill))
        await in_turns(sites, steps, watch)
        return [compare_medians(name, sites) for name, *_ in steps]


async def measure_history(
    server: str, sizes: tuple[int, ...], samples: int, watch_fill: OnProgress, watch: OnProgress
) -> list[Compared]:
    """Finished jobs, few and many."""
    polls: list[Step] = [("status of a job", "other", 5 * samples, lambda site: site.status())]
    submits = _submits(samples)
    async with AsyncExitStack() as stack:
        sites = []
        for size in sorted(sizes):
            filling = Filling(jobs=size, orgs=min(_ORGS, size), finished=True)
            site = await Site.made(stack, server, f"{size:,} finished", filling, watch_fill)
            await site.choose_finished(_POLLED)
            sites.append(site)
        await in_turns(sites, [*polls, *submits], watch)
        return [compare_medians(name, sites) for name, *_ in (*polls, *submits)]
