"""The use cases together, as HTTP, pages and Python callers get them."""

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.auth.keyring import Access
from langlauf.auth.sessions import Sessions
from langlauf.auth.tokens import JobTokens
from langlauf.service.control import Control, Holds
from langlauf.service.follow import Followers
from langlauf.service.inbox import Inbox
from langlauf.service.keys import Keys
from langlauf.service.mail_receivers import MailReceivers
from langlauf.service.metrics_snapshot import Measures
from langlauf.service.overview import Overviews
from langlauf.service.read import Reads
from langlauf.service.request_limits import Room
from langlauf.service.submit import Submissions
from langlauf.service.webhooks import Endpoints


class Services(msgspec.Struct, frozen=True):
    """Everything a caller may do."""

    registry: Registry
    submissions: Submissions
    control: Control
    reads: Reads
    followers: Followers
    access: Access
    keys: Keys
    tokens: JobTokens
    sessions: Sessions
    inbox: Inbox
    overviews: Overviews
    measures: Measures
    holds: Holds
    webhooks: Endpoints
    room: Room
    mail_receivers: MailReceivers
