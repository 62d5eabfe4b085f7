"""A name server of the test's own: what a name stands for may differ from one question to the next."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv6Address

from dnslib import AAAA, CNAME, QTYPE, RR, A
from dnslib.server import BaseResolver, DNSServer

_SILENCE = 30.0
#: The answers to one kind of question, one after the other; the last one stays. None is silence.
Answers = Sequence[Sequence[str] | None]


class Names(BaseResolver):  # type: ignore[misc]
    """Names and what they stand for; addresses with a colon are of IPv6, names stand for names."""

    def __init__(self, table: Mapping[str, Answers]) -> None:
        self._table = table
        self._asked: dict[tuple[str, str], int] = defaultdict(int)
        self._lock = threading.Lock()
        #: how often each name was asked for, whatever was asked
        self.asked: Counter[str] = Counter()
        self.closing = threading.Event()

    def resolve(self, request, handler):  # type: ignore[no-untyped-def]  # noqa: ARG002
        reply, name, kind = request.reply(), str(request.q.qname).rstrip("."), QTYPE[request.q.qtype]
        with self._lock:
            number = self._asked[name, kind]
            self._asked[name, kind] += 1
            self.asked[name] += kind == "A"
        answers = self._table.get(name, [[]])
        now = answers[min(number, len(answers) - 1)]
        if now is None:
            self.closing.wait(_SILENCE)
            return reply
        for word in now:
            self._add(reply, name, kind, word)
        return reply

    def _add(self, reply, name: str, kind: str, word: str) -> None:  # type: ignore[no-untyped-def]
        if ":" in word:
            record, wanted = RR(name, QTYPE.AAAA, rdata=AAAA(tuple(IPv6Address(word).packed)), ttl=0), "AAAA"
        elif word[0].isdigit():
            record, wanted = RR(name, QTYPE.A, rdata=A(word), ttl=0), "A"
        else:
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(word), ttl=0))
            for inner in self._table[word][0] or ():
                self._add(reply, word, kind, inner)
            return
        if wanted == kind:
            reply.add_answer(record)


@contextmanager
def naming(table: Mapping[str, Answers], address: str = "127.0.0.1", port: int = 53) -> Iterator[Names]:
    """Answers questions until the block ends."""
    names = Names(table)
    server = DNSServer(names, address=address, port=port, logger=_Quiet())
    server.start_thread()
    try:
        yield names
    finally:
        names.closing.set()
        server.stop()
        server.server.server_close()


class _Quiet:
    """Says nothing of what is asked."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None
