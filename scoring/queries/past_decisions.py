"""Explain past decisions: judge one again from its inputs, and examine a merge that went wrong.

For a merge that went wrong it reads the facts known when somebody approved it, or when the open lane let it through
without an approval, the rules that would have stopped it, and similar pull requests.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from ingest.json_decoding import decode_json
from ingest.store.transaction import Rows
from scoring.explain.sentences import sentence
from scoring.formatting import display_name, percent, percent_interval, risk_percent, visible_name
from scoring.gate.counterfactual import TightenedRule, holds_too, what_would_hold
from scoring.gate.decide import GATE_VERSION, judge_inputs, read_inputs
from scoring.pipeline.interventions import IN_FORCE, MERGED
from scoring.pipeline.lane_history import PASSED
from scoring.pipeline.stored import People, read_thresholds, read_verdict
from scoring.types import Content, Lane, Person, Verdict

# `as_of` is the time of the data: the wall clock when live, the recording's in a replay. The wall clock may be set
# back, so the pass that had read more data is the later one.
DECISION_AT = """
select * from scores where pull_uri = $uri and as_of <= $moment
order by data_version desc nulls last, as_of desc, decided_clock desc limit 1
"""
SHOWN_COLUMNS = ("score_id", "pull_uri", "record_cid", "round", "patch_id", "as_of", "decided_clock", "data_version")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A past decision, and the result of today's rules on its inputs; `again` is None where no inputs were stored."""

    row: Mapping[str, Any]
    told: Verdict
    again: Verdict | None
    same_rules: bool

    @property
    def is_same(self) -> bool:
        """Return whether lane, reasons and P(clean) are identical, to the last digit."""
        return self.again is not None and (
            self.again.lane is self.told.lane
            and self.again.reasons == self.told.reasons
            and self.again.estimate == self.told.estimate
        )


def replay_decision(rows: Rows, uri: str, moment: datetime) -> Replayed | None:
    """Judge again the decision on this pull request that was in force at `moment`; None where there was none."""
    row = rows.row(DECISION_AT, {"uri": uri, "moment": moment})
    return None if row is None else judge_again(row)


def judge_again(row: Mapping[str, Any]) -> Replayed:
    """Judge a row of `scores` about a pull request again from its stored inputs."""
    verdict = read_verdict(row)
    if row["inputs"] is None:
        return Replayed(row, verdict, None, same_rules=False)
    inputs = read_inputs(row["inputs"])
    return Replayed(row, verdict, judge_inputs(inputs), inputs.gate_version == GATE_VERSION)


def why_json(replayed: Replayed) -> dict[str, Any]:
    """Return the output of `why --json`: the row, its inputs, and today's verdict on them."""
    row, again = replayed.row, replayed.again
    return {
        **{name: row[name] for name in SHOWN_COLUMNS},
        "verdict": replayed.told,
        "content_risk": row["content_risk"],
        "thresholds": msgspec.json.decode(row["thresholds"]),
        "model_version": row["model_version"],
        "trust_measure": row["trust_measure"],
        "inputs": None if row["inputs"] is None else msgspec.json.decode(row["inputs"]),
        "again": again,
        "same_rules": replayed.same_rules,
        "is_same": replayed.is_same,
    }


def why_lines(replayed: Replayed) -> list[str]:
    """Return the output of `why`: the change, the decision, its reasons, known facts, and today's verdict."""
    row = replayed.row
    return [
        f"{row['pull_uri']}",
        f"decided as of {row['as_of']:%Y-%m-%d %H:%M:%S} UTC, decision {row['score_id']}",
        f"judged: record {visible_name(row['record_cid'])}, round {row['round']}, "
        f"patch {row['patch_id'] or 'not known'}",
        f"lane: {replayed.told.lane}, stays clean: {_chance_text(replayed.told)}, "
        f"content risk {_risk_text(row['content_risk'])}",
        *(f"  - {sentence(reason)}" for reason in replayed.told.reasons),
        f"model {row['model_version']}, trust by {row['trust_measure']}, data version {row['data_version']}",
        *_input_lines(row["inputs"]),
        _outcome(replayed),
    ]


def _chance_text(verdict: Verdict) -> str:
    estimate = verdict.estimate
    if estimate.probability is None:
        return "no score yet"
    interval = percent_interval(estimate.low, estimate.high)
    return f"{percent(estimate.probability)} ({interval}, {estimate.cases} cases)"


def _risk_text(value: float | None) -> str:
    return "not known" if value is None else risk_percent(value)


