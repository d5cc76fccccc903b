"""A world played to its end, and what is compared of two of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scoring.queries.people.trust import read_trust
from scoring.queries.read import QueueRow
from tests.pipeline import Later, Result
from trustsite.world import World

# What a person is told to be, in every repository and at the site.
SCORES = """
select c.did, coalesce(r.repo_key, '') as repository, s.probability, s.low, s.high, s.cases, s.structural_trust, s.lane,
  s.reasons, s.as_of
from current_scores s join contributors c using (contributor_id)
left join repositories r on r.repository_id = s.repository_id
"""
DECISIONS = """
select c.did, d.pull_uri, d.record_cid, d.round, d.patch_id, d.own, d.probability, d.structural_trust, d.lane, d.reasons
from current_decisions d join contributors c using (contributor_id)
"""
STATES = """
select c.did, p.pull_uri, p.state, p.state_at, p.merged_at,
  coalesce(p.merge_proof = 'verified', false) as verified, l.clean, l.known_from
from pull_requests p join contributors c on c.contributor_id = p.author_id left join labels l using (pull_uri)
"""
Facts = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Played:
    """A world that was played to its end, with the store that holds it."""

    world: World
    result: Result

    def facts(self, sql: str, key: str) -> Facts:
        """Rows of one of the statements above about everybody honest."""
        honest = set(self.world.honest)
        return {(row["did"], row[key]): row for row in self.result.rows(sql) if row["did"] in honest}

    def dids(self, attack: str) -> tuple[str, ...]:
        return self.world.groups[attack]

    def mass(self, dids: tuple[str, ...], repository: str = "") -> float:
        """First-passage trust of these people together, from a repository's seeds or the site's."""
        with self.result.reading() as rows:
            number = rows.value("select repository_id from repositories where repo_key = ?", [repository]) or 0
            found = rows.rows("select contributor_id from contributors where list_contains(?, did)", [list(dids)])
            judged = read_trust(rows, number, [row["contributor_id"] for row in found], self.result.policy)
        return sum(row["first_passage"] for row in judged.values())


Play = Callable[..., Played]


SWAPS = "swaps.pickle"


@dataclass(frozen=True)
class Swap:
    """The row of one pull request before its patch was swapped, after, and once the new one was looked up."""

    before: QueueRow
    between: QueueRow
    after: QueueRow
    kept: list[dict[str, Any]]


def play_swaps(world: World, result: Result) -> dict[str, Swap]:
    """Play the second stage, in which patches are swapped in both ways, to the world's end."""
    uris = {name: world.pulls[name][0] for name in ("swapped", "round_added")}

    def shown() -> dict[str, QueueRow]:
        return {name: row for name, uri in uris.items() if (row := result.pull(uri)) is not None}

    before = shown()
    result.feed(world.recording.frames[world.stages[0] :])
    between = shown()
    result.play(())
    after = shown()
    kept = "select record_cid, round, patch_id from scores where pull_uri = ?"
    return {
        name: Swap(before[name], between[name], after[name], result.rows(kept, [uri])) for name, uri in uris.items()
    }


def now(result: Result) -> datetime:
    return result.value("select max(as_of) from current_scores")


def later(result: Result, **change: int) -> Later:
    """Frames that come a minute, or `change`, after everything else."""
    return Later(now(result) + timedelta(**change or {"minutes": 1}))


def scores(result: Result) -> Mapping[tuple[str, str], dict[str, Any]]:
    return {(row["did"], row["repository"]): row for row in result.rows(SCORES)}


def without_time(facts: Mapping[tuple[str, str], dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {key: {name: value for name, value in row.items() if name != "as_of"} for key, row in facts.items()}
