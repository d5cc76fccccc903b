"""All contributors in order, read from a snapshot."""

from collections.abc import Mapping
from typing import Any

from ingest.transaction import Rows
from scoring.answers import Leaderboard, LeaderboardRow, LeaderboardSort
from scoring.derived import display_name
from scoring.objections import LEFT_OUT
from scoring.score_ground import score_ground
from scoring.shaping import read_verdict
from scoring.verdict import Person

PAGE = 50
PROVISIONAL_BELOW = 5
LISTED = f"contributor_id not in ({LEFT_OUT})"
# Sorted by narrow columns before what is shown is looked up: of 100,000 people 50 are.
LEADERBOARD = f"""
with reverted as (
  select q.author_id as contributor_id, count(*) as reverts
  from pull_followups u join pull_requests q using (pull_uri)
  where u.kind = 'reverted' and u.pull_uri not in (select pull_uri from marks where outcome = 'clean')
  group by q.author_id
), placed as (
  select c.contributor_id, c.probability, p.did, p.handle, p.handle_verified, f.merged_here as merged, t.distance,
    coalesce(r.reverts, 0) as reverts, {{number}} as number,
    if(number is null, null, rank() over (order by number {{direction}} nulls last)) as rank
  from current_scores c join contributors p using (contributor_id)
  left join features f using (contributor_id, repository_id) left join trust t using (contributor_id, repository_id)
  left join reverted r using (contributor_id)
  where c.repository_id = 0 and c.{LISTED} order by {{order}} limit ? offset ?
)
select c.*, p.* exclude (contributor_id, probability) from placed p
join current_scores c on c.contributor_id = p.contributor_id and c.repository_id = 0 order by {{order}}
"""
LEADERBOARD_ORDER: Mapping[LeaderboardSort, str] = {
    "score": "c.probability {} nulls last, merged desc, did",
    "merged": "merged {}, c.probability desc nulls last, did",
    "reverts": "reverts {}, c.probability desc nulls last, did",
    "hops": "distance {} nulls last, c.probability desc nulls last, did",
}
# The number that is shown in the column: who has the same one shares a rank, and who has none has no rank.
NUMBERS: Mapping[LeaderboardSort, str] = {
    "score": "floor(round(c.probability * 100, 9))",
    "merged": "coalesce(f.merged_here, 0)",
    "reverts": "coalesce(r.reverts, 0)",
    "hops": "t.distance",
}


def leaderboard(rows: Rows, sort: LeaderboardSort, descending: bool, page: int) -> Leaderboard:
    """One page of everyone scored at the site, in the order asked for; pages count from 1."""
    counted = f"select count(*) filter ({LISTED}) as listed, count(*) as scored from current_scores"
    counts = rows.rows(f"{counted} where repository_id = 0")[0]
    total = counts["listed"]
    pages = max(1, -(-total // PAGE))
    page = min(max(page, 1), pages)
    direction = "desc" if descending else "asc"
    order = LEADERBOARD_ORDER[sort].format(direction)
    sql = LEADERBOARD.format(order=order, number=NUMBERS[sort], direction=direction)
    shown = tuple(map(_leaderboard_row, rows.rows(sql, [PAGE, (page - 1) * PAGE])))
    return Leaderboard(shown, total, page, pages, score_ground(rows).seeds.get(0, ()), counts["scored"] - total)


def _leaderboard_row(row: Mapping[str, Any]) -> LeaderboardRow:
    return LeaderboardRow(
        rank=row["rank"],
        person=Person(row["did"], display_name(row)),
        verdict=read_verdict(row),
        merged=row["merged"] or 0,
        reverts=row["reverts"],
        distance=row["distance"],
        provisional=row["cases"] < PROVISIONAL_BELOW,
    )
