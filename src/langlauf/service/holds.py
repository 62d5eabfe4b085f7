"""Keeping results from retention, for an org's admins."""

from langlauf.auth.caller import Caller
from langlauf.domain.holding import HoldRequest, ResultGone
from langlauf.domain.instant import Instant
from langlauf.domain.redact import clean_message
from langlauf.domain.views import JobView
from langlauf.store.protocol import Store

OPERATOR = "operator"


class Holds:
    """Holds the results of a job and releases them. Repeating either changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def hold(self, caller: Caller, result_id: str, reason: str | None) -> JobView | ResultGone | None:
        """From now on nothing of the job but its events goes by age; None where the org has no such result."""
        why = None if reason is None else clean_message(reason)
        wish = HoldRequest(org_id=caller.org_id, result_id=result_id, by=_who(caller), reason=why)
        return await self._store.hold(wish)

    async def release(self, caller: Caller, result_id: str) -> JobView | None:
        """The job grows old again, from its end on."""
        done = await self._store.hold(HoldRequest(org_id=caller.org_id, result_id=result_id, held=False))
        return None if isinstance(done, ResultGone) else done

    async def held(self, caller: Caller, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:
        """What the org holds, the last that was held first."""
        return await self._store.tenant(caller.org_id).held(before=before, limit=limit)


def _who(caller: Caller) -> str | None:
    """Whom to ask about it later: the user that the request names, else the key, else the operator."""
    if caller.user_id or caller.api_key_id:
        return caller.user_id or caller.api_key_id
    return OPERATOR if caller.grant is None or caller.grant.guessable else None
