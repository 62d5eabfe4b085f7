"""What every store promises about keys and signatures."""

import asyncio

import pytest
from msgspec.structs import replace

from langlauf.clock import new_id
from langlauf.domain.access import DEFAULT_SCOPES, ApiKey, HashedKey, Scope, hash_key
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import after
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import START, SetClock
from tests.support.submissions import new_job


def _hashed(key_id: str = "llk_aaaaaaaaaaaa", org_id: str = "org-a", **fields: object) -> HashedKey:
    values = {"name": "ci", "scopes": DEFAULT_SCOPES, "created_at": 0, **fields}
    return HashedKey(ApiKey(key_id=key_id, org_id=org_id, **values), hash_key(key_id.encode()))  # type: ignore[arg-type]


def test_a_key_is_kept_as_it_was_made(harness: Harness) -> None:
    """With the store's time, and its hash for whoever compares; a list does not have the hash."""

    async def body(store: Store, _: SetClock) -> None:
        wish = _hashed(scopes=frozenset({Scope.ADMIN, Scope.READ}), expires_at=START + 5)
        made = await store.access.create_key(wish)
        assert made == ApiKey(
            key_id="llk_aaaaaaaaaaaa",
            org_id="org-a",
            name="ci",
            scopes=frozenset({Scope.ADMIN, Scope.READ}),
            created_at=START,
            expires_at=START + 5,
        )
        assert await store.access.keys("org-a") == [made]
        changes = await store.access.key_changes(0)
        assert [(one.key, one.secret_hash) for one in changes.changed] == [(made, wish.secret_hash)]

    harness.run(body)


def test_a_taken_id_makes_nothing(harness: Harness) -> None:
    """The first key stays what it is, whoever comes with the same id."""

    async def body(store: Store, _: SetClock) -> None:
        first = await store.access.create_key(_hashed())
        assert await store.access.create_key(_hashed(org_id="org-b")) is None
        assert await store.access.keys(None) == [first]
        assert (await store.access.key_changes(0)).version == 1

    harness.run(body)


def test_keys_are_listed_by_org_and_age(harness: Harness) -> None:
    """An org's own, oldest first, or those of all."""

    async def body(store: Store, clock: SetClock) -> None:
        for key_id, org_id in (("llk_b", "org-a"), ("llk_a", "org-b"), ("llk_c", "org-a")):
            await store.access.create_key(_hashed(key_id, org_id))
            clock.pass_(1)
        assert [key.key_id for key in await store.access.keys("org-a")] == ["llk_b", "llk_c"]
        assert [key.key_id for key in await store.access.keys(None)] == ["llk_b", "llk_c", "llk_a"]
        assert await store.access.keys("org-c") == []

    harness.run(body)


