"""What a claim and a submission cost beside a long queue, beside an org that a limit holds back, and with many orgs."""

from contextlib import AsyncExitStack

from langlauf.bench.figures import Compared, Watch
from langlauf.bench.postgres.fill import Filling, fill
from langlauf.bench.postgres.server import connected
from langlauf.bench.postgres.turns import LEASE_SECONDS, Site, Step, compared, in_turns
from langlauf.bench.work import claim_request
from langlauf.domain.errors import LanglaufError

_ORGS, _ANALYSES = 1_000, 5
_SINGLE, _MANY = 200, 30
_SLOTS = 50
#: Sorts before the other orgs, so that it would always have the next turn.
_HELD = "a-held"
_HELD_RUNNING = 10
_WANTED = "under 1.5"

_CLAIMS: list[Step] = [
    ("claim of one job", _SINGLE, lambda site: site.claim(1)),
    (f"claim of {_SLOTS} jobs, each", _MANY, lambda site: site.claim(_SLOTS)),
]
_CLAIMS_AND_SUBMITS: list[Step] = [*_CLAIMS, ("submission of one job", _SINGLE, lambda site: site.submit())]


async def measure_backlog(server: str, sizes: tuple[int, ...], watch_fill: Watch, watch: Watch) -> list[Compared]:
    """Queues of different length, of a thousand orgs and a few analyses."""
    async with AsyncExitStack() as stack:
        sites = []
        for size in sorted(sizes):
            filling = Filling(jobs=size, orgs=min(_ORGS, size), analyses=_ANALYSES)
            sites.append(await Site.made(stack, server, f"{size:,} waiting", filling, watch_fill))
        await in_turns(sites, _CLAIMS_AND_SUBMITS, watch)
        return [compared(name, sites, _WANTED) for name, *_ in _CLAIMS_AND_SUBMITS]


async def measure_held_back(server: str, waiting: int, held: int, watch_fill: Watch, watch: Watch) -> list[Compared]:
    """An org at its limit, once with nothing and once with so many jobs that wait behind it."""
    async with AsyncExitStack() as stack:
        sites = [
            await _beside_held(stack, server, label, waiting, more, watch_fill)
            for label, more in (("nothing held back", 0), (f"{held:,} held back", held))
        ]
        await in_turns(sites, _CLAIMS, watch)
        return [compared(name, sites, _WANTED) for name, *_ in _CLAIMS]


async def _beside_held(stack: AsyncExitStack, server: str, label: str, waiting: int, held: int, watch: Watch) -> Site:
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
    server: str, sizes: tuple[int, ...], waiting: int, watch_fill: Watch, watch: Watch
) -> list[Compared]:
    """The same number of jobs in the lanes of few and of many orgs."""
    async with AsyncExitStack() as stack:
        sites = []
        for orgs in sorted(sizes):
            filling = Filling(jobs=max(waiting, orgs), orgs=orgs)
            sites.append(await Site.made(stack, server, f"{orgs:,} orgs", filling, watch_fill))
        await in_turns(sites, _CLAIMS_AND_SUBMITS, watch)
        return [compared(name, sites) for name, *_ in _CLAIMS_AND_SUBMITS]


async def measure_history(server: str, sizes: tuple[int, ...], watch_fill: Watch, watch: Watch) -> list[Compared]:
    """Finished jobs, few and many."""
    steps: list[Step] = [
        ("submission of one job", _SINGLE, lambda site: site.submit()),
        ("claim of one job", _SINGLE, lambda site: site.claim(1)),
        ("status of a job", 5 * _SINGLE, lambda site: site.status()),
    ]
    async with AsyncExitStack() as stack:
        sites = []
        for size in sorted(sizes):
            filling = Filling(jobs=size, orgs=min(_ORGS, size), finished=True)
            site = await Site.made(stack, server, f"{size:,} finished", filling, watch_fill)
            await site.choose_finished(_ORGS)
            sites.append(site)
        await in_turns(sites, steps, watch)
        return [compared(name, sites, "under 1.3" if name.startswith("status") else "") for name, *_ in steps]
