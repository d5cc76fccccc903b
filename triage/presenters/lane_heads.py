"""Says in a few words what a fast lane rests on, what it let through and how that turned out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.certificates.lane_counts import Offer
from scoring.formatting import bad_percent, budget_percent, visible, visible_name
from scoring.queries import read
from scoring.queries.read import Closure, LaneState
from triage.access.permissions import Roles, sees_thresholds
from triage.presenters import lane as lane_words
from triage.services.estimated_lanes import Since, decided_since
from triage.services.lane_closures import closure_words, names_in, standing_closures

KINDS = {"certified": "certified", "estimated": "estimated", "by_hand": "set by hand, not certified"}


@dataclass(frozen=True, slots=True)
class LaneHead:
    """The head of the queue's fast lane: its title, its basis and its last thirty days; "" where there is nothing.

    `brief` is what stands beside the title, in two to four words.
    """

    title: str
    brief: str
    basis: str
    month: str


_heads = PerSnapshot[LaneHead | None]()
_states = PerSnapshot[tuple[LaneState, ...]](1)


def lane_states(snapshot: Snapshot) -> tuple[LaneState, ...]:
    """Return `read.lane_states`, in shadow mode or closed where a person did so since; every page's frame needs it."""
    found, shut = _states.get(snapshot, "", lambda: read.lane_states(snapshot)), decided_since(snapshot).shut
    states = (replace(one, shadow=True) if one.repository in shut else one for one in found)
    closures = whole_closures(snapshot)
    known = names_in(snapshot, closures.values()) if closures else {}
    return tuple(_closed(one, closures, known) for one in states)


def whole_closures(snapshot: Snapshot) -> dict[str, Closure]:
    """Return the closures that stand for everybody, by the key of their repository; "" is every repository."""
    return {one.repository: one for one in standing_closures(snapshot) if not one.author and not one.voucher}


def _closed(state: LaneState, closures: Mapping[str, Closure], known: Mapping[str, str]) -> LaneState:
    closure = closures.get("") or closures.get(state.repository)
    if closure is None:
        return state
    words = visible(f"{closure_words(closure, known)}: {closure.because}")
    told = {"since": closure.closed_at, "notice": words, "plain": words}
    return replace(state, is_open=False, because="lane_closed", basis="shut", t_high=None, bad=None, **told)


def open_lanes(snapshot: Snapshot) -> frozenset[str]:
    """Return the repositories whose fast lane lets something through now: no shadow mode, not closed by hand."""
    return frozenset(one.repository for one in lane_states(snapshot) if one.is_open and not one.shadow)


def count_open(snapshot: Snapshot) -> int:
    """Count these repositories."""
    return len(open_lanes(snapshot))


def site_notice(snapshot: Snapshot, exact: bool, otherwise: str) -> str:
    """Return the frame's notice of lanes that shut themselves or are open on an estimate; else `otherwise`.

    Each sentence stands once, after the repositories of which it is true.
    """
    states = [one for one in lane_states(snapshot) if not one.shadow]
    found = [one for one in states if one.because == "estimated_lane_closed"]
    found += [one for one in states if one.basis == "estimated"]
    if not found:
        return otherwise
    names = read.repository_names(snapshot)
    told: dict[str, list[str]] = {}
    for one in found:
        told.setdefault(one.notice if exact else one.plain, []).append(visible_name(names.get(one.repository, "")))
    return " ".join(said if len(names) == 1 else f"{', '.join(of)}: {said}" for said, of in told.items())


def lane_head(snapshot: Snapshot, roles: Roles, repository: str, now: datetime) -> LaneHead | None:
    """Return this viewer's head for one repository or, with "", for all; None where no lane is or would be open.

    Readers who may not see thresholds get the basis, but no figure that reveals a threshold.
    """
    exact = sees_thresholds(roles, repository or None)
    since, closed = decided_since(snapshot), tuple(whole_closures(snapshot))
    key = (repository, exact, since, closed)
    return _heads.get(snapshot, key, lambda: _head(snapshot, repository, exact, since, now))


def _head(snapshot: Snapshot, repository: str, exact: bool, since: Since, now: datetime) -> LaneHead | None:
    states = [one for one in lane_states(snapshot) if repository in ("", one.repository)]
    able = [one for one in states if one.is_open]
    if not able:
        return None
    would = all(one.shadow for one in able)
    shown = [one for one in able if one.shadow == would]
    kinds = " or ".join(sorted({KINDS[one.basis] for one in shown}))
    brief = " or ".join(sorted({one.basis.replace("by_hand", "set by hand") for one in shown}))
    if would:
        is_opening = any(one.repository in since.opened for one in shown)
        words = f"{kinds}, {'just opened: waiting for the worker' if is_opening else 'lane shut'}"
        brief = "just opened" if is_opening else "lane shut"
    else:
        offers = {one.repository: one.offer for one in read.estimated_lanes(snapshot, now)}
        words = _figured(shown, offers) if exact else ""
        words = words or kinds
        if len(shown) < len(states):
            brief = f"open in {len(shown)} of {len(states)} repositories"
            words += f"; {brief}"
    month = read.lane_sum(snapshot, (one.repository for one in shown), would, now)
    title = "Would be fast lane" if would else "Fast lane"
    return LaneHead(title, brief, words, lane_words.month_words(month, would))


def overview(snapshot: Snapshot, now: datetime) -> list[tuple[str, str, str]]:
    """Return each watched repository's name, the state of its lane and its last thirty days, without any threshold."""
    names, lanes = read.repository_names(snapshot), []
    for one in lane_states(snapshot):
        would = one.shadow or not one.is_open
        state = "shut" if would else f"open, {KINDS[one.basis]}"
        month = lane_words.month_words(read.lane_sum(snapshot, (one.repository,), would, now), would)
        lanes.append((visible_name(names.get(one.repository, "")), state, month))
    return sorted(lanes)


def _figured(shown: Sequence[LaneState], offers: Mapping[str, Offer]) -> str:
    """Return the basis of open lanes with the worst of their figures; "" where bases differ or have no figures."""
    bases = {one.basis for one in shown}
    if bases == {"certified"}:
        return f"certified: at most {budget_percent(max(one.budget for one in shown))}"
    known = [offers[one.repository] for one in shown if one.repository in offers]
    if bases == {"estimated"} and known:
        worst = max(known, key=lambda offer: offer.bad / offer.let_through)
        return f"estimated: {bad_percent(worst.bad / worst.let_through)} bad ({lane_words.WINDOWS[worst.source]})"
    return ""
