"""Web addresses of webhooks: read in one way only, and refused where they can only mean something inside."""

from ipaddress import ip_network

import pytest

from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.webhook import LONGEST_WEBHOOK_URL, read_webhook_url

HOME = (ip_network("127.0.0.0/8"), ip_network("10.1.0.0/16"), ip_network("::1/128"))

#: Ways to write an inner address, and ways to confuse whoever reads an address.
REFUSED = [
    # numbers
    *("https://127.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/"),
    *(
        "https://127.1/",
        "https://127.0.1/",
        "https://0/",
        "https://0x/",
        "https://127.0.0.0x1/",
        "https://017700000001/",
    ),
    *(
        "https://00000127.0.0.1/",
        "https://127.000.000.001/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://1.2.3/",
    ),
    *("https://0xA9FEA9FE/", "https://2852039166/", "https://169.254.169.254/latest/meta-data/", "https://example.1/"),
    *("https://10.0.0.1/", "https://192.168.1.1/", "https://100.64.0.1/", "https://0.0.0.0/", "https://198.18.0.1/"),
    # IPv6
    *("https://[::1]/", "https://[::]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fd00::1]/"),
    *(
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
    ),
    *("https://[::127.0.0.1]/", "https://[0:0:0:0:0:0:0:1]/", "https://[2001:0:7f00:1::]/", "https://[fec0::1]/"),
    *("https://[2a00:1450::5efe:7f00:1]/", "https://[64:ff9b:1::a9fe:a9fe]/", "https://::1/", "https://[::1/"),
    *("https://[example.com]/", "https://[]/", "https://[127.0.0.1]/", "https://[2606::1]x/", "https://[v1.x]/"),
    # names that mean inside
    *("https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://a.localhost/", "https://127.0.0.1./"),
    *("https://localhost.localdomain/", "https://printer.local/", "https://metadata.google.internal/", "https://db/"),
    *("https://router.home.arpa/", "https://wiki.intranet/", "https://nas.lan/"),
    # another scheme or port
    *(
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
    ),
    *("https://example.com:8443/", "https://example.com:80/", "https://example.com:0/", "https://example.com:65536/"),
    *("https://example.com:/", "https://example.com:443x/", "https://example.com:-1/", "//example.com/", "example.com"),
    # what is read one way here and another way there
    *("https://user@example.com/", "https://user:password@example.com/", "https://example.com@127.0.0.1/"),
    *("https://example.com#@127.0.0.1/", "https://example.com/#part", "https://example.com\\@127.0.0.1/"),
    *("https:\\\\example.com/", "https:/example.com/", "https:example.com", "https:///example.com/", "https://"),
    *("https://exam ple.com/", "https://example.com/a b", "https://example.com/\r\nX-A: b", "https://example.com/\x00"),
    *(" https://example.com/", "https://example.com/ ", "https://example.com\t/", "\nhttps://example.com/"),
    *(
        "https://127\u30020\u30020\u30021/",
        "https://127\uff0e0\uff0e0\uff0e1/",
        "https://127\uff610\uff610\uff611/",
        "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "https://\uff11\uff12\uff17.0.0.1/",
    ),
    *("https://münchen.example/", "https://example.com/ü", "https://%31%32%37.0.0.1/", "https://loc%61lhost/"),
    *(
        "https://example..com/",
        "https://.example.com/",
        "https://example.com./",
        "https://example.com../",
        "https://./",
    ),
    *("https://-example.com/", "https://example-.com/", f"https://{'a' * 64}.com/", f"https://{'a.' * 130}com/"),
    *("https://exa$mple.com/", "https://example.com,127.0.0.1/", "https://example.com;127.0.0.1/", "https://*.com/"),
    *("https://example.com/%", "https://example.com/%zz", "https://example.com/a\\b", "https://example.com/<x>"),
    "",
    f"https://example.com/{'a' * LONGEST_WEBHOOK_URL}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_a_reason(text: str) -> None:
    with pytest.raises(WebhookUrlRefused) as refused:
        read_webhook_url(text)
    assert len(str(refused.value)) > 10


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://Example.COM:443/Hooks?a=b&c=%20d", "https://example.com/Hooks?a=b&c=%20d"),
        ("https://xn--mnchen-3ya.example/a/b", "https://xn--mnchen-3ya.example/a/b"),
        ("https://example.com?x=1", "https://example.com/?x=1"),
        ("https://1.2.3.4/x", "https://1.2.3.4/x"),
        ("https://[2606:4700:0::1111]/x", "https://[2606:4700::1111]/x"),
        ("https://a-b.example.com/~me/(1)/@x;y=z", "https://a-b.example.com/~me/(1)/@x;y=z"),
    ],
)
def test_a_url_is_normalized(text: str, url: str) -> None:
    target = read_webhook_url(text)
    assert target.url == url
    assert read_webhook_url(target.url) == target
    assert target.ordinary


def test_the_origin_is_the_lane() -> None:
    assert read_webhook_url("https://Example.com/a").origin == read_webhook_url("https://example.com:443/b?c").origin
    assert read_webhook_url("http://127.0.0.1:8000/a", HOME).origin == "http://127.0.0.1:8000"
    assert read_webhook_url("https://[2606:4700::1111]/x").origin == "https://[2606:4700::1111]"


@pytest.mark.parametrize(
    "text",
    [
        *("http://127.0.0.1:9000/hook", "http://[::1]:9000/", "https://10.1.2.3/", "http://10.1.2.3/"),
        *("http://receiver:9000/", "http://localhost/", "https://my_service.internal:8443/x"),
    ],
)
def test_allowed_ranges_may_use_http_and_any_port(text: str) -> None:
    assert read_webhook_url(text, HOME).url == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://10.2.0.1/",
            "http://8.8.8.8/",
            "https://8.8.8.8:8443/",
            "https://169.254.169.254/",
            "ftp://127.0.0.1/",
        ),
        *("https://0.0.0.0/", "http://0x7f.1/", "http://127.1/", "http://localhost./", "http://a@127.0.0.1/"),
    ],
)
def test_other_ranges_may_not(text: str) -> None:
    with pytest.raises(WebhookUrlRefused):
        read_webhook_url(text, HOME)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("https://jobs.example.com/x", "https://jobs.example.com"),
        ("https://JOBS.example.com/x", "http://jobs.example.com/prefix"),
        ("http://127.0.0.1:8080/analyze", "http://127.0.0.1:8080"),
    ],
)
def test_this_server_does_not_call_itself(text: str, own: str) -> None:
    with pytest.raises(WebhookUrlRefused, match="own"):
        read_webhook_url(text, HOME, own=own)
    assert read_webhook_url("https://other.example.com/x", HOME, own=own).scheme == "https"


def test_another_port_of_this_host_is_another_server() -> None:
    assert read_webhook_url("http://127.0.0.1:9000/", HOME, own="http://127.0.0.1:8080").scheme == "http"
    assert read_webhook_url("https://example.com/", own="https://größe.example").scheme == "https"
