"""Hosts on one machine: network namespaces with addresses of their own, on one switch, that can be cut off and healed.

A cut is a cable that was pulled somewhere on the way: nobody is told, packets are gone. The namespaces have no names: a
process holds each, and ends with the process that made it, so that nothing is left however that one ends.
"""

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.support.tiers import Missing

#: For benchmarks of networks: no real host has such an address.
_NETS = tuple(f"198.{second}.{third}" for second in (18, 19) for third in range(256))
_TRIES = 50
NO_NETWORK = (
    "These tests need hosts as network namespaces, and could not make them: that takes Linux, root with CAP_NET_ADMIN "
    "and CAP_SYS_ADMIN, and the commands ip (iproute2), unshare and nsenter (util-linux)."
)


class NoNetwork(Missing):
    """This machine, or this user, has no network namespaces."""


class Host:
    """One host. What begins with `prefix` runs on it."""

    def __init__(self, name: str, address: str, prefix: tuple[str, ...], port: str, switch: "Switch") -> None:
        self.name = name
        self.address = address
        self.prefix = prefix
        self._port = port
        self._switch = switch

    def cut(self) -> None:
        """Nothing reaches it, and nothing it sends arrives; no connection is told."""
        self._switch.unplug(self._port)

    def heal(self) -> None:
        """As if nothing had been."""
        self._switch.plug(self._port)


class Switch:
    """What all hosts are plugged into, in a namespace of its own."""

    def __init__(self, prefix: tuple[str, ...]) -> None:
        self._prefix = prefix
        _run(*prefix, "ip", "link", "add", "switch", "type", "bridge")
        _run(*prefix, "ip", "link", "set", "switch", "up")

    def plug(self, port: str) -> None:
        """Connects the far end of a cable."""
        _run(*self._prefix, "ip", "link", "set", port, "master", "switch", "up")

    def unplug(self, port: str) -> None:
        """Leaves it lying there: the cable is whole and leads nowhere."""
        _run(*self._prefix, "ip", "link", "set", port, "nomaster")


class Network:
    """Hosts of one network. This process is on it as well, at `address`."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._net = ""
        self._numbers = itertools.count(2)
        self._holder, prefix = self._namespace()
        self._switch = Switch(prefix)

    @classmethod
    def made(cls, stack: ExitStack) -> Self:
        """A network that lives as long as the stack."""
        check_namespaces("--net")
        network = cls(stack)
        network._join()
        return network

    @property
    def address(self) -> str:
        """Where hosts reach this process."""
        return f"{self._net}.1"

    def host(self, name: str) -> Host:
        """One more host."""
        number = next(self._numbers)
        holder, prefix = self._namespace()
        port, address = f"port{number}", f"{self._net}.{number}"
        ends = ("veth", "peer", "name", port, "netns", str(self._holder))
        _run("ip", "link", "add", "name", "cable", "netns", str(holder), "type", *ends)
        _run(*prefix, "ip", "address", "add", f"{address}/24", "dev", "cable")
        for link in ("cable", "lo"):
            _run(*prefix, "ip", "link", "set", link, "up")
        self._switch.plug(port)
        return Host(name, address, prefix, port, self._switch)

    def _join(self) -> None:
        """Plugs this process in, with a net that no other run on this machine has."""
        for net in random.sample(_NETS, _TRIES):
            cable = f"ll{net.replace('.', '-')}"
            ends = ("veth", "peer", "name", "port1", "netns", str(self._holder))
            try:
                _run("ip", "link", "add", "name", cable, "type", *ends)
            except NoNetwork:
                if not Path(f"/sys/class/net/{cable}").exists():
                    raise
                continue
            self._net = net
            _run("ip", "address", "add", f"{net}.1/24", "dev", cable)
            _run("ip", "link", "set", cable, "up")
            self._switch.plug("port1")
            return
        raise NoNetwork(f"{NO_NETWORK} No free net after {_TRIES} tries.")

    def _namespace(self) -> tuple[int, tuple[str, ...]]:
        """A namespace, and the process that holds it until its standard input is closed."""
        words = ("unshare", "--net", "sh", "-c", "echo; exec cat")
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stderr is not None
        self._stack.enter_context(holder)  # closes its input and waits for it
        if not holder.stdout.readline():
            raise NoNetwork(f"{NO_NETWORK} {holder.stderr.read().decode().strip()}")
        return holder.pid, ("nsenter", f"--net=/proc/{holder.pid}/ns/net", "--")


def check_namespaces(*kinds: str) -> None:
    """Raise `NoNetwork` where this user cannot make namespaces of these kinds, which are flags of `unshare`."""
    missing = [word for word in ("ip", "unshare", "nsenter") if shutil.which(word) is None]
    if missing or os.geteuid() != 0:
        raise NoNetwork(f"{NO_NETWORK} Missing: {', '.join(missing) or 'root'}.")
    _run("unshare", *kinds, "true")


@contextmanager
def network() -> Iterator[Network]:
    """A network that is gone at the end, with all its hosts."""
    with ExitStack() as stack:
        yield Network.made(stack)


def _run(*words: str) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoNetwork(f"{NO_NETWORK} {' '.join(words)}: {done.stderr.strip()}")
