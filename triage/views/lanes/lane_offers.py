"""Offers to open a lane on an estimate; every page shows the same figures until they change."""

from dataclasses import asdict, dataclass, fields
from hashlib import blake2s

from django.conf import settings
from django.urls import reverse
from django.utils.http import urlencode

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.certificates.lane_counts import Offer
from scoring.certificates.lane_curve import is_served
from scoring.config.policy import policy_from_settings
from scoring.formatting import visible_name
from scoring.pipeline.lane_history import ENOUGH
from scoring.pipeline.lane_thresholds import OFFERS
from scoring.queries import read
from scoring.queries.read import LanePast, WatchedRepository
from triage.access.permissions import Role, Roles
from triage.context import present
from triage.models import EstimatedLane
from triage.presenters import lane as lane_words
from triage.presenters.lane import State
from triage.presenters.lane_heads import lane_states
from triage.services import estimated_lanes
from triage.services.repository_settings import newest


@dataclass(frozen=True, slots=True)
class Offered:
    """An offer in words, with the address of the page that accepts it.

    `settled` counts settled rows of the shadow report; `where` names the repository where there are several.
    """

    said: str
    address: str
    settled: int = 0
    where: str = ""


_pasts = PerSnapshot[LanePast | None]()
_offers = PerSnapshot[Offer | None]()


def past_of(snapshot: Snapshot, key: str) -> LanePast | None:
    """Return `read.lane_past`, computed once for each snapshot and repository."""
    return _pasts.get(snapshot, key, lambda: read.lane_past(snapshot, key, policy_from_settings(), present(snapshot)))


def offer_token(past: LanePast) -> str:
    """Return a digest of a form's figures, "" without an offer: it differs once they change."""
    if past.offer is None:
        return ""
    return blake2s(repr((past.repository.key, asdict(past.offer))).encode(), digest_size=16).hexdigest()


def standing(key: str) -> EstimatedLane | None:
    """Return the opening in force in a repository; None without one."""
    return next((opening for opening in estimated_lanes.standing_openings() if opening.repo_key == key), None)


def figures_of(opening: EstimatedLane) -> Offer:
    """Return the figures on which a lane was opened."""
    return Offer(**{field.name: getattr(opening, field.name) for field in fields(Offer)})


def state_of(past: LanePast, opening: EstimatedLane | None) -> State:
    """Return the state of the lane; an opening or end that the snapshot does not hold yet already counts."""
    if past.basis == "certified":
        return "certified"
    if opening is not None:
        return "shut_itself" if past.shut_itself and past.opening == opening.key else "open"
    if past.basis == "by_hand":
        return "by_hand"
    return "watching" if past.offer is not None else "nothing"


def may_be_opened() -> bool:
    """Return whether the operator allows lanes without a certificate."""
    return "certificate" not in settings.LANE_CONDITIONS


def offered(snapshot: Snapshot, roles: Roles, repository: str) -> Offered | None:
    """Return the queue's offer to this viewer: for `repository`, or their first one in shadow mode; else None.

    It names that one and counts their others with an offer.
    """
    watched = read.watched_repositories(snapshot) if may_be_opened() else ()
    candidates = [
        candidate
        for candidate in watched
        if repository in ("", candidate.key)
        and roles.role(candidate.key) >= Role.MAINTAINER
        and newest(candidate).shadow
    ]
    bases = {state.repository: state.basis for state in lane_states(snapshot)} if candidates else {}
    found = []
    for candidate in candidates:
        if bases.get(candidate.key) in ("certified", "by_hand"):
            continue
        budget = candidate.settings.budget or policy_from_settings().thresholds.budget
        if offer := _offers.get(snapshot, budget, lambda budget=budget: _present_offer(snapshot, budget)):
            found.append((candidate, offer, budget))
    if not found:
        return None
    candidate, offer, budget = found[0]
    more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
    where = visible_name(candidate.name) + more if len(watched) > 1 else ""
    return Offered(lane_words.notice_words(offer, budget), lane_address(candidate.key), where=where)


def shadow_offer(snapshot: Snapshot, repository: WatchedRepository) -> Offered | None:
    """Return the shadow report's offer; None until ENOUGH of its rows are settled, and where nothing can be offered."""
    past = past_of(snapshot, repository.key)
    is_watching = past is not None and state_of(past, standing(repository.key)) == "watching"
    if past is None or past.offer is None or not is_watching or not may_be_opened():
        return None
    settled = read.watched_lane(snapshot, past, present(snapshot)).settled
    if settled < ENOUGH:
        return None
    return Offered(lane_words.opening_words(past.offer), lane_address(repository.key), settled)


def lane_address(key: str) -> str:
    """Return the address of one repository's lane page."""
    return f"{reverse('lane')}?{urlencode({'repository': key})}"


def _present_offer(snapshot: Snapshot, budget: float) -> Offer | None:
    policy = policy_from_settings()
    return OFFERS.read(snapshot, policy, str(is_served(policy.models)), [budget], present(snapshot))[budget]
