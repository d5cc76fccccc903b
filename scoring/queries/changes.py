"""Read facts about open changes that do not decide their lane: labels, CI, file owners, comments and reviews.

It also compares how a new prompt or model judges changes that an older one has read.

For pull requests drawn for audit it reads people's answers. Until somebody answers about the current round, lane and
score are hidden from everybody, because an answer given after seeing them would follow them. Once given, the answer is
shown; it is an outcome that the score did not influence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any

import msgspec

from ingest.store.transaction import Rows
from scoring.pipeline.signing import RoundSignatures, round_signatures
from scoring.pipeline.stored import People, persons
from scoring.queries.types import AuditAnswer, CiState, ContentReview
from scoring.review.pending import READ_AGAIN
from scoring.review.store import shown_findings, shown_flags
from scoring.types import Person, ShownFinding

# Stored JSON has unescaped quotes only around its own syntax, so no text from the network can match this.
DRAWN = """contains(c.reasons, '{"code":"audit_drawn"')"""
# The answer about the current round of a row `c` of current_decisions; null where there is none.
WOULD_MERGE = """(
  select any_value(a.would_merge) from audits a where a.pull_uri = c.pull_uri and a.round = c.round
    and a.record_cid is not distinct from c.record_cid and a.patch_id is not distinct from c.patch_id
)"""
SEALED = f"({DRAWN} and {WOULD_MERGE} is null)"
ANSWERS = """
select a.pull_uri, a.round, a.record_cid, a.patch_id, a.would_merge, a.because, a.actor_id, a.answered_at
from audits a where list_contains(?, a.pull_uri)
"""
OPEN_BESIDE = """
select count(*) as others, count(*) filter (p.title = t.title) as alike
from pull_requests t join current_decisions c on c.contributor_id = t.author_id and c.pull_uri <> t.pull_uri
join pull_requests p on p.pull_uri = c.pull_uri
semi join watched_repositories w on w.repository_id = c.repository_id
where t.pull_uri = ? and not list_contains(?, c.pull_uri)
"""
SHOWN = 20  # labels of one pull request
LONGEST = 40  # characters of a name (the forge's own limit) and of a value
PLAIN = ("", "null", "true")  # values that only say that the label is set
OPERAND = '[{"key":"VARCHAR","value":"VARCHAR"}]'

# By the forge's rule only people with push access may label. Anybody can write such a record, so the others are
# ignored. The newest operation on a label and value counts; within one record adding wins over removing. The definition
# may be on an account that is not read here: then the key of its record is the label's name.
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
    """Return the labels of these pull requests by at-uri, sorted by name, at most SHOWN each.

    Omit those without labels.

    A label with a value reads "name: value"; a value that is a DID reads as its handle. Names and values come from
    other people: the caller must escape them.
    """
    if not uris:
        return MappingProxyType({})
    label_rows = [row for row in rows.rows(STANDING, [list(uris)]) if row["name"]]
    dids = {row["value"] for row in label_rows if row["value"].startswith("did:")}
    people = persons(rows, dids) if dids else {}
    return {
        uri: tuple(_label_text(row["name"], row["value"], people) for row in islice(labels, SHOWN))
        for uri, labels in groupby(label_rows, key=lambda row: row["subject_uri"])
    }


def _label_text(name: str, value: str, people: Mapping[str, Person]) -> str:
    if value in PLAIN:
        return name
    return f"{name}: {people[value].name if value in people else value}"


OWNERS = 3  # people who are named: those with the most merges
PATHS = 200  # paths of a change that are compared; 1,200 against 20,000 merges took 1.5 s
RUN = "select c.state, c.workflows from pull_requests p join ci_runs c using (pull_uri, patch_ref) where p.pull_uri = ?"
# Owners of whole files, not of lines: git attributes lines to e-mail addresses, and nobody can prove who owns those.
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
# The comments that a row of the queue counts; the newest are listed.
COUNTED = "m.deleted_at is null and m.author_id not in (select contributor_id from hidden_people)"
COMMENTS = f"""
select m.uri, m.author_id, left(m.body, $longest) as body, least(m.written_at, m.seen_at) as written_at from comments m
where m.subject_uri = $uri and {COUNTED} order by least(m.written_at, m.seen_at) desc, m.uri limit $most
"""
LISTED, LONGEST = 50, 2_000  # comments that are shown, and characters of one


@dataclass(frozen=True, slots=True)
class CiRun:
    """The newest CI run on the displayed round.

    `failed` lists the failed workflows by the names that the spindle gives them.
    """

    state: CiState
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileOwner:
    """A person and the number of their merged pull requests here that touch files of this change."""

    person: Person
    merged: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on the forge, in its author's words; text beyond LONGEST characters is cut."""

    author: Person
    text: str
    written_at: datetime
    uri: str


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Facts about a change; `run` is None where CI was not asked, `own` counts the author's own merges.

    `comments` are the newest LISTED comments, oldest first; `signatures` is None where nobody can tell. `beside` counts
    the author's other open pull requests in watched repositories, and those of them with the same title.
    """

    run: CiRun | None
    owners: tuple[FileOwner, ...]
    own: int
    comments: tuple[Comment, ...] = ()
    signatures: RoundSignatures | None = None
    beside: tuple[int, int] = (0, 0)


class _Workflow(msgspec.Struct):
    name: str
    status: str


def change_facts(rows: Rows, uri: str, left_out: Sequence[str] = ()) -> ChangeFacts:
    """Return what is known of a change; of its author's other open ones without those that a list leaves out."""
    merge_counts = rows.rows(FILE_OWNERS, {"uri": uri, "most": OWNERS + 1, "paths": PATHS})
    other_owners = [row for row in merge_counts if not row["own"]][:OWNERS]
    people = People(rows, (row["author_id"] for row in other_owners)).persons
    owners = tuple(FileOwner(people[row["author_id"]], row["merged"]) for row in other_owners)
    own = sum(row["merged"] for row in merge_counts if row["own"])
    others = rows.row(OPEN_BESIDE, [uri, list(left_out)]) or {"others": 0, "alike": 0}
    return ChangeFacts(
        ci_run(rows, uri),
        owners,
        own,
        comments(rows, uri),
        round_signatures(rows, uri),
        (others["others"], others["alike"]),
    )


