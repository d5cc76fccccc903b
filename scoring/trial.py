"""A new prompt or model is tried beside the old one: it reads the last 200 changes again before it may open a lane.

Until then what it says of a change is shown and weighs, and counts as no content verdict. A reading that fails for a
reason that passes is none: an outage ends no trial.
"""

from collections.abc import Sequence
from typing import Any

from ingest.transaction import Rows, Transaction
from scoring.assessment import Review
from scoring.claude_answers import PASSING

READ_AGAIN = 200
GIVEN_UP = 5  # tries of one change, if another was read since: a diff that nobody can read in time holds up no trial
# The newest changes that an earlier prompt or model has read and today's has not; their patches are kept. What the
# small model read is left out: it spares nobody a reading that trust would not spare without it, so it opens no lane.
LEFT = f"""
with today as (
  select * from reviews where pull_uri is not null and prompt_version = $version and list_contains($models, model)
), tried as (
  select pull_uri, max(started_clock) as tried_clock,
    count(*) filter (not coalesce(reason in ('over_budget', 'over_repository_budget'), false)) as tries,
    bool_or(
      state = 'content verdict' or (state = 'no content verdict' and not list_contains($passing, reason))
    ) as is_read
  from today group by pull_uri
), old as (
  select pull_uri, max(started_clock) as read_at from reviews
  where pull_uri is not null and state = 'content verdict' and model <> $screen
    and not (prompt_version = $version and list_contains($models, model))
  group by pull_uri order by read_at desc, pull_uri limit {READ_AGAIN}
)
select p.pull_uri, p.patch_ref, p.round, p.record_cid, p.author_id, p.repository_id, p.title, p.body, w.review,
  md5(concat_ws(chr(31), p.title, p.body)) as said, k.sha256, k.bytes, k.state as patch_state, 0.0 as structural_trust,
  k.git_reading, k.git_line,
  n.tried_clock
from old
join pull_requests p on p.pull_uri = old.pull_uri
join watched_repositories w on w.repository_id = p.repository_id and w.review = 'claude'
join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref and k.sha256 is not null
left join tried n on n.pull_uri = old.pull_uri
where not coalesce(n.is_read, false) and not coalesce(n.tries >= {GIVEN_UP} and n.tried_clock < (
  select max(started_clock) from today where state = 'content verdict'
), false)
order by coalesce(n.tries, 0), old.read_at desc, p.pull_uri
"""
LEFT_OPEN = [*PASSING, "over_budget", "over_repository_budget", "abandoned"]  # after these the change was not read


def left_to_read(rows: Rows, prompt_version: str, models: Sequence[str], screen: str = "") -> list[dict[str, Any]]:
    """What today's prompt and models must still read again, the least tried first; empty: there is no trial (any more).

    `models` read in full, `screen` only screens. `tried_clock` is when a change was last tried, None: never.
    """
    known = {"version": prompt_version, "models": list(models), "screen": screen, "passing": LEFT_OPEN}
    return rows.rows(LEFT, known)


def note_try(txn: Transaction, pull_uri: str, prompt_version: str, review: Review) -> None:
    """Keep that a change was tried where that cost nothing: its answer was known, or no call became a reading."""
    now = txn.wall()
    name = f"{pull_uri} {prompt_version} {review.model}"
    txn.upsert(
        "reviews",
        [
            {
                "review_id": f"{name} {now.isoformat()}",
                "cache_key": name,
                "content_hash": "",
                "prompt_version": prompt_version,
                "model": review.model,
                "pull_uri": pull_uri,
                "state": review.state,
                "reason": review.reason,
                "verdict": "{}",
                "coverage": review.coverage,
                "input_tokens": 0,
                "output_tokens": 0,
                "cache_write_tokens": 0,
                "cache_read_tokens": 0,
                "dollars": 0.0,
                "started_clock": now,
                "ended_clock": now,
            }
        ],
    )
