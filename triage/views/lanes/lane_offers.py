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
from scoring.models.serving import LABEL
from scoring.pipeline.lane_history import LaneHistory
from scoring.pipeline.lane_thresholds import OFFERS
from scoring.queries import read
from scoring.queries.read import LanePast, WatchedRepository
from scoring.training.summary import read_backtest
from triage.access.permissions import Role, Roles
from triage.charts import reports
from triage.context import present
from triage.models import EstimatedLane
from triage.presenters import lane as lane_words
from triage.presenters.lane import Advice, State
from triage.presenters.lane_heads import lane_states
from triage.services import estimated_lanes
from triage.services.repository_settings import newest


@dataclass(frozen=True, slots=True)
class Offered:
    """An offer in words, with our advice and the address of the page that accepts it.

    `where` names the repository where there are several.
    """

    said: str
    address: str
    advice: Advice
    where: str = ""

    @property
    def is_advised(self) -> bool:
        return self.advice.action == "open it"


MOST_JUDGED = 10  # repositories of one viewer whose rows are read for an advice
_watched = PerSnapshot[LaneHistory]()
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
    """Return the queue's offer to this viewer: for `repository`, or for their first one that we advise to open.

    Without such, for their first one in shadow mode; None where there is none.
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
    found, doubted = list[Offered](), bool(candidates) and hardly_tells()
    for candidate in candidates:
        if bases.get(candidate.key) in ("certified", "by_hand"):
            continue
        budget = candidate.settings.budget or policy_from_settings().thresholds.budget
        if offer := _offers.get(snapshot, budget, lambda budget=budget: _present_offer(snapshot, budget)):
            advice = lane_words.watching_advice(watched_lane(snapshot, candidate), budget, doubted)
            where = visible_name(candidate.name) if len(watched) > 1 else ""
            found.append(Offered(lane_words.notice_words(offer, budget), lane_address(candidate.key), advice, where))
            if found[-1].is_advised:
                return found[-1]
        if len(found) == MOST_JUDGED:
            break
    return found[0] if found else None


def watched_lane(snapshot: Snapshot, repository: WatchedRepository) -> LaneHistory:
    """Return `read.watched_lane`, computed once for each snapshot and repository."""
    return _watched.get(snapshot, repository.key, lambda: read.watched_lane(snapshot, repository, present(snapshot)))


def hardly_tells() -> bool:
    """Return whether the newest backtest found the chances to order outsiders' pull requests no better than luck."""
    past = reports.backtest_of(read_backtest(settings.LOG_DIR), LABEL)
    return past is not None and reports.is_without_order(past)


def shadow_offer(snapshot: Snapshot, repository: WatchedRepository) -> Offered | None:
    """Return the shadow report's offer where we advise to open the lane; else None."""
    past = past_of(snapshot, repository.key)
    is_watching = past is not None and state_of(past, standing(repository.key)) == "watching"
    if past is None or past.offer is None or not is_watching or not may_be_opened():
        return None
    advice = lane_words.watching_advice(watched_lane(snapshot, repository), past.budget, hardly_tells())
    offer = Offered(lane_words.opening_words(past.offer), lane_address(repository.key), advice)
    return offer if offer.is_advised else None


def lane_address(key: str) -> str:
    """Return the address of one repository's lane page."""
    return f"{reverse('lane')}?{urlencode({'repository': key})}"


def _present_offer(snapshot: Snapshot, budget: float) -> Offer | None:
    policy = policy_from_settings()
    return OFFERS.read(snapshot, policy, str(is_served(policy.models)), [budget], present(snapshot))[budget]
