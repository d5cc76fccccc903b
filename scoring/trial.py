"""A new prompt or model is tried beside the old one: it reads the last 200 changes again before it may open a lane.

Until then what it says of a change is shown and weighs, and counts as no content verdict.
"""

from collections.abc import Sequence
from typing import Any

from ingest.transaction import Rows

READ_AGAIN = 200
# The newest changes that an earlier prompt or model has read and today's has not begun to; their patches are kept.
LEFT = """
select p.pull_uri, p.patch_ref, p.round, p.record_cid, p.author_id, p.repository_id, p.title, p.body, w.review,
  md5(concat_ws(chr(31), p.title, p.body)) as said, k.sha256, k.bytes, k.state as patch_state, 0.0 as structural_trust
from (
  select pull_uri, max(started_clock) as read_at from reviews
  where pull_uri is not null and state = 'content verdict'
    and not (prompt_version = $version and list_contains($models, model))
  group by pull_uri order by read_at desc, pull_uri limit {limit}
) old
join pull_requests p on p.pull_uri = old.pull_uri
join watched_repositories w on w.repository_id = p.repository_id and w.review = 'claude'
join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref and k.sha256 is not null
where not exists (
  from reviews n
  where n.pull_uri = old.pull_uri and n.prompt_version = $version and list_contains($models, n.model)
)
order by old.read_at desc, p.pull_uri
"""


def left_to_read(rows: Rows, prompt_version: str, models: Sequence[str]) -> list[dict[str, Any]]:
    """What today's prompt and models must still read again; empty: the trial is over, or there is nothing to try on."""
    return rows.rows(LEFT.format(limit=READ_AGAIN), {"version": prompt_version, "models": list(models)})