def test_a_key_is_revoked_once_and_for_good(harness: Harness) -> None:
    """The first time counts; another org's admin cannot; an unknown one is None."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.access.create_key(_hashed())
        assert await store.access.revoke_key("llk_aaaaaaaaaaaa", org_id="org-b") is None
        [untouched] = await store.access.keys(None)
        assert untouched.revoked_at is None
        first = await store.access.revoke_key("llk_aaaaaaaaaaaa", org_id="org-a")
        assert first is not None
        assert first.revoked_at == START
        clock.pass_(10)
        assert await store.access.revoke_key("llk_aaaaaaaaaaaa", org_id=None) == first
        assert await store.access.revoke_key("llk_unknown", org_id=None) is None

    harness.run(body)


def test_changes_are_told_past_a_version(harness: Harness) -> None:
    """Whoever knows a version learns what came later and nothing else; a use is no change."""

    async def body(store: Store, _: SetClock) -> None:
        assert (await store.access.key_changes(0)).version == 0
        await store.access.create_key(_hashed("llk_a"))
        await store.access.create_key(_hashed("llk_b"))
        known = await store.access.key_changes(0)
        assert [one.key.key_id for one in known.changed] == ["llk_a", "llk_b"]
        await store.access.note_key_uses({"llk_a": START + 1})
        assert await store.access.key_changes(known.version) == type(known)(known.version, [])
        await store.access.revoke_key("llk_a", org_id=None)
        later = await store.access.key_changes(known.version)
        assert [(one.key.key_id, one.key.revoked_at) for one in later.changed] == [("llk_a", START)]
        assert later.version > known.version
        await store.access.revoke_key("llk_a", org_id=None)
        assert (await store.access.key_changes(later.version)).changed == []

    harness.run(body)


def test_the_newest_use_is_remembered(harness: Harness) -> None:
    """Servers may write in any order; unknown keys are no error."""

    async def body(store: Store, _: SetClock) -> None:
        await store.access.create_key(_hashed("llk_a"))
        await store.access.create_key(_hashed("llk_b"))
        await store.access.note_key_uses({"llk_a": START + 7, "llk_unknown": START})
        await store.access.note_key_uses({"llk_a": START + 5, "llk_b": START + 6})
        assert [key.last_used_at for key in await store.access.keys(None)] == [START + 7, START + 6]

    harness.run(body)


def test_one_secret_for_all(harness: Harness) -> None:
    """Whoever asks gets the same, also where two ask first at once; another purpose has another."""

    async def body(store: Store, _: SetClock) -> None:
        first, second = await asyncio.gather(*(store.access.signing_secret("tokens") for _ in range(2)))
        assert first == second == await store.access.signing_secret("tokens")
        assert len(first) >= 32
        assert await store.access.signing_secret("sessions") != first

    harness.run(body)


def test_ends_of_sessions_are_numbered_and_kept_until_they_would_have_come(harness: Harness) -> None:
    """Each once, in their order; those that are over are forgotten, and no number is given twice."""

    async def body(store: Store, clock: SetClock) -> None:
        assert await store.access.session_ends(0) == []
        await asyncio.gather(*(store.access.end_session(f"s{number}", after(START, 60)) for number in range(5)))
        await store.access.end_session("s0", after(START, 90))
        known = await store.access.session_ends(0)
        assert [one.number for one in known] == [1, 2, 3, 4, 5]
        assert {(one.session_id, one.expires_at) for one in known} == {(f"s{n}", after(START, 60)) for n in range(5)}
        assert await store.access.session_ends(3) == known[3:]
        clock.time = after(START, 61)
        await store.access.end_session("later", after(START, 120))
        clock.time = after(START, 200)
        await store.access.end_session("last", after(START, 300))
        left = await store.access.session_ends(5)
        assert [(one.session_id, one.number) for one in left] == [("later", 6), ("last", 7)]
        assert await store.access.session_ends(0) == left

    harness.run(body)


def test_an_owner_is_found_by_the_id_alone(harness: Harness) -> None:
    """Over all orgs; None where there is nothing, and where an id alone does not say which."""

    async def body(store: Store, clock: SetClock) -> None:
        ours, theirs = new_job(clock, org="org-a"), new_job(clock, org="org-b")
        await store.submit(ours)
        await store.submit(theirs)
        for new in (ours, theirs):
            assert await store.access.find("job", new.job.job_id) == (new.job.org_id, new.job.job_id)
        assert await store.access.find("job", new_id()) is None
        assert await store.access.find("result", new_id()) is None
        again = new_job(clock, org="org-b")
        taken = replace(again, job=replace(again.job, job_id=ours.job.job_id))
        try:
            await store.submit(taken)
        except StoreError:  # a store may refuse an id that is taken
            assert await store.access.find("job", ours.job.job_id) == ("org-a", ours.job.job_id)
            assert await store.tenant("org-b").job(ours.job.job_id) is None
        else:
            assert await store.access.find("job", ours.job.job_id) is None

    harness.run(body)


@pytest.mark.parametrize("scopes", [frozenset({Scope.READ}), frozenset(Scope)])
def test_scopes_come_back_as_they_went(harness: Harness, scopes: frozenset[Scope]) -> None:
    """One, or all that there are."""

    async def body(store: Store, _: SetClock) -> None:
        made = await store.access.create_key(_hashed(scopes=scopes))
        assert made is not None
        assert made.scopes == scopes

    harness.run(body)


def test_a_key_that_lives_for_a_while(harness: Harness) -> None:
    """It opens until its end, and not at it; a revoked one never."""

    async def body(store: Store, _: SetClock) -> None:
        made = await store.access.create_key(_hashed(expires_at=after(START, 10)))
        assert made is not None
        assert made.live(after(START, 9.9))
        assert not made.live(after(START, 10))
        revoked = await store.access.revoke_key(made.key_id, org_id=None)
        assert revoked is not None
        assert not revoked.live(START)

    harness.run(body)


def test_a_hash_that_is_none_is_refused(harness: Harness) -> None:
    """The database repeats what a key must have."""

    async def body(store: Store, _: SetClock) -> None:
        with pytest.raises(StoreError):
            await store.access.create_key(HashedKey(_hashed().key, "secret in the clear"))
        assert await store.access.keys(None) == []

    harness.run(body)
