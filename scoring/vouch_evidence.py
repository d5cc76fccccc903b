"""What a vouch names as evidence, checked against the store: which pull requests its subject really had merged.

Any at-uri can stand in a vouch and the forge checks none of them (DESIGN.md §1.3), so what is named counts only where

- it is a pull request by the subject of that vouch: somebody else's says nothing about them;
- its target is a watched repository: elsewhere anybody may be their own push-holder;
- `outcomes` (derived.sql) has it merged as of now: in the last word of a push-holder who is not its author, or because
  it newly landed on the target branch, and neither reverted nor mended within its window;
- it is named once: ten mentions of one merge are one.

Nothing of that is in the hands of voucher or subject. What a later word takes back counts no more from then on.
"""

from datetime import datetime

import numpy as np

from ingest.transaction import Rows
from scoring.derived import STATEMENTS
from scoring.graph import Edges

# Of vouches that stand, as in scoring/structure.py; a denounce gains nothing by evidence.
NAMING = """
from vouches
where kind = 'vouch' and evidences <> '[]' and voucher_id <> subject_id
  and seen_at <= $now and (superseded_at is null or superseded_at > $now)
"""
NAMED = f"""
named as (
  select distinct voucher_id, subject_id, unnest(from_json(evidences, '["varchar"]')) as pull_uri {NAMING}
)
"""
ANY = f"select count(*) {NAMING}"  # 2 ms for 400,000 vouches, 15 where it reads what they name
OUTCOMES = STATEMENTS["outcomes"].partition(" as\n")[2].rstrip(";\n")
VERIFIED = f"""
with {NAMED}, known as ({OUTCOMES})
select n.voucher_id, n.subject_id, count(*) as pulls
from named n join known k on k.pull_uri = n.pull_uri and k.author_id = n.subject_id and k.clean
semi join watched_repositories w on w.repository_id = k.repository_id
group by n.voucher_id, n.subject_id
"""


def verified_evidence(rows: Rows, now: datetime, window_days: int) -> Edges:
    """How many merged pull requests each vouch rightly names, as its weight; people by contributor_id, others left out.

    Only what was seen up to `now` counts; a merge is taken back by what is known by then to have happened to its lines
    within `window_days`.
    """
    if not rows.value(ANY, {"now": now}):
        return Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    found = rows.columns(VERIFIED, {"now": now, "window": window_days})
    return Edges(*(np.asarray(found[name]) for name in ("voucher_id", "subject_id")), np.asarray(found["pulls"], float))
