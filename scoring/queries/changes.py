"""Reads what is known of open changes and moves no lane: labels, CI, owners of files, comments, and reviews.

It also compares how a new prompt or model judges the changes that an older one has read.

People answer about the pull requests that the audit drew. Until somebody answered on the round that stands, its lane
and score are shown to nobody: an answer of somebody who saw them would follow them. With the answer they are shown, and
it is the outcome that nothing else has touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any

import msgspec

from ingest.store.transaction import Rows
from scoring.pipeline.stored import People, persons
from scoring.queries.types import AuditAnswer, CiState, ContentReview
from scoring.review.pending import READ_AGAIN
from scoring.review.store import shown_findings, shown_flags
from scoring.types import Person, ShownFinding

# Unescaped quotes stand in stored JSON only where it says itself what a part is: no text from the network looks so.
DRAWN = """contains(c.reasons, '{"code":"audit_drawn"')"""
# Of a row `c` of current_decisions: the answer on the round that stands; null where there is none.
WOULD_MERGE = """(
  select any_value(a.would_merge) from audits a where a.pull_uri = c.pull_uri and a.round = c.round
    and a.record_cid is not distinct from c.record_cid and a.patch_id is not distinct from c.patch_id
)"""
SEALED = f"({DRAWN} and {WOULD_MERGE} is null)"
ANSWERS = """
select a.pull_uri, a.round, a.record_cid, a.patch_id, a.would_merge, a.because, a.actor_id, a.answered_at
from audits a where list_contains(?, a.pull_uri)
"""
SHOWN = 20  # labels of one pull request
LONGEST = 40  # characters of a name, which the forge bounds so, and of a value
PLAIN = ("", "null", "true")  # values that say no more than that the label is set
OPERAND = '[{"key":"VARCHAR","value":"VARCHAR"}]'

# Only people with push access may label, by the forge's rule. Anybody can write the record, so the rest counts for
# nothing. The last word about a label and its value holds; within one record adding outweighs removing.
# The definition may lie on an account that is not read here: then the key of its record names the label.
STANDING = f"""
with allowed as (
  select o.* from label_operations o join pull_requests p on p.pull_uri = o.subject_uri
  join own_people m on m.repository_id = p.repository_id and m.contributor_id = o.author_id
  where list_contains(?, o.subject_uri) and o.deleted_at is null
), told as (
  select subject_uri, written_at, uri, true as adds, unnest(from_json(added, '{OPERAND}')) as operand from allowed
  union all
  select subject_uri, written_at, uri, false, unnest(from_json(removed, '{OPERAND}')) from allowed
), standing as (
  select subject_uri, operand.key as key, operand.value as value from told
  group by all having arg_max(adds, (written_at, uri, adds))
)
select subject_uri, coalesce(d.name, split_part(s.key, '/', 5))[:{LONGEST}] as name, value[:{LONGEST}] as value
from standing s left join label_definitions d on d.uri = s.key and d.deleted_at is null
order by subject_uri, name, value
"""


def pull_labels(rows: Rows, uris: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The labels of these pull requests by at-uri, by name, at most SHOWN each; without those that have none.

    A label with a value reads "name: value"; a value that is a DID reads as its handle. Names and values are others'
    words: whoever shows them makes them safe.
    """
    if not uris:
        return MappingProxyType({})
    found = [row for row in rows.rows(STANDING, [list(uris)]) if row["name"]]
    dids = {row["value"] for row in found if row["value"].startswith("did:")}
    people = persons(rows, dids) if dids else {}
    return {
        uri: tuple(_words(row["name"], row["value"], people) for row in islice(labels, SHOWN))
        for uri, labels in groupby(found, key=lambda row: row["subject_uri"])
    }


def _words(name: str, value: str, people: Mapping[str, Person]) -> str:
    if value in PLAIN:
        return name
    return f"{name}: {people[value].name if value in people else value}"


