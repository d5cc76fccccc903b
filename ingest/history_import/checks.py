"""Checks of imported pull requests: each rule is one condition, with one sentence for a row that breaks it.

Of the title of an imported pull request only marks that name nobody are kept.
"""

from datetime import datetime

from ingest.history_import.files import COLUMNS, PastProblem
from ingest.store.transaction import Rows

EARLIEST = "timestamp '1990-01-01'"  # no forge is older
LATEST_COUNT = 1_000_000_000  # lines of one pull request; the largest of 14,887 real ones added 1,300,706
MOVED_SHARE = 0.05  # of merges before their opening: 1.9 % of real ones, whose opening had to be inferred
STATES = ("merged", "closed", "closed_or_stale", "open", "open_or_recent")
TIMES = tuple(column.name for column in COLUMNS if column.kind == "time")
COUNTS = ("additions", "deletions", "files_touched", "binary_files")
EVENTS = tuple(name for name in TIMES if name not in ("opened_at", "snapshot_at"))
QUIET = "greatest(opened_at, last_commit_at) + interval 180 day"
# In this order, since a later rule presumes the ones before.
RULES: tuple[tuple[str, str], ...] = (
    *((f"{column.name} is null", f"has no {column.name}") for column in COLUMNS if column.needed),
    ("length(repo) not between 1 and 200", "names its project with no or more than 200 characters"),
    ("length(author) not between 1 and 200", "names its author with no or more than 200 characters"),
    ("number not between 0 and 1000000000000", "has a number that is none"),
    (f"state not in {STATES}", f"has a state that is none of {', '.join(STATES)}"),
    *((f"{name} not between 0 and {LATEST_COUNT}", f"has {name} below 0 or above {LATEST_COUNT}") for name in COUNTS),
    *((f"{name} < {EARLIEST}", f"has {name} before 1990") for name in TIMES),
    ("snapshot_at > $now", "was watched until a moment that has not come yet"),
    ("opened_at > snapshot_at", "was opened after it was last watched"),
    *((f"{name} > snapshot_at", f"has {name} after it was last watched") for name in EVENTS),
    ("state = 'merged' and merged_at is null", "is merged, but has no merged_at"),
    ("state <> 'merged' and merged_at is not null", "has merged_at, but is not merged"),
    ("state = 'closed' and closed_at is null", "is closed, but has no closed_at"),
    ("closed_at < opened_at", "was closed before it was opened"),
    (
        f"state = 'closed_or_stale' and coalesce(closed_at, {QUIET}) > snapshot_at",
        "is closed_or_stale, but was watched for less than 180 days after its last commit and has no closed_at",
    ),
    ("reverted_at < merged_at or patched14_first_at < merged_at", "was taken back or patched before it was merged"),
)
BROKEN = ", ".join(f"count(*) filter ({condition}) as n{place}" for place, (condition, _) in enumerate(RULES))
TWICE = "select repo, number, count(*) as times from past group by repo, number having times > 1 order by all limit 1"
MOVED = """
select count(*) filter (merged_at < opened_at) as moved, count(merged_at) as merges,
  any_value(concat(repo, '#', number)) filter (merged_at < opened_at) as example from past
"""


def check_past(rows: Rows, now: datetime) -> int:
    """Look through the table `past`; returns how many were merged before they were opened, where few enough were.

    Raises PastProblem with the first rule that a row breaks, how many do, and one of them.
    """
    found = rows.row(f"select count(*) as rows, {BROKEN} from past", {"now": now}) or {}
    if not found["rows"]:
        raise PastProblem("The file holds no pull request: export some, or name another file.")
    for place, (condition, sentence) in enumerate(RULES):
        if broken := found[f"n{place}"]:
            example = rows.value(
                f"select concat(repo, '#', number) from past where {condition} limit 1",
                {"now": now} if "$now" in condition else {},
            )
            raise PastProblem(
                f"{str(example)[:100]!a} {sentence} ({broken} of {found['rows']} rows): nothing was taken."
            )
    if twice := rows.row(TWICE):
        name = f"{twice['repo']}#{twice['number']}"
        raise PastProblem(f"{name[:100]!a} is in the file {twice['times']} times: nothing was imported.")
    return _moved(rows)


def _moved(rows: Rows) -> int:
    found = rows.row(MOVED) or {}
    if found["moved"] > MOVED_SHARE * found["merges"]:
        raise PastProblem(
            f"{found['example'][:100]!a} was merged before it was opened, like {found['moved']} of {found['merges']} "
            "merges: nothing was taken."
        )
    return found["moved"]


MARKS = ("default", "fix", "docs", "new", "code")
# A temporary macro: `title_says(title)` is the list of MARKS that hold, null where a title tells nothing that was known
# at opening. Of one word it may be the name of a branch, which follows from the outcome. `default` is what a web editor
# suggests: "Update FILE". English words alone are looked for; how well somebody writes is not.
TITLE_SAYS = r"""
create or replace temp macro title_says(title) as case when contains(trim(title), ' ') then list_filter([
  case when regexp_matches(trim(title), '(?i)^(update|create|delete|rename|add files via)\s+\S+(\s+\S+)?$')
    then 'default' end,
  case when regexp_matches(title, '(?i)\b(fix|fixes|fixed|bugs?|correct(s|ed)?)\b') then 'fix' end,
  case when regexp_matches(title, '(?i)\b(docs?|documentation|readme|typos?|spelling|grammar|links?)\b')
    then 'docs' end,
  case when regexp_matches(title,
    '(?i)\b(add|adds|added|supports?|feat|features?|implements?|allows?|introduces?|new)\b') then 'new' end,
  case when regexp_matches(title, '`|\(\)|_|\.\w') then 'code' end
], lambda mark: mark is not null) end
"""