def comments(rows: Rows, uri: str) -> tuple[Comment, ...]:
    """Return the newest comments by people who are not hidden, oldest first."""
    comment_rows = rows.rows(COMMENTS, {"uri": uri, "most": LISTED, "longest": LONGEST + 1})
    people = People(rows, (row["author_id"] for row in comment_rows)).persons
    return tuple(_comment(row, people[row["author_id"]]) for row in reversed(comment_rows))


def _comment(row: Mapping[str, Any], author: Person) -> Comment:
    text = row["body"]
    return Comment(author, text if len(text) <= LONGEST else f"{text[:LONGEST]}…", row["written_at"], row["uri"])


def ci_run(rows: Rows, uri: str) -> CiRun | None:
    """Return the CI run of the newest round; None where CI was not asked."""
    row = rows.row(RUN, [uri])
    if row is None:
        return None
    workflows = msgspec.json.decode(row["workflows"], type=list[_Workflow])
    return CiRun(
        row["state"], tuple(workflow.name for workflow in workflows if workflow.status in ("failed", "timeout"))
    )


# The patch and texts from which the displayed decision was made.
STANDS = "select patch_ref, md5(concat_ws(chr(31), title, body)) as said from pull_requests where pull_uri = ?"
# The reviews of one round. Python picks the newest of these few: planning "order by … limit 1" takes DuckDB as long as
# everything else, and so does a join with the pull request.
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
    """Return the newest review of the current round; None where nobody has read it yet."""
    current = rows.row(STANDS, [uri])
    if current is None:
        return None
    return _newest(rows.rows(f"{OF_ROUND} and said = ?", [uri, current["patch_ref"], current["said"]]))


def standing_findings(rows: Rows, uris: Sequence[str]) -> dict[str, tuple[ShownFinding, ...]]:
    """Return the findings of the current rounds by at-uri, strongest first; omit pull requests without findings."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in rows.rows(OF_STANDING, [list(uris)]) if uris else ():
        previous = newest.get(row["pull_uri"])
        if previous is None or (row["reviewed_clock"] or datetime.min) > (previous["reviewed_clock"] or datetime.min):
            newest[row["pull_uri"]] = row
    return {uri: findings for uri, row in newest.items() if (findings := shown_findings(row))}


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """Return the newest review of the round with this patch; None where nobody has read it."""
    return _newest(rows.rows(OF_ROUND, [uri, patch_ref]))


def _newest(found: list[dict[str, Any]]) -> ContentReview | None:
    """Return the latest review; of several with the same time, the first by its rules."""
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


# For each change: the newest reading by the prompt and model that read last, and the newest one by any other.
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
    """Changes that two prompts or models have read: their number, and the mean risk in [0, 1] before and since.

    `moved` counts changes whose risk crossed R_LOW or R_HIGH, so that their lane may change.
    """

    changes: int
    before: float
    since: float
    moved: int


def reread(rows: Rows, r_low: float, r_high: float) -> Reread | None:
    """Compare the newest 200 changes read by both the newest prompt and model and another one.

    None where there are none.
    """
    row = rows.row(BOTH, {"low": r_low, "high": r_high})
    if row is None or not row["changes"]:
        return None
    return Reread(row["changes"], row["before"], row["since"], row["moved"])


def answers(rows: Rows, drawn_rows: Iterable[Mapping[str, Any]]) -> dict[str, AuditAnswer]:
    """Return the answers about the current rounds of these rows of current_decisions, by at-uri."""
    versions = {row["pull_uri"]: (row["round"], row["record_cid"], row["patch_id"]) for row in drawn_rows}
    answer_rows = [
        row
        for row in (rows.rows(ANSWERS, [list(versions)]) if versions else ())
        if versions[row["pull_uri"]] == (row["round"], row["record_cid"], row["patch_id"])
    ]
    people = People(rows, (row["actor_id"] for row in answer_rows if row["actor_id"])).persons if answer_rows else {}
    return {
        row["pull_uri"]: AuditAnswer(
            row["would_merge"],
            row["because"],
            people[row["actor_id"]].name if row["actor_id"] in people else "an erased account",
            row["answered_at"],
        )
        for row in answer_rows
    }
