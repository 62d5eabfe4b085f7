"""Names of blobs: no id leads elsewhere, and no two ids are taken for one another."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from langlauf.store.blobs.files import _WORD
from langlauf.store.blobs.protocol import (
    BlobKey,
    escape_segment,
    read_key,
    read_ref,
    ref_of,
    store_name,
    unescape_segment,
)

DIGEST = "0" * 64
#: What an org may be called, and what an imported job may be.
ORGS = st.from_regex(re.compile(r"[A-Za-z0-9_.:-]{1,128}"), fullmatch=True)
JOBS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=200)
HOSTILE = ("..", ".", "a/../b", "/", "//", "\\", "C:", "-rf", "=me", "a\nb", "%2e%2e", "~", "Ä", " ", "con", "*")


@given(JOBS | ORGS | st.sampled_from(HOSTILE))
def test_an_id_is_one_harmless_word_and_comes_back(text: str) -> None:
    """One word that every file system and object store takes, from which the id can be read again."""
    word = escape_segment(text)
    assert _WORD.fullmatch(word)
    assert word == word.lower()
    assert unescape_segment(word) == text


@given(ORGS, ORGS)
@example("acme", "ACME")
@example("a.b", "a:b")
@example("=me", "me")
def test_no_two_orgs_share_a_folder(one: str, other: str) -> None:
    """Also where upper and lower case are the same."""
    assert (escape_segment(one).lower() == escape_segment(other).lower()) == (one == other)


@given(ORGS)
def test_every_org_and_every_id_of_ours_can_be_named(org: str) -> None:
    """However long the name of the org may be."""
    assert BlobKey("store", org, "018f0000-0000-7000-8000-000000000000", DIGEST).nameable


def test_an_endless_id_cannot_be_named() -> None:
    """An imported job may have one; its payloads then stay in the store."""
    assert not BlobKey("store", "acme", "x" * 300, DIGEST).nameable


@given(ORGS, JOBS)
def test_a_key_leads_back_to_its_place(org: str, job: str) -> None:
    """So that a listing can be compared with the store."""
    place = BlobKey("store", org, job, DIGEST)
    assert read_key(place.key) == place
    assert len(place.key.split("/")) == 4


@given(st.text() | st.lists(JOBS, min_size=4, max_size=4).map("/".join))
@example("store/acme/job")
@example("store/ACME/job/" + DIGEST)
@example("store/=acme/job/" + DIGEST)
@example(f"store/=\x80/job/{DIGEST}")
@example("store/acme/job/readme.txt")
@example("lost+found")
@example(f"store/acme/job/{DIGEST}-kept")
def test_what_is_no_key_of_ours_is_left_alone(text: str) -> None:
    """A place is only read from a key that it would give itself."""
    place = read_key(text)
    assert place is None or (place.key == text and len(place.name) in {64, 64 + 37})


@given(st.binary(min_size=1), st.binary(min_size=1))
def test_a_reference_fits_its_bytes_alone(data: bytes, other: bytes) -> None:
    """It is text that says nothing of where they are."""
    ref = ref_of(data)
    assert read_ref(str(ref)) == ref
    assert re.fullmatch(r"blob:sha256:[0-9a-f]{64}:[0-9]+", str(ref))
    assert ref.fits(other) == (data == other)


def test_other_references_are_not_ours() -> None:
    """What another program wrote is not guessed at."""
    digest = ref_of(b"1").digest
    for text in ("inline:", f"blob:sha256:{digest}", f"blob:md5:{digest}:1", f"blob:sha256:{digest.upper()}:1", ""):
        assert read_ref(text) is None


def test_stores_have_folders_of_their_own() -> None:
    """From which nobody can tell the secret."""
    names = {store_name(bytes([number]) * 32) for number in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)