def _input_lines(stored: str | None) -> list[str]:
    """Return the inputs, one line each; texts in them come from the network and are shown as JSON in ASCII."""
    if stored is None:
        return []
    parts = msgspec.json.decode(stored).items()
    return ["known then:", *(f"  {name}: {json.dumps(value, separators=(',', ':'))}" for name, value in parts)]


def _outcome(replayed: Replayed) -> str:
    if replayed.again is None:
        return "This decision was made by a version that kept no inputs: it cannot be judged again."
    if replayed.is_same:
        return "Judged again from these inputs: the same lane, reasons and chance."
    because = "" if replayed.same_rules else " The rules have changed since."
    return f"Judged again from these inputs: {replayed.again.lane} ({_reason_codes(replayed.again)}).{because}"


def _reason_codes(verdict: Verdict) -> str:
    return ", ".join(reason.code for reason in verdict.reasons)


SPAN = timedelta(days=30)
LISTED = 100
Shared = Literal["author", "voucher", "paths", "model"]
SHARES: tuple[Shared, ...] = ("author", "voucher", "paths", "model")  # the closest first

COUNTS = f"(a.state in ('{IN_FORCE}', '{MERGED}', 'merged something else') or a.reason = 'closed')"
APPROVAL = f"""
select a.*, m.actor_id, p.author_id, p.patch_ref from approvals a join maintainer_actions m using (action_key)
join pull_requests p on p.pull_uri = a.pull_uri
where a.pull_uri = ? and {COUNTS}
order by a.approved_at desc, a.action_key limit 1
"""
VOIDED = f"""
select a.pull_uri from approvals a where list_contains(?, a.pull_uri) group by a.pull_uri having not bool_or({COUNTS})
"""
# Decisions on the approved version: the one that the approver saw, else the newest made by then. In a replay the clock
# may stand still, and later data has the approval's time, so only the stored id tells them apart. The pass that had
# read more data is the later one: the wall clock may be set back.
SAME = (
    "s.pull_uri = a.pull_uri and s.round = a.round and s.record_cid is not distinct from a.record_cid "
    "and s.patch_id is not distinct from a.patch_id and (s.score_id = a.decision or s.as_of <= a.approved_at)"
)
IS_NAMED = "coalesce(s.score_id = a.decision, false)"
NEWEST = "s.data_version desc nulls last, s.as_of desc, s.decided_clock desc"
DECISION = f"""
select s.*, {IS_NAMED} as is_named from scores s join approvals a on {SAME} where a.action_key = ?
order by is_named desc, {NEWEST} limit 1
"""
# The decision in force when an open lane's pull request was merged, for those that it let through without an approval.
# A round of shadow mode was not let through, unless the estimated lane was opened before it was merged.
LET_THROUGH_DECISIONS = f"""
with last_decision as (
  select s.*, p.author_id, p.patch_ref from pull_requests p
  left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
  join scores s on s.pull_uri = p.pull_uri and s.round = p.round
    and coalesce(s.patch_id, '') = coalesce(k.patch_id, '') and s.as_of <= p.state_at
  where list_contains($uris, p.pull_uri) and list_contains($uris, s.pull_uri) and p.state = 'merged'
  qualify row_number() over (partition by p.pull_uri order by {NEWEST}) = 1
)
select d.* from last_decision d
semi join (from waved_through where list_contains($uris, pull_uri)) w on w.pull_uri = d.pull_uri
anti join (from audit_draws where drawn) a on a.pull_uri = d.pull_uri
anti join own_people o on o.repository_id = d.repository_id and o.contributor_id = d.contributor_id
where d.lane = 'fast_lane' and (
  not exists (from shadow_rounds h where h.pull_uri = d.pull_uri and h.round = coalesce(d.round, 0)
              and h.patch_id = coalesce(d.patch_id, ''))
  or exists (from audit_draws e where e.pull_uri = d.pull_uri and e.round = d.round and e.estimated))
"""
VOUCHERS = """
select distinct c.did, c.handle, c.handle_verified from vouches v join contributors c on c.contributor_id = v.voucher_id
where v.subject_id = ? and v.kind = 'vouch' and v.voucher_id <> v.subject_id
union
select c.did, c.handle, c.handle_verified from trust t join contributors c on list_contains(t.path, c.contributor_id)
where t.contributor_id = ? and c.contributor_id <> t.contributor_id
"""
PATHS = "select paths from touched_files where pull_uri = ? and patch_ref = ?"
# Pull requests that were fast-laned since, push-holders' own apart, each by its newest decision of that lane.
FAST_LANED = f"""
select s.pull_uri, s.contributor_id, s.repository_id, s.model_version, s.inputs, s.as_of, p.title, p.state,
  coalesce(r.name, r.repo_key) as repository_name, coalesce(list_intersect(t.paths, $paths), []) as same_paths,
  exists (from approvals a where a.pull_uri = s.pull_uri and a.state <> 'voided') as is_approved
from scores s join pull_requests p on p.pull_uri = s.pull_uri
join repositories r on r.repository_id = s.repository_id
left join touched_files t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
where s.pull_uri is not null and s.lane = 'fast_lane' and s.as_of > $since and s.pull_uri <> $uri
  and not exists (from seeds o where o.repository_id = s.repository_id and o.contributor_id = s.contributor_id
                  and o.role <> 'maintainer')
qualify row_number() over (partition by s.pull_uri order by {NEWEST}) = 1
order by s.as_of desc, s.pull_uri
"""
# Pull requests that a repository's lane let through since a moment, with their known labels.
LET_THROUGH = f"""
select p.pull_uri, l.clean from ({PASSED}) p left join (from labels where known_from <= $now) l using (pull_uri)
where p.repository_id = $repository and p.passed_at >= $since
"""


