"""Invariants of the decisions in any store, however it was come by."""

import msgspec

from ingest.store.transaction import Rows
from scoring.gate.decide import differ_notably
from scoring.queries.past_decisions import judge_again

HISTORY = "select * from scores where pull_uri is not null order by data_version, as_of"
UNDECIDED = """
select pull_uri from pull_requests semi join watched_repositories using (repository_id)
anti join hidden_people h on h.contributor_id = author_id
anti join current_decisions using (pull_uri) where state = 'open'
"""


def check_decisions(rows: Rows) -> int:
    """Assert that each open pull request is decided, from what is known last, and never twice in a row from the same.

    Returns how many decisions there ever were. Every one comes out again from its inputs.
    """
    assert rows.rows(UNDECIDED) == []
    history = rows.rows(HISTORY)
    last: dict[str, tuple[object, ...]] = {}
    for row in history:
        judged = (row["record_cid"], row["round"], row["patch_id"], row["inputs"])
        assert last.get(row["pull_uri"]) != judged, f"{row['pull_uri']} was decided twice from the same inputs"
        last[row["pull_uri"]] = judged
    assert all(judge_again(row).is_same for row in history)
    for row in rows.rows("select pull_uri, record_cid, round, patch_id, inputs from current_decisions"):
        *judged, inputs = last[row["pull_uri"]]
        assert judged == [row["record_cid"], row["round"], row["patch_id"]]
        assert not differ_notably(msgspec.json.decode(str(inputs)), msgspec.json.decode(row["inputs"]))
    return len(history)
