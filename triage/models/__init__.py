"""What the web process remembers: accounts, what people did here, and what the worker has yet to be told."""

from triage.models.accounts import ApiToken, Maintainer, Person, SignInMethod
from triage.models.actions import Action, Lease, ReadingTime, Snooze
from triage.models.changes import Change
from triage.models.incidents import AuditAnswer, EstimatedLane, HandledIncident, LaneClosure
from triage.models.outbox import DeliveryRun, OutboxEntry
from triage.models.repositories import RepositoryChoice
from triage.models.rights import ContributorLink, LeaderboardWish, Objection
from triage.models.webhooks import ToldState, WebhookDelivery

__all__ = [
    "Action",
    "ApiToken",
    "AuditAnswer",
    "Change",
    "ContributorLink",
    "DeliveryRun",
    "EstimatedLane",
    "HandledIncident",
    "LaneClosure",
    "LeaderboardWish",
    "Lease",
    "Maintainer",
    "Objection",
    "OutboxEntry",
    "Person",
    "ReadingTime",
    "RepositoryChoice",
    "SignInMethod",
    "Snooze",
    "ToldState",
    "WebhookDelivery",
]
