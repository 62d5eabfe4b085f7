"""No inner address may be called, in whatever spelling; and what is public may be."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.domain.ssrf import (
    _METADATA,
    _NAMED,
    Address,
    embedded_ipv4,
    is_allowed,
    refusal_reason,
    unwrap_mapped,
)

PUBLIC = ["1.2.3.4", "8.8.8.8", "93.184.216.34", "223.255.255.254", "2606:4700::1111", "2a00:1450:4001::200e"]
INNER = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.255.255.254"),  # noqa: S104
    *("169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "169.254.169.254", "168.63.129.16", "100.100.100.200"),
    *("::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1"),
    *("100::1", "2001::1", "2001:10::1", "2001:20::1", "64:ff9b:1::808:808", "4000::1", "fe80::1%eth0", "2606::1%1"),
    *("2002:808:808::", "::808:808", "::ffff:0:808:808", "5f00::1"),
]


def _wrapped(four: IPv4Address) -> dict[str, Address]:
    """An address of IPv4 in all the clothes of IPv6."""
    bits = int(four)
    turned = ~bits & 0xFFFF_FFFF
    return {
        "mapped": IPv6Address(0xFFFF << 32 | bits),
        "compatible": IPv6Address(bits),
        "translated": IPv6Address(0xFFFF << 48 | bits),
        "nat64": IPv6Address(int(IPv6Address("64:ff9b::")) | bits),
        "local nat64 /96": IPv6Address(int(IPv6Address("64:ff9b:1::")) | bits),
        "local nat64 /48": IPv6Address(int(IPv6Address("64:ff9b:1::")) | bits >> 16 << 64 | (bits & 0xFFFF) << 40),
        "local nat64 /56": IPv6Address(int(IPv6Address("64:ff9b:1::")) | bits >> 24 << 64 | (bits & 0xFFFFFF) << 32),
        "local nat64 /64": IPv6Address(int(IPv6Address("64:ff9b:1::")) | bits << 24),
        "6to4": IPv6Address(0x2002 << 112 | bits << 80 | 1),
        "teredo client": IPv6Address(0x2001_0000 << 96 | 0x0808_0808 << 64 | turned),
        "teredo server": IPv6Address(0x2001_0000 << 96 | bits << 64 | 0x7777_7777),
        "isatap": IPv6Address(int(IPv6Address("2a00:1450::")) | 0x0000_5EFE << 32 | bits),
        "isatap, unique": IPv6Address(int(IPv6Address("2a00:1450::")) | 0x0200_5EFE << 32 | bits),
    }


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_called(text: str) -> None:
    assert refusal_reason(ip_address(text)) is None


@pytest.mark.parametrize("text", INNER)
def test_private_addresses_may_not(text: str) -> None:
    assert refusal_reason(ip_address(text)) is not None


@pytest.mark.parametrize("name", _wrapped(IPv4Address("127.0.0.1")))
@pytest.mark.parametrize("text", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1", "100.64.0.1"])
def test_nor_embedded_in_ipv6(text: str, name: str) -> None:
    address = _wrapped(IPv4Address(text))[name]
    assert refusal_reason(address) is not None
    assert address == unwrap_mapped(address) or unwrap_mapped(address) == IPv4Address(text)
    assert IPv4Address(text) in embedded_ipv4(address)


def test_a_public_address_behind_nat64_or_mapped_is_public() -> None:
    for name in ("mapped", "nat64", "isatap"):
        assert refusal_reason(_wrapped(IPv4Address("8.8.8.8"))[name]) is None, name


@pytest.mark.parametrize("text", [network for _, networks in _NAMED for network in networks.split()])
def test_the_bounds_of_each_range_are_refused(text: str) -> None:
    network = ip_network(text)
    assert refusal_reason(network[0]) is not None
    assert refusal_reason(network[-1]) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
        *("169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0"),
        *("198.17.255.255", "198.20.0.0", "2001:200::", "2003::", "3ffe:ffff::", "2001:db7:ffff::", "2001:db9::"),
    ],
)
def test_the_next_address_may_be_called(text: str) -> None:
    assert refusal_reason(ip_address(text)) is None


@given(st.ip_addresses(v=4))
def test_whatever_the_standard_library_calls_private_is_refused(address: IPv4Address) -> None:
    if refusal_reason(address) is None:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.ip_addresses(v=6))
def test_the_same_for_ipv6(address: IPv6Address) -> None:
    if refusal_reason(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4), st.sampled_from(sorted(_wrapped(IPv4Address(0)))))
def test_embedding_never_makes_an_address_public(address: IPv4Address, name: str) -> None:
    if refusal_reason(address) is not None:
        assert refusal_reason(_wrapped(address)[name]) is not None


def test_an_allowed_range_may_be_called() -> None:
    allow = (ip_network("10.1.0.0/16"), ip_network("127.0.0.0/8"), ip_network("fd12::/16"))
    for text in ("10.1.2.3", "127.0.0.1", "::ffff:10.1.2.3", "fd12::1"):
        assert refusal_reason(ip_address(text), allow) is None, text
        assert is_allowed(ip_address(text), allow), text
    for text in ("10.2.0.1", "192.168.0.1", "fd13::1", "64:ff9b::10.1.2.3", "2002:a01:203::", "::1"):
        assert refusal_reason(ip_address(text), allow) is not None, text
    assert refusal_reason(ip_address("8.8.8.8"), allow) is None
    assert not is_allowed(ip_address("8.8.8.8"), allow)


def test_a_wide_range_does_not_mean_link_local_but_one_within_it_does() -> None:
    wide = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    for text in ("169.254.7.7", "fe80::7", "::ffff:169.254.7.7", "64:ff9b::169.254.7.7"):
        assert refusal_reason(ip_address(text), wide) is not None, text
    assert refusal_reason(ip_address("10.9.9.9"), wide) is None
    assert refusal_reason(ip_address("169.254.7.7"), (ip_network("169.254.7.0/24"),)) is None
    assert refusal_reason(ip_address("fe80::7"), (ip_network("fe80::/64"),)) is None


@pytest.mark.parametrize("network", [str(network) for network in _METADATA])
def test_metadata_services_are_never_called(network: str) -> None:
    address = ip_network(network)[0]
    wide = ip_network("0.0.0.0/0") if isinstance(address, IPv4Address) else ip_network("::/0")
    assert refusal_reason(address, (wide,)) is not None
    assert refusal_reason(address, (ip_network(network),)) is not None


@pytest.mark.parametrize("text", ["0.0.0.1", "224.0.0.1", "255.255.255.255", "::", "ff02::1"])
def test_broadcast_and_multicast_are_never_called(text: str) -> None:
    assert refusal_reason(ip_address(text), (ip_network("0.0.0.0/0"), ip_network("::/0"))) is not None