class _Path(msgspec.Struct):
    path: tuple[str, ...] = ()


class _StoredPath(msgspec.Struct):
    """The part of stored inputs with the trust path."""

    evidence: _Path


@dataclass(frozen=True, slots=True)
class LikeIt:
    """Another recently fast-laned pull request, and what it shares with the one that went wrong."""

    uri: str
    title: str
    repository_name: str
    author: Person
    state: str
    is_approved: bool
    as_of: datetime
    shares: tuple[Shared, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """A rule that would have held it, and its price: the others of that repository's lane that it `holds` too.

    `others` are those that were compared: at most LISTED, the newest.
    """

    rule: TightenedRule
    holds: int
    others: int


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The count of one lane since it was opened (`since`, None where unknown), and its budget of bad outcomes.

    `settled` have a known outcome, and `bad` of these were not clean; `budget` is the share of bad outcomes that the
    lane allowed when it let the bad one through. The counts are 0 where that one did not go through the lane.
    """

    let_through: int
    settled: int
    bad: int
    budget: float
    since: datetime | None = None

    @property
    def is_spent(self) -> bool:
        return self.bad > self.budget * self.settled


@dataclass(frozen=True, slots=True)
class Incident:
    """The facts known about a merged pull request when it was approved or let through, and what its bad outcome means.

    `approved_at` is None where nobody approved it here: the open lane let it through by this decision. `content` is the
    content verdict, None where nobody had reviewed it; `path` holds the names as displayed then.
    `voucher` is the account of the path's last vouch, None where there was none or it can no longer be identified.
    `is_named`: the approval names this decision, or none was needed; else it is the newest that was made by then.
    """

    uri: str
    author: Person
    approver: Person | None  # None: nobody, or erased since
    approved_at: datetime | None
    round: int
    verdict: Verdict
    content: Content | None
    path: tuple[str, ...]
    voucher: Person | None
    as_of: datetime
    data_version: int | None
    model_version: str
    is_named: bool
    would_hold: tuple[Hold, ...]  # those that hold fewest others first
    like_it: tuple[LikeIt, ...]  # at most LISTED, those that share most first
    shared: Mapping[Shared, int]  # how many share each, listed or not
    budget: BudgetState


def find_let_through(rows: Rows, uris: Iterable[str]) -> set[str]:
    """Return those of these pull requests that an open lane let through, without a person, as they were merged."""
    asked = sorted(set(uris))
    return {row["pull_uri"] for row in rows.rows(LET_THROUGH_DECISIONS, {"uris": asked})} if asked else set()


def find_voided(rows: Rows, uris: Iterable[str]) -> set[str]:
    """Return those of these pull requests of which every approval is void, so that none let them through."""
    asked = sorted(set(uris))
    return {row["pull_uri"] for row in rows.rows(VOIDED, [asked])} if asked else set()


def incident(rows: Rows, uri: str, now: datetime) -> Incident | None:
    """Return the incident of a pull request that was marked bad; None where no approval here and no open lane
    let it through.

    The caller must know that it was marked and by whom: the mark itself may not have arrived yet.
    """
    approval = rows.row(APPROVAL, [uri])
    row = rows.row(DECISION, [approval["action_key"]]) if approval else rows.row(LET_THROUGH_DECISIONS, {"uris": [uri]})
    if row is None:
        return None
    author, approver = (approval or row)["author_id"], approval["actor_id"] if approval else None
    people = People(rows, [number for number in (author, approver) if number]).persons
    inputs = read_inputs(row["inputs"]) if row["inputs"] else None
    paths = rows.value(PATHS, [uri, (approval or row)["patch_ref"]]) or []
    path = inputs.evidence.path if inputs else ()
    recent = rows.rows(FAST_LANED, {"uri": uri, "since": now - SPAN, "paths": list(paths)})
    like_it, shared = _similar(rows, recent, row, _voucher_name(path))
    return Incident(
        uri=uri,
        author=people[author],
        approver=people.get(approver) if approver else None,
        approved_at=approval["approved_at"] if approval else None,
        round=row["round"],
        verdict=read_verdict(row),
        content=inputs.content if inputs else None,
        path=path,
        voucher=_voucher(rows, author, _voucher_name(path)),
        as_of=row["as_of"],
        data_version=row["data_version"],
        model_version=row["model_version"],
        is_named=row["is_named"] if approval else True,
        would_hold=_holds(recent, row, what_would_hold(inputs, paths)) if inputs else (),
        like_it=like_it,
        shared=shared,
        budget=_budget(rows, row, now),
    )


def _voucher_name(path: Sequence[str]) -> str:
    """Return the displayed name of the last voucher on a trust path; "" without a path."""
    return path[-2] if len(path) > 1 else ""


def _voucher(rows: Rows, author: int, name: str) -> Person | None:
    """Return the person with that name among all who ever vouched for the author or stand on a path to them."""
    matches = [row for row in rows.rows(VOUCHERS, [author, author]) if display_name(row) == name] if name else []
    return Person(matches[0]["did"], name) if len(matches) == 1 else None


def _holds(
    recent: Sequence[Mapping[str, Any]], wrong: Mapping[str, Any], rules: Sequence[TightenedRule]
) -> tuple[Hold, ...]:
    here = [row for row in recent if row["repository_id"] == wrong["repository_id"] and row["inputs"]][:LISTED]
    told = [(read_inputs(row["inputs"]), row["same_paths"]) for row in here]
    others = [one for one in told if judge_inputs(one[0]).lane is Lane.FAST_LANE]  # today's rules hold the rest anyway
    held = [Hold(rule, sum(holds_too(rule, *one) for one in others), len(others)) for rule in rules]
    return tuple(sorted(held, key=lambda hold: hold.holds))


def _similar(
    rows: Rows, recent: Sequence[Mapping[str, Any]], wrong: Mapping[str, Any], voucher: str
) -> tuple[tuple[LikeIt, ...], dict[Shared, int]]:
    similar = [(row, shares) for row in recent if (shares := _shared_traits(row, wrong, voucher))]
    shared: dict[Shared, int] = {name: sum(name in shares for _, shares in similar) for name in SHARES}
    nearest = sorted(similar, key=lambda entry: [name not in entry[1] for name in SHARES])[:LISTED]
    people = People(rows, (row["contributor_id"] for row, _ in nearest)).persons if nearest else {}
    return tuple(_similar_pull(row, people[row["contributor_id"]], shares) for row, shares in nearest), shared


def _similar_pull(row: Mapping[str, Any], author: Person, shares: tuple[Shared, ...]) -> LikeIt:
    return LikeIt(
        row["pull_uri"],
        row["title"] or "(no title)",
        row["repository_name"],
        author,
        row["state"],
        row["is_approved"],
        row["as_of"],
        shares,
    )


def _shared_traits(row: Mapping[str, Any], wrong: Mapping[str, Any], voucher: str) -> tuple[Shared, ...]:
    their_voucher = _voucher_name(decode_json(row["inputs"], _StoredPath).evidence.path) if row["inputs"] else ""
    shares: dict[Shared, bool] = {
        "author": row["contributor_id"] == wrong["contributor_id"],
        "voucher": bool(voucher) and their_voucher == voucher,
        "paths": bool(row["same_paths"]) and row["repository_id"] == wrong["repository_id"],
        "model": row["model_version"] == wrong["model_version"],
    }
    return tuple(name for name in SHARES if shares[name])


def _budget(rows: Rows, wrong: Mapping[str, Any], now: datetime) -> BudgetState:
    thresholds = read_thresholds(wrong)
    parameters = {"repository": wrong["repository_id"], "since": thresholds.since or datetime.min, "now": now}
    let_through = {row["pull_uri"]: row["clean"] for row in rows.rows(LET_THROUGH, parameters)}
    if wrong["lane"] != Lane.FAST_LANE or wrong["pull_uri"] not in let_through:
        return BudgetState(0, 0, 0, thresholds.budget)
    let_through[wrong["pull_uri"]] = False  # the mark may not have arrived here yet
    outcomes = [clean for clean in let_through.values() if clean is not None]
    return BudgetState(len(let_through), len(outcomes), outcomes.count(False), thresholds.budget, thresholds.since)