OWNERS = 3  # people who are named, those with the most merges first
PATHS = 200  # of a change that are compared; 1,200 against 20,000 merges took 1.5 s
RUN = "select c.state, c.workflows from pull_requests p join ci_runs c using (pull_uri, patch_ref) where p.pull_uri = ?"
# Owners of whole files, not of lines: git names lines by e-mail addresses, and nobody can prove whose they are.
FILE_OWNERS = """
with change as (
  select p.repository_id, p.author_id as own_id, list_slice(t.paths, 1, $paths) as paths
  from pull_requests p join touched_files t using (pull_uri, patch_ref) where p.pull_uri = $uri
)
select p.author_id, p.author_id = c.own_id as own, count(*) as merged
from pull_requests p join touched_files t using (pull_uri, patch_ref)
join change c on c.repository_id = p.repository_id and list_has_any(t.paths, c.paths)
anti join hidden_people h on h.contributor_id = p.author_id
where p.merge_proof = 'verified' and p.pull_uri <> $uri
group by p.author_id, c.own_id order by own desc, merged desc, p.author_id limit $most
"""
# Those that a row of the queue counts; the newest are listed.
COUNTED = "m.deleted_at is null and m.author_id not in (select contributor_id from hidden_people)"
COMMENTS = f"""
select m.author_id, left(m.body, $longest) as body, least(m.written_at, m.seen_at) as written_at from comments m
where m.subject_uri = $uri and {COUNTED} order by least(m.written_at, m.seen_at) desc, m.uri limit $most
"""
LISTED, LONGEST = 50, 2_000  # comments that are shown, and characters of one


@dataclass(frozen=True, slots=True)
class CiRun:
    """The newest CI run on the round that is shown; `failed` names workflows, in the words of the spindle."""

    state: CiState
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileOwner:
    """A person, and how many of their pull requests to files of this change were merged here."""

    person: Person
    merged: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on the forge, in the words of its author; what is longer than LONGEST is cut."""

    author: Person
    text: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Facts about a change; `run` is None where CI was not asked, `own` counts the merges of its author.

    `comments` are the newest LISTED, the oldest first.
    """

    run: CiRun | None
    owners: tuple[FileOwner, ...]
    own: int
    comments: tuple[Comment, ...] = ()


class _Workflow(msgspec.Struct):
    name: str
    status: str


def change_facts(rows: Rows, uri: str) -> ChangeFacts:
    found = rows.rows(FILE_OWNERS, {"uri": uri, "most": OWNERS + 1, "paths": PATHS})
    others = [row for row in found if not row["own"]][:OWNERS]
    people = People(rows, (row["author_id"] for row in others)).persons
    owners = tuple(FileOwner(people[row["author_id"]], row["merged"]) for row in others)
    own = sum(row["merged"] for row in found if row["own"])
    return ChangeFacts(ci_run(rows, uri), owners, own, comments(rows, uri))


def comments(rows: Rows, uri: str) -> tuple[Comment, ...]:
    """Return the newest comments of people who are not hidden, the oldest of them first."""
    found = rows.rows(COMMENTS, {"uri": uri, "most": LISTED, "longest": LONGEST + 1})
    people = People(rows, (row["author_id"] for row in found)).persons
    return tuple(_comment(row, people[row["author_id"]]) for row in reversed(found))


def _comment(row: Mapping[str, Any], author: Person) -> Comment:
    text = row["body"]
    return Comment(author, text if len(text) <= LONGEST else f"{text[:LONGEST]}…", row["written_at"])


def ci_run(rows: Rows, uri: str) -> CiRun | None:
    """Return the CI run of the newest round; None where CI was not asked."""
    row = rows.row(RUN, [uri])
    if row is None:
        return None
    told = msgspec.json.decode(row["workflows"], type=list[_Workflow])
    return CiRun(row["state"], tuple(one.name for one in told if one.status in ("failed", "timeout")))


# What the decision which is shown was made from.
STANDS = "select patch_ref, md5(concat_ws(chr(31), title, body)) as said from pull_requests where pull_uri = ?"
# The reviews of one round. The newest of these few is found in Python: to plan "order by … limit 1" takes DuckDB as
# long as all the rest, and so does a join with what stands.
OF_ROUND = """
select content_risk, recommended, coverage, state, missing, reviewer, asked_because, summary, flags, findings, dollars,
  reviewed_clock, rules
from content_reviews where pull_uri = ? and patch_ref = ? and state <> 'running'
"""

