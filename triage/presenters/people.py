"""People as one viewer is shown them: without the chance of those whose audit the viewer still has to answer.

An answer given by somebody who knows the chance follows it, so it would measure nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import ContributorPage, ContributorScore, DueAudit, Leaderboard, LeaderboardSort
from triage.access.requests import Request
from triage.access.sign_in import viewer_did, viewing
from triage.presenters.lists import audits_drawn, audits_due


def hiding_audits(request: Request, snapshot: Snapshot, dids: Collection[str] | None = None) -> dict[str, DueAudit]:
    """Return of these people (None: of all) whose chance is hidden from this viewer, and by which audit.

    Programs ask for scores far more often than the audit draws, so the viewer's roles are read only where it did.
    """
    if not any(dids is None or one.author.did in dids for one in audits_drawn(snapshot)):
        return {}
    found = [one for one in audits_due(snapshot, viewing(request)) if dids is None or one.author.did in dids]
    labels = read.labels(snapshot, [one.uri for one in found])
    return {one.author.did: DueAudit(one.uri, labels[one.uri]) for one in reversed(found) if one.uri in labels}


def contributor(request: Request, snapshot: Snapshot, did: str) -> ContributorPage | None:
    """`read.contributor` for this viewer."""
    page = read.contributor(snapshot, did, viewer_did(request))
    audit = hiding_audits(request, snapshot, (did,)).get(did)
    return read.hide_chance(page, audit) if page and audit else page


def scores(
    snapshot: Snapshot, dids: Sequence[str], hidden: Mapping[str, DueAudit], repository: str | None = None
) -> dict[str, ContributorScore]:
    """`read.scores` for a viewer from whom these are `hidden`."""
    found = read.scores(snapshot, dids, repository)
    return {did: read.hide_score(one, hidden[did]) if did in hidden else one for did, one in found.items()}


def score_at(
    snapshot: Snapshot, did: str, moment: datetime, hidden: Mapping[str, DueAudit], repository: str | None = None
) -> ContributorScore | None:
    """`read.score_at` likewise."""
    found = read.score_at(snapshot, did, moment, repository)
    return read.hide_score(found, hidden[did]) if found and did in hidden else found


def leaderboard(
    request: Request, snapshot: Snapshot, sort: LeaderboardSort, descending: bool, page: int
) -> Leaderboard:
    """`read.leaderboard` for this viewer."""
    return read.leaderboard(snapshot, sort, descending, page, hiding_audits(request, snapshot))
