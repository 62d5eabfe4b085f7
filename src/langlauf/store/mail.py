"""What every store promises about receivers of e-mail. What an org knows of them is read through `TenantReads`."""

from typing import Protocol

from langlauf.domain.mail_rules import MailAdmission, Mark, Refusal


class MailStore(Protocol):
    """Who may be written to, and how often. Each verb is one atomic change."""

    async def add_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        """Marks an address for an org; False where it is marked so already."""

    async def remove_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        """Takes a mark away; False where there is none."""

    async def admit(self, wish: MailAdmission) -> Refusal | None:
        """Lets a mail out and counts it, or tells why not. The same attempt is counted once, however often it asks."""
