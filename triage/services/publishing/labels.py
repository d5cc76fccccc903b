"""Keep the labels equal to the lanes that may be told publicly (`triage/services/publishing/public_lanes.py`).

A label that is not true any more is removed, and its negation goes into the stream before the label that replaces it.
Each new row gets the present as its seq, or a later one than every row has: so a restored backup continues with higher
numbers than anybody was sent. A label cannot say that a lane is only what it would have been, so lanes of repositories
in shadow mode get none.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import count

from django.db import transaction
from django.db.models import Max

from scoring.queries.read import PublicLane
from triage.models import Label

VALUES: Mapping[str, str] = {"fast_lane": "fast-lane", "needs_human": "needs-human", "withdrawn": "withdrawn"}
EPOCH = datetime(1970, 1, 1)
MILLISECOND, DAY = 1_000, 86_400_000_000  # in microseconds
LIFETIME = 30 * DAY
RENEWED_BEFORE = 10 * DAY  # the label of an open pull request is made anew so long before it expires
AT_ONCE = 500  # rows of one statement


def update_labels(lanes: Iterable[PublicLane], now: datetime) -> int:
    """Write what changed since the last time, in one transaction; return how many rows. `now` is naive UTC."""
    moment = _microseconds(now)
    wanted = {lane.uri: lane for lane in lanes if lane.lane in VALUES and not lane.shadow}
    with transaction.atomic():
        Label.objects.filter(exp__lte=moment).delete()
        in_force = {label.uri: label for label in Label.objects.filter(neg=False)}
        seqs, removed, added = _new_seqs(moment), list[Label](), list[Label]()
        for uri in sorted(in_force.keys() | wanted.keys()):
            label, lane = in_force.get(uri), wanted.get(uri)
            is_true = label is not None and lane is not None and _tells(label, lane)
            if label is not None and not is_true:
                added.append(_negation(label, next(seqs)))
            if lane is not None and _needs_label(lane, label, is_true, moment):
                added.append(_make_label(lane, next(seqs)))
            if label is not None and added and added[-1].uri == uri:
                removed.append(label)
        _replace(removed, added)
    return len(added)


def take_back(did: str, now: datetime) -> int:
    """Take back the labels on all that this person offered; return how many. `now` is naive UTC."""
    with transaction.atomic():
        about_person = Label.objects.filter(neg=False, uri__startswith=f"at://{did}/")
        labels = list(about_person.order_by("uri"))
        if labels:
            seqs = _new_seqs(_microseconds(now))
            _replace(labels, [_negation(label, next(seqs)) for label in labels])
    return len(labels)


def _tells(label: Label, lane: PublicLane) -> bool:
    return (label.cid, label.val) == (lane.cid, VALUES[lane.lane])


def _needs_label(lane: PublicLane, label: Label | None, is_true: bool, moment: int) -> bool:
    """Return whether a new label is due: for open pull requests always, for others once, within 30 days.

    That a pull request was withdrawn is told only where another label was told of it.
    """
    is_open = lane.outcome is None and lane.lane != "withdrawn"
    if label is not None and is_true:
        return is_open and label.exp - moment < RENEWED_BEFORE
    if lane.lane == "withdrawn" and label is None:
        return False
    return is_open or _microseconds(lane.since) > moment - LIFETIME


def _make_label(lane: PublicLane, seq: int) -> Label:
    return Label(seq=seq, uri=lane.uri, cid=lane.cid, val=VALUES[lane.lane], exp=seq + LIFETIME)


def _negation(label: Label, seq: int) -> Label:
    return Label(seq=seq, uri=label.uri, cid=label.cid, val=label.val, neg=True, exp=label.exp)


def _replace(removed: list[Label], added: list[Label]) -> None:
    for begin in range(0, len(removed), AT_ONCE):
        Label.objects.filter(pk__in=[label.pk for label in removed[begin : begin + AT_ONCE]]).delete()
    Label.objects.bulk_create(added, batch_size=AT_ONCE)


def _new_seqs(moment: int) -> Iterator[int]:
    """Return numbers above all that exist, a millisecond apart: readers compare labels' times in milliseconds."""
    newest = Label.objects.aggregate(newest=Max("seq"))["newest"] or 0
    return count(max(moment, newest + MILLISECOND), MILLISECOND)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
