"""A deployment over several hosts, which are network namespaces around one PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from langlauf.store.postgres.snapshot import check_database
from tests.faults.fleet import Deployment, Program
from tests.faults.plan import Plan
from tests.support.network import Host, Network
from tests.support.postgres import execute, fetch, own_server
from tests.support.postgres_server import Server

_PORT = 8080
_DATABASE = "langlauf"
LEASE, SWEEP = 3.0, 0.5
#: Allowance of the contract besides lease and sweep.
SLACK = 1.0
#: Limits for a response while the database is away, and for the recovery when it is back.
SOON = 10.0
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": str(LEASE),
    "LANGLAUF_SWEEP_SECONDS": str(SWEEP),
    "LANGLAUF_POLL_SECONDS": "0.25",
    "LANGLAUF_MAX_RUNNING": "24",
}
_LEFT = (Path(__file__).parent / "left.sql").read_text("utf-8")


class Hosts(Deployment):
    """Servers, workers and one database, each on a host of its own."""

    def __init__(
        self, plan: Plan, name: str, settings: Mapping[str, str], *, network: Network, server: Server, database: Host
    ) -> None:
        super().__init__(plan, name, {**SETTINGS, **settings})
        self.network = network
        self.server = server
        self.database = database
        #: by the pid of the program that runs there
        self.hosts: dict[int, Host] = {}

    @property
    def store(self) -> str:
        """The URL of the database, which all hosts and this process can reach."""
        return self.server.url(_DATABASE)

    async def serve(self, *, store: str | None = None, settings: Mapping[str, str] | None = None) -> Program:
        """Start a server on a new host; requests go to the first one until `turn_to`."""
        host = self.network.host("api")
        flags = ("--host", host.address, "--port", str(_PORT), "--workers", "0", "--allow-open")
        program = await self._start(
            *(store or self.store, "serve", *flags), workers=0, serves=True, prefix=host.prefix, settings=settings
        )
        self.hosts[program.pid] = host
        if not self.serving.is_set():
            self.turn_to(program)
        return program

    async def work(self, *, store: str | None = None, settings: Mapping[str, str] | None = None) -> Program:
        """Start a worker on a new host."""
        host = self.network.host("worker")
        program = await self._start(
            store or self.store, "worker", workers=1, serves=False, prefix=host.prefix, settings=settings
        )
        self.hosts[program.pid] = host
        return program

    def turn_to(self, program: Program) -> None:
        """Send requests to this server from now on."""
        self._server = program
        self.serving.set()

    def cut(self, program: Program) -> None:
        """Disconnect its host."""
        self.hosts[program.pid].cut()

    def heal(self, program: Program) -> None:
        """Reconnect its host."""
        self.hosts[program.pid].heal()

    async def sound(self) -> bool:
        """Whether no rule is broken, every job has exactly one end, and nothing else is left."""
        broken = await asyncio.to_thread(lambda: [one for one in check_database(self.store) if not one.warning])
        left = await asyncio.to_thread(fetch, self.store, _LEFT)
        for found in (*broken, *map(tuple, left)):
            print(found)
        return not broken and not left


@asynccontextmanager
async def hosts(plan: Plan, name: str, settings: Mapping[str, str] | None = None) -> AsyncIterator[Hosts]:
    """Create a network with a database."""
    with ExitStack() as stack:
        network = Network.made(stack)
        database = network.host("database")
        server = stack.enter_context(own_server(listen=(database.address,), prefix=database.prefix))
        execute(server.url(), f"CREATE DATABASE {_DATABASE}")
        async with Hosts(plan, name, settings or {}, network=network, server=server, database=database) as deployment:
            yield deployment
