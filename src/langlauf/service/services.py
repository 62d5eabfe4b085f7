"""All use cases together, for the API, the pages and Python callers."""

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.auth.credentials import JobTokens
from langlauf.auth.keyring import Authenticator, KeyService
from langlauf.auth.sessions import Sessions
from langlauf.service.control import Control, Holds
from langlauf.service.follow import Followers
from langlauf.service.notifications import Inbox, MailReceivers
from langlauf.service.overview import MetricsSnapshot, Overviews
from langlauf.service.provenance import Provenances
from langlauf.service.read import Reads
from langlauf.service.request_limits import ResponseMemory
from langlauf.service.schedules import ScheduleService
from langlauf.service.start_times import Pauses
from langlauf.service.submit import SubmitService
from langlauf.service.webhooks import WebhookService


class Services(msgspec.Struct, frozen=True):
    """All use cases of one application."""

    registry: Registry
    submissions: SubmitService
    control: Control
    reads: Reads
    followers: Followers
    authenticator: Authenticator
    keys: KeyService
    tokens: JobTokens
    sessions: Sessions
    inbox: Inbox
    overviews: Overviews
    metrics: MetricsSnapshot
    holds: Holds
    webhooks: WebhookService
    schedules: ScheduleService
    response_memory: ResponseMemory
    mail_receivers: MailReceivers
    pauses: Pauses
    provenances: Provenances
