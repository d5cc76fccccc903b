"""Say briefly what keeps a fast lane open, what it let through, and the outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.certificates.lane_counts import Offer
from scoring.formatting import bad_percent, budget_percent, visible_name
from scoring.queries import read
from scoring.queries.read import LaneState
from triage.access.permissions import Roles, sees_thresholds
from triage.presenters import lane as lane_words
from triage.services.estimated_lanes import Since, decided_since
from triage.services.lane_closures import standing_closures

KINDS = {"certified": "certified", "estimated": "estimated", "by_hand": "set by hand, not certified"}


@dataclass(frozen=True, slots=True)
class LaneHead:
    """The head of the queue's fast lane: its title, its basis and its last thirty days; "" where there is nothing.

    `brief` stands next to the title, in two to four words.
    """

    title: str
    brief: str
    basis: str
    month: str


_heads = PerSnapshot[LaneHead | None]()
_states = PerSnapshot[tuple[LaneState, ...]](1)


def lane_states(snapshot: Snapshot) -> tuple[LaneState, ...]:
    """Return `read.lane_states`, in shadow mode where a person has shut the lane since; every page's frame needs it."""
    states, shut = _states.get(snapshot, "", lambda: read.lane_states(snapshot)), decided_since(snapshot).shut
    return tuple(replace(state, shadow=True) if state.repository in shut else state for state in states)


def count_open(snapshot: Snapshot) -> int:
    """Count the watched repositories whose fast lane is open now: not in shadow mode, not closed by hand."""
    closed = {item.repository for item in standing_closures(snapshot) if not item.author and not item.voucher}
    states = lane_states(snapshot) if "" not in closed else ()
    return sum(item.is_open and not item.shadow and item.repository not in closed for item in states)


def site_notice(snapshot: Snapshot, exact: bool, otherwise: str) -> str:
    """Return the frame's notice of lanes that shut themselves or are open on an estimate; else `otherwise`.

    Each sentence appears once, after the names of its repositories.
    """
    states = [state for state in lane_states(snapshot) if not state.shadow]
    notable = [state for state in states if state.because == "estimated_lane_closed"]
    notable += [state for state in states if state.basis == "estimated"]
    if not notable:
        return otherwise
    names = read.repository_names(snapshot)
    repositories_by_notice: dict[str, list[str]] = {}
    for state in notable:
        repositories_by_notice.setdefault(state.notice if exact else state.plain, []).append(
            visible_name(names.get(state.repository, ""))
        )
    return " ".join(
        said if len(names) == 1 else f"{', '.join(names_of_notice)}: {said}"
        for said, names_of_notice in repositories_by_notice.items()
    )


def lane_head(snapshot: Snapshot, roles: Roles, repository: str, now: datetime) -> LaneHead | None:
    """Return this viewer's head for one repository or, with "", for all; None where no lane is open or would be.

    Readers who may not see thresholds get the basis, but no figure that reveals a threshold.
    """
    exact = sees_thresholds(roles, repository or None)
    since = decided_since(snapshot)
    return _heads.get(snapshot, (repository, exact, since), lambda: _head(snapshot, repository, exact, since, now))


def _head(snapshot: Snapshot, repository: str, exact: bool, since: Since, now: datetime) -> LaneHead | None:
    states = [state for state in lane_states(snapshot) if repository in ("", state.repository)]
    open_states = [state for state in states if state.is_open]
    if not open_states:
        return None
    is_hypothetical = all(state.shadow for state in open_states)
    shown = [state for state in open_states if state.shadow == is_hypothetical]
    kinds = " or ".join(sorted({KINDS[state.basis] for state in shown}))
    brief = " or ".join(sorted({state.basis.replace("by_hand", "set by hand") for state in shown}))
    if is_hypothetical:
        is_opening = any(state.repository in since.opened for state in shown)
        words = f"{kinds}, {'just opened: waiting for the worker' if is_opening else 'lane shut'}"
        brief = "just opened" if is_opening else "lane shut"
    else:
        offers = {state.repository: state.offer for state in read.estimated_lanes(snapshot, now)}
        words = _basis_with_figures(shown, offers) if exact else ""
        words = words or kinds
        if len(shown) < len(states):
            brief = f"{len(shown)} of {len(states)} open"
            words += f"; open in {len(shown)} of {len(states)} repositories"
    month = read.lane_sum(snapshot, (state.repository for state in shown), is_hypothetical, now)
    title = "Would be fast lane" if is_hypothetical else "Fast lane"
    return LaneHead(title, brief, words, lane_words.month_words(month, is_hypothetical))


def _basis_with_figures(shown: Sequence[LaneState], offers: Mapping[str, Offer]) -> str:
    """Return the basis of open lanes with the worst of their figures; "" where bases differ or have no figures."""
    bases = {state.basis for state in shown}
    if bases == {"certified"}:
        return f"certified: at most {budget_percent(max(state.budget for state in shown))}"
    known = [offers[state.repository] for state in shown if state.repository in offers]
    if bases == {"estimated"} and known:
        worst = max(known, key=lambda offer: offer.bad / offer.let_through)
        return f"estimated: {bad_percent(worst.bad / worst.let_through)} bad ({lane_words.WINDOWS[worst.source]})"
    return ""
