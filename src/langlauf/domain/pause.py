"""A pause of an analysis: nothing of it starts, for all orgs or for one, until it is resumed or its time is over."""

from collections.abc import Iterable

import msgspec

from langlauf.domain.instant import Instant

#: The org of a pause for all orgs; no org has this name.
ALL_ORGS = ""


class PauseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to pause an analysis, or to change the reason and the end of its pause."""

    analysis: str
    org_id: str = ALL_ORGS
    because: str
    paused_until: Instant | None = None
    paused_by: str | None = None


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to end a pause before its time."""

    analysis: str
    org_id: str = ALL_ORGS


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A stored pause. Running jobs go on, and submissions are accepted."""

    org_id: str
    analysis: str
    paused_at: Instant
    #: None: until it is resumed
    paused_until: Instant | None
    because: str
    paused_by: str | None

    def active(self, now: Instant) -> bool:
        """Whether it holds at this instant."""
        return self.paused_until is None or self.paused_until > now

    def covers(self, org_id: str, analysis: str) -> bool:
        """Whether it is about the jobs of this org and analysis."""
        return self.analysis == analysis and self.org_id in (ALL_ORGS, org_id)


def pause_of(pauses: Iterable[Pause], org_id: str, analysis: str, now: Instant) -> Pause | None:
    """Return the pause that keeps the jobs of an org and analysis from starting: of several the one that ends last."""
    held = [one for one in pauses if one.covers(org_id, analysis) and one.active(now)]
    return max(held, key=lambda one: (one.paused_until is None, one.paused_until or 0), default=None)
