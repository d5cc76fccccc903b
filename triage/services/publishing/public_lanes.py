"""The pull requests that may be told publicly now, and what of them: for records and for labels alike.

The store knows what repositories publish and who wishes not to be judged in public; what people said on a page within
the last seconds stands only in the accounts' database, so it is asked as well.
"""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings

from ingest.store.transaction import Rows
from scoring.config.repository import Publish
from scoring.queries import read
from scoring.queries.read import PublicLane
from triage.models import LeaderboardWish, Objection


def public_lanes(rows: Rows, now: datetime) -> tuple[PublicLane, ...]:
    """Return what may be told at this moment (naive UTC), sorted by at-uri.

    A pull request that is missing may not be told, or not any more: then take back what was told of it.
    """
    lanes = read.public_lanes(rows, settings.MODEL_DIR / read.CERTIFICATES, now)
    return tuple(_allowed(lanes)) if lanes else ()


def published_mode(rows: Rows) -> Publish:
    """Return the most that any watched repository tells to everybody."""
    return read.publishes(rows)


def _allowed(lanes: Iterable[PublicLane]) -> Iterable[PublicLane]:
    silent = set(LeaderboardWish.objects.filter(left_out=True).values_list("did", flat=True))
    objected = set(Objection.objects.values_list("did", "pull_uri", "repo_key", "source"))
    pulls = {uri for _, uri, _, _ in objected if uri}
    everywhere = {did for did, uri, _, source in objected if not uri and source != Objection.Source.MAINTAINER}
    in_one = {(did, key) for did, uri, key, source in objected if not uri and source == Objection.Source.MAINTAINER}
    for lane in lanes:
        if lane.author in silent or lane.author in everywhere or lane.uri in pulls:
            continue
        if (lane.author, lane.repository) not in in_one:
            yield lane