OF_STANDING = """
select r.pull_uri, r.findings, r.reviewed_clock from content_reviews r join pull_requests p
  on p.pull_uri = r.pull_uri and p.patch_ref = r.patch_ref and r.said = md5(concat_ws(chr(31), p.title, p.body))
where list_contains(?, p.pull_uri) and r.state <> 'running' order by r.rules
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    stands = rows.row(STANDS, [uri])
    if stands is None:
        return None
    return _newest(rows.rows(f"{OF_ROUND} and said = ?", [uri, stands["patch_ref"], stands["said"]]))


def standing_findings(rows: Rows, uris: Sequence[str]) -> dict[str, tuple[ShownFinding, ...]]:
    """The findings of the rounds that stand, by at-uri, strongest first; only where there are any."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in rows.rows(OF_STANDING, [list(uris)]) if uris else ():
        before = newest.get(row["pull_uri"])
        if before is None or (row["reviewed_clock"] or datetime.min) > (before["reviewed_clock"] or datetime.min):
            newest[row["pull_uri"]] = row
    return {uri: found for uri, row in newest.items() if (found := shown_findings(row))}


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """The newest review of the round with this patch; None where nobody read it."""
    return _newest(rows.rows(OF_ROUND, [uri, patch_ref]))


def _newest(found: list[dict[str, Any]]) -> ContentReview | None:
    """The one that was made last, of several at once the first by its rules."""
    by_rules = sorted(found, key=lambda row: row["rules"])
    return _review(max(by_rules, key=lambda row: row["reviewed_clock"] or datetime.min)) if found else None


def _review(row: Mapping[str, Any]) -> ContentReview:
    return ContentReview(
        risk=row["content_risk"],
        recommended=row["recommended"],
        coverage=row["coverage"],
        has_verdict=row["state"] == "content verdict",
        missing=row["missing"],
        reviewer=row["reviewer"],
        asked_because=row["asked_because"],
        summary=row["summary"],
        flags=shown_flags(row),
        findings=shown_findings(row),
        dollars=row["dollars"],
    )


# Of each change the newest reading by the prompt and model that read last, beside the newest one by any other.
BOTH = f"""
with judged as (
  select pull_uri, prompt_version, model, started_clock,
    list_max(list_transform(cast(verdict -> '$.assessments[*].content_risk' as json[]), lambda x: x::double)) as risk
  from reviews where pull_uri is not null and state = 'content verdict'
), newest as (
  select prompt_version, model from judged order by started_clock desc limit 1
), sorted as (
  select j.*, (j.prompt_version, j.model) = (n.prompt_version, n.model) as is_new from judged j, newest n
), pairs as (
  select pull_uri, arg_max(risk, started_clock) filter (is_new) as risk_new,
    arg_max(risk, started_clock) filter (not is_new) as risk_old, max(started_clock) filter (is_new) as read_clock
  from sorted where risk is not null group by pull_uri
  having risk_new is not null and risk_old is not null order by read_clock desc, pull_uri limit {READ_AGAIN}
)
select count(*) as changes, avg(risk_old) as before, avg(risk_new) as since,
  count(*) filter ((risk_old <= $low) <> (risk_new <= $low) or (risk_old >= $high) <> (risk_new >= $high)) as moved
from pairs
"""


@dataclass(frozen=True, slots=True)
class Reread:
    """Changes that two prompts or models have read: how many, the mean risk in [0, 1] before and since.

    `moved` counts those whose risk went across R_LOW or R_HIGH, so that another lane may follow.
    """

    changes: int
    before: float
    since: float
    moved: int


def reread(rows: Rows, r_low: float, r_high: float) -> Reread | None:
    """The newest 200 changes that the newest prompt and model and another one have read; None where there are none."""
    row = rows.row(BOTH, {"low": r_low, "high": r_high})
    if row is None or not row["changes"]:
        return None
    return Reread(row["changes"], row["before"], row["since"], row["moved"])


def answers(rows: Rows, drawn: Iterable[Mapping[str, Any]]) -> dict[str, AuditAnswer]:
    """The answer on the round that stands of these rows of current_decisions, by address, where there is one."""
    stand = {row["pull_uri"]: (row["round"], row["record_cid"], row["patch_id"]) for row in drawn}
    found = [
        row
        for row in (rows.rows(ANSWERS, [list(stand)]) if stand else ())
        if stand[row["pull_uri"]] == (row["round"], row["record_cid"], row["patch_id"])
    ]
    people = People(rows, (row["actor_id"] for row in found if row["actor_id"])).persons if found else {}
    return {
        row["pull_uri"]: AuditAnswer(
            row["would_merge"],
            row["because"],
            people[row["actor_id"]].name if row["actor_id"] in people else "an erased account",
            row["answered_at"],
        )
        for row in found
    }
