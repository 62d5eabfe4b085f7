"""The address of a client behind proxies: whom the header names, as far as it can be believed."""

import pytest

from langlauf.auth.caller import network_of, trusted_proxies
from langlauf.domain.errors import SettingsError
from langlauf.settings import load_settings

TRUST = trusted_proxies(load_settings({"LANGLAUF_TRUSTED_PROXIES": "10.0.0.0/8,::1"}))


@pytest.mark.parametrize(
    ("peer", "header", "expected"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.9", "198.51.100.1,10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.9, nonsense, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("::1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("::ffff:10.0.0.1", ["2001:db8::7"], "2001:db8::7"),
        ("10.0.0.1", [",".join(["198.51.100.1"] + ["10.0.0.2"] * 5_000)], "10.0.0.2"),
        ("10.0.0.1", ["\xff\x00"], "10.0.0.1"),
    ],
)
def test_the_right_most_address_that_is_no_proxy(peer: str, header: list[str], expected: str) -> None:
    """What stands left of it anybody can have sent; what cannot be read ends the walk at the proxy before it."""
    fields = [(b"x-other", b"192.0.2.1"), *((b"x-forwarded-for", value.encode("latin-1")) for value in header)]
    assert str(TRUST.client_of(peer, fields)) == expected


def test_a_connection_without_an_address_has_none() -> None:
    """Such as one over a socket in the file system."""
    assert TRUST.client_of(None, [(b"x-forwarded-for", b"198.51.100.1")]) is None


def test_a_site_counts_as_one() -> None:
    """Of IPv6 anybody has 2 to the 64 addresses."""
    first, second = (TRUST.client_of(name, []) for name in ("2001:db8::1", "2001:db8::ffff"))
    assert first is not None
    assert second is not None
    assert network_of(first) == network_of(second) == "2001:db8::/64"


def test_the_header_has_a_name_of_ones_own() -> None:
    """In any case; a name that no header can have stops the program."""
    settings = {"LANGLAUF_TRUSTED_PROXIES": "10.0.0.1", "LANGLAUF_PROXY_HEADER": "X-Real-IP"}
    trust = trusted_proxies(load_settings(settings))
    fields = [(b"x-real-ip", b"198.51.100.1"), (b"x-forwarded-for", b"192.0.2.1")]
    assert str(trust.client_of("10.0.0.1", fields)) == "198.51.100.1"
    with pytest.raises(SettingsError, match="LANGLAUF_PROXY_HEADER"):
        load_settings({"LANGLAUF_PROXY_HEADER": "X Real"})
