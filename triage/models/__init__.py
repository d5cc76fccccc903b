"""Tables of the web process: accounts, people's actions here, and messages for the worker."""

from triage.models.accounts import (
    ApiToken,
    Change,
    FirstAdminCode,
    Maintainer,
    Person,
    RepositoryChoice,
    RoleRequest,
    SignInMethod,
)
from triage.models.actions import (
    Action,
    AuditAnswer,
    EstimatedLane,
    HandledIncident,
    LaneClosure,
    Lease,
    ReadingTime,
    Snooze,
)
from triage.models.labels import Label
from triage.models.oauth import OAuthRequest, OAuthSession
from triage.models.outbox import Delivery, DeliveryRun, OutboxEntry, ToldState
from triage.models.own_records import OwnRecord
from triage.models.publishing import PublishedRecord, PublishingPoints, ServiceAccount
from triage.models.push import PushChoice, PushSubscription
from triage.models.rights import ContributorLink, LeaderboardWish, Objection

__all__ = [
    "Action",
    "ApiToken",
    "AuditAnswer",
    "Change",
    "ContributorLink",
    "Delivery",
    "DeliveryRun",
    "EstimatedLane",
    "FirstAdminCode",
    "HandledIncident",
    "Label",
    "LaneClosure",
    "LeaderboardWish",
    "Lease",
    "Maintainer",
    "OAuthRequest",
    "OAuthSession",
    "Objection",
    "OutboxEntry",
    "OwnRecord",
    "Person",
    "PublishedRecord",
    "PublishingPoints",
    "PushChoice",
    "PushSubscription",
    "ReadingTime",
    "RepositoryChoice",
    "RoleRequest",
    "ServiceAccount",
    "SignInMethod",
    "Snooze",
    "ToldState",
]
