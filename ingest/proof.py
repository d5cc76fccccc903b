"""When a commit that carries a pull request's change proves that the pull request was merged."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.transaction import Rows

EVER = datetime.min  # an unwitnessed round may have been offered at any time before

# When a change may first have been on any branch, whatever the commit is called.
FIRST_HELD = """
select patch_id, min(coalesce(absent_at, timestamp '0001-01-01')) as since from commits
where repository_id = $repository and patch_id in (select unnest($names)) group by patch_id
"""
Row = Mapping[str, Any]
Claim = tuple[str, datetime]  # a pull request, and since when it offers something


@dataclass(frozen=True)
class Match:
    """A commit that carries an offer, alone or with others; `proof` as in the table `landings`."""

    offer: Row
    commit: Row
    proof: str

    def names(self) -> set[str]:
        """The changes that nobody may have had before. A squash is also the mails that it was made of."""
        offer = self.offer
        return {self.commit["patch_id"], *((offer["patch_id"], *offer["series"]) if self.proof == "squash" else ())}


@dataclass(frozen=True)
class Ground:
    """What one repository's matches are judged by."""

    offered: Mapping[str, Sequence[Claim]]  # by whom and since when each change was offered
    carried: Mapping[str, Sequence[Claim]]  # the same of each commit, by whatever it was matched
    held: Mapping[str, datetime]  # since when a branch may have held each change
    rounds: Mapping[str, Sequence[datetime]]  # when each pull request's rounds were seen


def lay_ground(rows: Rows, repository: int, offers: Iterable[Row], matches: Sequence[Match]) -> Ground:
    """Gather what the matches of a repository are judged by; `offers` are all rounds, read or not."""
    offered: dict[str, list[Claim]] = defaultdict(list)
    carried: dict[str, list[Claim]] = defaultdict(list)
    rounds: dict[str, list[datetime]] = defaultdict(list)
    for offer in offers:
        rounds[offer["pull_uri"]].append(offer["seen_at"])
        for name in {offer["patch_id"], *(offer["series"] or ())} - {None}:
            offered[name].append(_claim(offer))
    for match in matches:
        carried[match.commit["commit_id"]].append(_claim(match.offer))
    names = sorted({name for match in matches for name in match.names() if name})
    held = rows.rows(FIRST_HELD, {"repository": repository, "names": names})
    return Ground(offered, carried, {row["patch_id"]: row["since"] for row in held}, rounds)


def _claim(offer: Row) -> Claim:
    return offer["pull_uri"], offer["seen_at"] if offer["witnessed"] else EVER


def came_after(offer: Row, commit: Row) -> bool:
    """Whether the branch was seen without this commit after the round was seen."""
    return commit["absent_at"] is not None and commit["absent_at"] >= offer["seen_at"]


def is_proven(ground: Ground, matches: Sequence[Match]) -> bool:
    """Whether these commits, which together carry one offer, prove that it was merged."""
    offer = matches[0].offer
    telling = [match for match in matches if match.commit["proves"]]
    if matches[0].proof not in ("patch_id", "series", "squash") or not (offer["witnessed"] and offer["proves"]):
        return False
    fresh = all(came_after(offer, match.commit) and _is_newest(ground, match) for match in matches)
    return fresh and bool(telling) and all(_is_own(ground, match) for match in telling)


def _is_newest(ground: Ground, match: Match) -> bool:
    """Whether no later round had been seen when the commit was: what was superseded was not what was merged."""
    seen, appeared = match.offer["seen_at"], match.commit["appeared_at"]
    return not any(seen < other <= appeared for other in ground.rounds[match.offer["pull_uri"]])


def _is_own(ground: Ground, match: Match) -> bool:
    """Whether no branch held this change, and no other pull request offered it, when this round was seen."""
    offer, names = match.offer, match.names()
    if any(name in ground.held and ground.held[name] < offer["seen_at"] for name in names):
        return False
    claims = [claim for name in names for claim in ground.offered.get(name, ())]
    others = [*claims, *ground.carried[match.commit["commit_id"]]]
    return not any(uri != offer["pull_uri"] and since <= offer["seen_at"] for uri, since in others)
