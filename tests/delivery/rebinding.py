"""Runs in a network of its own, where public addresses are ours: webhooks to names that lead inward.

`unshare --net --mount python -m tests.delivery.rebinding FOLDER` prints, as JSON, what became of each message, how
often each name was asked for, what arrived at the public receiver, and who called an inner address.
"""

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.delivery.dns_server import Answers, naming
from tests.delivery.rig import Rig, rig
from tests.support.certificates import make_certificate
from tests.support.receiver import receiving

PUBLIC, PUBLIC_SIX = "1.2.3.4", "2606:4700::1234"
INNER = ["127.0.0.1", "10.9.9.9", "169.254.169.254", "192.168.7.7", "::1", "fd00::7"]
PORTS = [80, 443, 3128]
#: A name that is never answered.
SILENT = "silent.example.org"

#: What a name stands for, and whether the message for it may arrive.
NAMES: dict[str, tuple[Answers, bool]] = {
    "good.example.org": ([[PUBLIC]], True),
    "six.example.org": ([[PUBLIC_SIX]], True),
    "both.example.org": ([[PUBLIC, PUBLIC_SIX]], True),
    "alias.example.org": ([["good.example.org"]], True),
    "mapped-good.example.org": ([[f"::ffff:{PUBLIC}"]], True),
    # Allowed at the first lookup, forbidden at the second: resolving twice would be exploitable.
    "rebind.example.org": ([[PUBLIC], ["127.0.0.1"]], True),
    "rebind-late.example.org": ([["127.0.0.1"], [PUBLIC], ["169.254.169.254"]], True),
    "loopback.example.org": ([["127.0.0.1"]], False),
    "loopback-six.example.org": ([["::1"]], False),
    "inner.example.org": ([["10.9.9.9"]], False),
    "private.example.org": ([["192.168.7.7"]], False),
    "metadata.example.org": ([["169.254.169.254"]], False),
    "unique.example.org": ([["fd00::7"]], False),
    "nothing.example.org": ([["0.0.0.0"]], False),  # noqa: S104
    "nothing-six.example.org": ([["::"]], False),
    "mapped.example.org": ([["::ffff:127.0.0.1"]], False),
    "mapped-inner.example.org": ([["::ffff:10.9.9.9"]], False),
    "translated.example.org": ([["64:ff9b::7f00:1"]], False),
    "one-bad.example.org": ([[PUBLIC, "10.9.9.9"]], False),
    "one-bad-six.example.org": ([[PUBLIC, "::1"]], False),
    "last-bad.example.org": ([[*(f"1.2.3.{number}" for number in range(5, 25)), "127.0.0.1"]], False),
    "alias-inward.example.org": ([["inner.example.org"]], False),
    "unknown.example.org": ([[]], False),
    SILENT: ([None], False),
}
#: Addresses that could not be registered, but got into the store all the same.
SPELLED = [
    *("https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/"),
    *("https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:a09:909]/", "https://localhost/"),
    *("https://localhost./", "https://10.9.9.9/", "https://169.254.169.254/", "http://10.9.9.9/", "https://0/"),
    *("https://good.example.org@10.9.9.9/", "https://10.9.9.9#@good.example.org/", "https://10.9.9.9:80/"),
    *("http://good.example.org/", "https://good.example.org:3128/", "https://good.example.org\\@10.9.9.9/"),
]


def _set_up(folder: Path) -> None:
    """Addresses of all kinds on this host, and its own server for names."""
    for address in (PUBLIC, *INNER[1:4]):
        _run("ip", "address", "add", f"{address}/32", "dev", "lo")
    for address in (PUBLIC_SIX, INNER[-1]):
        _run("ip", "address", "add", f"{address}/128", "dev", "lo", "nodad")
    _run("ip", "link", "set", "lo", "up")
    for name, text in {
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n",
        "nsswitch.conf": "hosts: files dns\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    }.items():
        (folder / name).write_text(text, "utf-8")
        _run("mount", "--bind", str(folder / name), f"/etc/{name}")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


@contextmanager
def _counting(calls: Counter[str]) -> Iterator[None]:
    """Listen at every private address, and count connections."""

    def accept(listener: socket.socket, address: str) -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            calls[address] += 1
            made.close()

    with ExitStack() as stack:
        for address in INNER:
            for port in PORTS:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = stack.enter_context(socket.create_server((address, port), family=family))
                threading.Thread(target=accept, args=(listener, address), daemon=True).start()
        with socket.create_connection((INNER[1], PORTS[0])):  # the count works: this one is seen
            pass
        yield


def _folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def _url(name: str) -> str:
    return f"https://{name}/{name}"


def _sent(sending: Rig, *urls: str) -> dict[str, tuple[str, int, str | None]]:
    """Send one message to each address; return its end, its tries and its error."""
    endpoints = {one.endpoint_id: one.url for one in sending.endpoints(*urls)}
    sending.run_job()
    return {
        endpoints[one.endpoint_id or ""]: (one.delivery_status, one.attempt_count, one.last_error)
        for one in sending.settled(number=len(urls))
    }


def main(folder: Path) -> None:
    """Sends to all of them, and prints what came of it."""
    _set_up(folder)
    key, certificate = make_certificate(folder, "*.example.org")
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(certificate, key)
    calls: Counter[str] = Counter()
    settings = {
        "LANGLAUF_WEBHOOK_ALLOW": "",
        "LANGLAUF_WEBHOOK_CA": str(certificate),
        "LANGLAUF_WEBHOOK_SCHEDULE": "0.1",
        "LANGLAUF_DELIVERIES": "16",
    }
    with (
        naming({name: answers for name, (answers, _) in NAMES.items()}) as names,
        _counting(calls),
        receiving(PUBLIC, 443, trust=trust) as four,
        receiving(PUBLIC_SIX, 443, trust=trust) as six,
    ):
        with rig(_folder(folder, "answered"), **settings) as sending:
            messages = _sent(sending, *(_url(name) for name in NAMES if name != SILENT), *SPELLED)
        # Alone, because its tries last until their deadline, which must be short and cut off no other name.
        with rig(_folder(folder, "silent"), **settings, LANGLAUF_WEBHOOK_SECONDS="0.3") as sending:
            messages |= _sent(sending, _url(SILENT))
        found = {
            "messages": messages,
            "asked": names.asked,
            "arrived": Counter(one.path for one in (*four.requests, *six.requests)),
            "hosts": sorted({one.headers["host"] for one in (*four.requests, *six.requests)}),
            "calls": calls,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
