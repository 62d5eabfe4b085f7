"""The text of a key: built once, read back exactly, and found where it must not be."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.auth.credentials import LONGEST, JobTokenClaims, SignedClaims
from langlauf.clock import new_word
from langlauf.domain.access import ID_LENGTH, KEY_ALPHABET, KEY_PREFIX, SECRET_LENGTH, is_key_id, key_id_of, key_text
from langlauf.domain.redact import MASK, redact

words = st.text(KEY_ALPHABET, min_size=SECRET_LENGTH, max_size=SECRET_LENGTH)
ids = st.text(KEY_ALPHABET, min_size=ID_LENGTH, max_size=ID_LENGTH).map(lambda word: KEY_PREFIX + word)
TOKENS = SignedClaims(JobTokenClaims, "llt_", b"a secret")


@given(ids, words)
def test_a_key_names_its_id(key_id: str, secret: str) -> None:
    """The text is one word that a scanner can know, and its id is read back from it."""
    text = key_text(key_id, secret)
    assert key_id_of(text) == key_id
    assert re.fullmatch(r"llk_[0-9A-Za-z]{50}", text)
    assert is_key_id(key_id)
    assert not is_key_id(text)


@given(ids, words, st.integers(0, 53), st.sampled_from(KEY_ALPHABET))
def test_a_typing_error_is_found_by_the_checksum(key_id: str, secret: str, place: int, letter: str) -> None:
    """One letter that is another one, anywhere, is no key; nor is one that is missing or too many."""
    text = key_text(key_id, secret)
    other = text[:place] + letter + text[place + 1 :]
    assert other == text or key_id_of(other) is None
    assert key_id_of(text[:place] + text[place + 1 :]) is None
    assert key_id_of(text[:place] + letter + text[place:]) is None


@given(st.text())
def test_any_other_text_is_no_key(text: str) -> None:
    """Whatever it is, nothing breaks."""
    assert key_id_of(text) is None


def test_a_secret_cannot_be_guessed() -> None:
    """At least 160 bits, drawn anew each time."""
    assert len(KEY_ALPHABET) ** SECRET_LENGTH > 2**160
    assert len({new_word(KEY_ALPHABET, SECRET_LENGTH) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "secret",
    [
        key_text("llk_abcdefghijkl", "a" * SECRET_LENGTH),
        TOKENS.write(JobTokenClaims("llk_abcdefghijkl", "acme", "job", 1)),
    ],
)
def test_keys_are_masked_in_any_text(secret: str) -> None:
    """Also where nothing around them says what they are; the id of a key may be read."""
    assert redact(f"upstream said {secret} is wrong") == f"upstream said {MASK} is wrong"
    assert redact("made llk_abcdefghijkl today") == "made llk_abcdefghijkl today"


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 2**53))
def test_a_statement_comes_back_as_it_went(org: str, job: str, end: int) -> None:
    """Whatever it says; signed with another secret, or read as another kind, it is none."""
    said = JobTokenClaims("llk_x", org, job, end)
    text = TOKENS.write(said)
    assert TOKENS.read(text) == said
    assert SignedClaims(JobTokenClaims, "llt_", b"another").read(text) is None
    assert SignedClaims(JobTokenClaims, "lls_", b"a secret").read(text) is None
    assert SignedClaims(JobTokenClaims, "lls_", b"a secret").read("lls_" + text[4:]) is None


@given(st.text(max_size=2 * LONGEST))
def test_any_other_text_is_no_statement(text: str) -> None:
    """Whatever it is, nothing breaks."""
    assert TOKENS.read(text) is None
