"""Secrets are masked in every spelling that is listed, harmless texts stay as they are, and no text takes for ever."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from langlauf.domain.redact import MASK, clean_tail, clean_text, is_secret_name, redact, redact_json

_TEXTS = Path(__file__).parent / "secrets"
_MARKED = re.compile("«[^»]*»")


def _listed(name: str) -> Iterator[tuple[str, str]]:
    """The texts of a file, each with its kind."""
    kind = ""
    for line in (_TEXTS / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            kind = line[3:]
        elif line and not line.startswith("#"):
            yield kind, line.replace(r"\\n", "\0").replace(r"\n", "\n").replace("\0", r"\n")


SECRETS = list(_listed("secret_texts.txt"))
HARMLESS = list(_listed("harmless_texts.txt"))


def test_the_lists_are_long_enough_to_mean_something() -> None:
    """Many spellings of many kinds, and as many texts that only look like them."""
    assert len({text for _, text in SECRETS}) == len(SECRETS) >= 200
    assert len({text for _, text in HARMLESS}) == len(HARMLESS) >= 200
    assert len({kind for kind, _ in SECRETS}) >= 25


def test_every_listed_secret_is_masked_and_nothing_around_it() -> None:
    """Each text comes out with a mask in the place of each secret; masking it once more changes nothing."""
    wrong = []
    for kind, marked in SECRETS:
        text, expected = marked.replace("«", "").replace("»", ""), _MARKED.sub(MASK, marked)
        if redact(text) != expected or redact(expected) != expected:
            wrong.append((kind, expected, redact(text)))
    assert wrong == []


def test_no_harmless_text_changes() -> None:
    """What only speaks of secrets, counts them or is spelt like them can still be read."""
    assert [(kind, text, redact(text)) for kind, text in HARMLESS if redact(text) != text] == []


@pytest.mark.parametrize("before", ["", "Fehler beim Lesen: ", "x" * 300 + " ", "İ ", "(", "\n\n"])
@pytest.mark.parametrize("after", ["", " (attempt 2)", "\nsecond line", " " + "y" * 300])
def test_secrets_are_masked_at_any_position(before: str, after: str) -> None:
    """The text around a secret does not hide it."""
    for secret in ("password='a b c'", "redis://:pw@host", "token=a1b2c3d4", "sk-MadeUp0MadeUp0MadeUp0"):
        assert redact(before + secret + after) == before + redact(secret) + after


#: Pieces that begin something and never end it, or that look like something again and again.
HOSTILE = [
    "a", "'", '\\"', "[", "{token:[", "@", "a:b@", "a@b:c@", "://", "a://a:", "password", "password=", "password='",
    "password=\\'", "password: must ", "password for ", "<password>", "token: <", "token: [", "tokens: 1 ",
    "tokens: 'a ", "tokens: (", "token is ", "unexpected token ", "secret", "auth:", "auth: digest ",
    "authorization: ", 'authorization: digest "', "sid='a", "sid=aaaa,", "cookie: ", "cookies: a=b ", "session_id=",
    "mnemonic: ", "basic ", "bearer ", "&key=", "?code=a", " -u a:", "mysql ", "sk-", "-eyJ", "eyJaaaaaaaa.", "$1$",
    " 123456789:AA", "a:5432:", "identified by '", "-----BEGIN PRIVATE KEY-----", "hooks.slack.com/services/",
    "Private-Lines: 1\nputty-user-key-file ",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_done_in_linear_time(piece: str) -> None:
    """Nothing is looked at again and again: what is done for a text is done for one of twice its length, too."""
    assert len(redact(piece * (16_384 // len(piece)))) > 0


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_mebibyte_is_done(piece: str) -> None:
    """Quadratic work on a text of this length would take the suite past its limit."""
    assert len(redact(piece * (1_048_576 // len(piece)))) > 0


@pytest.mark.parametrize("longest", range(60, 110))
def test_a_long_text_is_masked_before_it_is_cut(longest: int) -> None:
    """Wherever the cut falls, no part of a secret is left, and what is left is not taken for one."""
    text = "refused the header Authorization: Bearer MadeUp0MadeUp0MadeUp0, then password='a b c d e f' " * 9
    for shown in (clean_text(text, longest), clean_tail(text, longest)):
        assert len(shown) <= longest
        assert not re.search("Made|b c|d e", shown)
    assert redact(clean_text(text, longest)) == clean_text(text, longest)


def test_masks_that_shorten_a_text_show_nothing_of_what_follows() -> None:
    """The text that moves up behind long secrets was looked at, too."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "bWFkZXVw\n" * 200 + "-----END PRIVATE KEY-----"
    assert clean_text(f"{key} {key} password='a b c'", 200) == f"{MASK} {MASK} password='{MASK}'"


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "dbPassword",
        "DB_PASS",
        "api_key",
        "X-Api-Key",
        "accessToken",
        "client_secret",
        "Cookie",
        "passphrase",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    """Whatever stands under such a name is hidden."""
    assert is_secret_name(name)
    assert redact_json({name: "some words"}) == {name: MASK}


@pytest.mark.parametrize(
    "name",
    [
        "query",
        "key",
        "keyword",
        "secretary",
        "token_count",
        "tokenizer",
        "passenger",
        "author",
        "primary_key",
        "code",
        "step",
    ],
)
def test_other_names_are_left_alone(name: str) -> None:
    """A name that only begins like one is none."""
    assert not is_secret_name(name)
    assert redact_json({name: "some words"}) == {name: "some words"}
