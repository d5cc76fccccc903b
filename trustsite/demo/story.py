"""The demo's story: the scores with their reasons, and a check of every promise about the attacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from ingest.store.transaction import Rows
from scoring.config.policy import Parameters, policy_from_settings
from scoring.formatting import percent, percent_interval, things
from scoring.queries import read
from scoring.types import Lane
from trustsite.standins.answers import LOOK_ALIKE_DOWNLOADS
from trustsite.world import World

MAIN = "lantern"  # the repository whose fast lane is open; the others show shadow mode
CONTENT = ("high_flag", "content_risk_high")  # codes of reasons that only the reviewer gives
LANE_WORDS = {Lane.FAST_LANE: "fast lane", Lane.NORMAL_QUEUE: "needs review", Lane.NEEDS_HUMAN: "flagged"}


@dataclass(frozen=True, slots=True)
class Promise:
    words: str
    kept: bool


def tell(rows: Rows, world: World, judged_before: read.QueueRow) -> tuple[list[str], list[Promise]]:
    """Return the story's lines and promises; `judged_before` is the swapped pull request before the swap."""
    board, open_pulls = read.dashboard(rows), _query_open(rows)
    lines = [
        f"{board.contributors} contributors, {board.vouches} vouches, {board.pull_requests} pull requests, "
        f"{sum(board.lanes.values())} open in {board.watched} watched repositories.",
        f"{board.lanes['fast_lane']} fast lane, {board.lanes['normal_queue']} needs review, "
        f"{board.lanes['needs_human']} flagged, {board.lanes['would_be_fast_lane']} would be fast lane, "
        f"{board.own} the maintainers' own.",
        "",
        *_month_lines(rows, world),
        "",
        *_people_lines(rows, world, open_pulls),
        "",
        *_lane_lines(rows, open_pulls),
        "",
        *_swap_lines(rows, world, judged_before),
        "",
        *_ring_lines(rows, world),
    ]
    return lines, list(_check_promises(rows, world, judged_before, open_pulls))


def promises(rows: Rows, world: World, judged_before: read.QueueRow) -> list[Promise]:
    """Return the promises of `tell` without the story's lines, which take most of its time."""
    return list(_check_promises(rows, world, judged_before, _query_open(rows)))


def _month_lines(rows: Rows, world: World) -> Iterator[str]:
    """Yield lines on the thirty days: notes of shadow mode, the opened lane, the change that went wrong."""
    report, lane = read.shadow_report(rows, world.watched[SHADOWED]), _find_main_lane(rows, world)
    if report is not None and report.days:
        totals, first_day = report.total, report.days[-1].day
        yield (
            f"{SHADOWED.capitalize()} stays in shadow mode: since {first_day} {totals.would} rounds would have been "
            f"fast lane. {totals.merged_as_sent} were merged as sent, of which people marked "
            f"{_count_marked(rows, world)} as bad, {totals.changed} changed, "
            f"{totals.closed} were closed, {totals.still_open} are open."
        )
    opened = _find_opening(rows, world)
    if opened is not None and lane is not None:
        opener = opened.opener.name if opened.opener else "Somebody"
        answers = things(opened.audited, "answer")
        yield (
            f"{opener} opened the fast lane of {MAIN} on {opened.opened_at:%Y-%m-%d}. {lane.notice} "
            f"Since then the audit has {answers}, {opened.audited_bad} of them bad."
        )
    incident = read.incident(rows, world.pulls["went_wrong"][0], _read_present(rows))
    if incident is not None and incident.approver is not None:
        chance = percent(incident.verdict.estimate.probability or 0.0)
        yield (
            f"A change by {incident.author.name} had a chance of {chance} to stay clean when {incident.approver.name} "
            f"approved it on {incident.approved_at:%Y-%m-%d}, and was taken back: its incident shows what was known "
            "then."
        )


def _people_lines(rows: Rows, world: World, open_pulls: "_OpenPulls") -> Iterator[str]:
    """Yield one line for each part of the story, with the reasons of the person's newest open pull request."""
    for name in ("mara", "sami", "alba", "ruben", "blitz", "mallory", "narcis", "castor", "grudge", "selma"):
        score = read.score(rows, world.cast[name])
        if score is not None:
            estimate, newest = score.verdict.estimate, open_pulls.newest.get(score.person.did)
            why = newest.sentence if newest else score.explanation
            chance = "no score yet"
            if estimate.probability is not None:
                interval = percent_interval(estimate.low, estimate.high)
                chance = f"stays clean: {percent(estimate.probability)} ({interval})"
            yield f"{score.person.name}: {LANE_WORDS[score.decision]}, {chance}. {why}."


@dataclass(frozen=True, slots=True)
class _OpenPulls:
    """Open pull requests of people other than the maintainers, queried once.

    `fast`: in the fast lane; `sturdy`: those of them with a trust path that no single account can end; `caught`: those
    that a person must read because of the reviewer's findings. `newest` is the newest one of each author.
    """

    fast: list[read.QueueRow]
    sturdy: list[read.QueueRow]
    caught: list[read.QueueRow]
    newest: dict[str, read.QueueRow]


def _query_open(rows: Rows) -> _OpenPulls:
    rows_of_others = [row for group in read.queue(rows, read.QueueQuery()).groups for row in group.rows if not row.own]
    fast = [row for row in rows_of_others if row.verdict.lane is Lane.FAST_LANE]
    human = (row for row in rows_of_others if row.verdict.lane is Lane.NEEDS_HUMAN)
    dependent = {
        author_and_repository: _depends_on_one_account(rows, *author_and_repository)
        for author_and_repository in {(row.author.did, row.repository_key) for row in fast if row.path}
    }
    return _OpenPulls(
        fast,
        [row for row in fast if row.path and not dependent[row.author.did, row.repository_key]],
        [row for row in human if row.verdict.reasons and row.verdict.reasons[0].code in CONTENT],
        {row.author.did: row for row in sorted(rows_of_others, key=lambda row: row.opened_at)},
    )


def _lane_lines(rows: Rows, open_pulls: _OpenPulls) -> Iterator[str]:
    """Yield a fast-laned one with the wording on its threshold, and one that the reviewer sent to a human."""
    for row in open_pulls.sturdy[:1]:
        yield f"“{row.title}” by {row.author.name} is fast lane: {row.sentence}."
    for row in open_pulls.caught[:1]:
        yield f"“{row.title}” by {row.author.name} is flagged: {row.sentence}."
        review = read.content_review(rows, row.uri)
        high = [finding for finding in review.findings if finding.severity == "high"] if review else []
        yield from (f"The reviewer on line {finding.line} of {finding.file}: {finding.explanation}" for finding in high)


def _swap_lines(rows: Rows, world: World, before: read.QueueRow) -> Iterator[str]:
    after, changed = read.pull(rows, before.uri), read.changed_after(rows).get(before.uri)
    if after is not None and changed is not None:
        yield (
            f"{after.author.name} swapped the patch of “{after.title}” after {changed.approver.name} approved it: "
            f"approval and decision on {(before.patch_id or 'no patch')[:12]} are void, the new decision names "
            f"{(after.patch_id or 'no patch')[:12]}, and its row says that it changed after that approval."
        )


def _ring_lines(rows: Rows, world: World) -> Iterator[str]:
    mass = _total_trust(rows, world.groups["ring"])
    yield (
        f"The ring of {len(world.groups['ring'])} bought one vouch and vouched for itself "
        f"{_count_inner_vouches(rows, world.groups['ring'])} times: together it holds {mass:.4f} of trust, "
        f"less than the {_entry_limit():.2f} that one vouch of a seed carries."
    )


def _check_promises(rows: Rows, world: World, before: read.QueueRow, open_pulls: _OpenPulls) -> Iterator[Promise]:
    attackers = {did for group in ("ring", *_LONERS) for did in world.groups[group]}
    after = read.pull(rows, before.uri)
    yield Promise(
        "at least one pull request is fast-laned, by a trust path that no single account can end",
        bool(open_pulls.sturdy),
    )
    yield Promise(NAMED, bool(open_pulls.fast) and all(_names_its_threshold(row) for row in open_pulls.fast))
    yield Promise("at least one goes to a human, with the reviewer's reason", bool(open_pulls.caught))
    yield Promise("no attacker is in the fast lane", not attackers & {row.author.did for row in open_pulls.fast})
    yield Promise(
        "the ring holds less trust than one vouch of a seed", _total_trust(rows, world.groups["ring"]) < _entry_limit()
    )
    for name, words in (("narcis", "a self-vouch"), ("castor", "a mutual vouch")):
        yield Promise(f"{words} gives neither trust nor a record", _gained_nothing(rows, world.cast[name]))
    has_nothing = _gained_nothing(rows, world.cast["selma"]) and _has_no_record(rows, world.cast["selma"])
    yield Promise("a self-marked merge gives neither trust nor a record", has_nothing)
    yield Promise("the self-marked pull requests are still open", _all_open(rows, world.pulls["self_marked"]))
    yield Promise("the lone denouncer moved nobody to a human", _moved_nobody(rows, world.cast["grudge"]))
    swapped = after is not None and (after.record_cid, after.patch_id) != (before.record_cid, before.patch_id)
    yield Promise("the swapped patch has a decision of its own", swapped)
    yield Promise(VOIDED, after is not None and _is_voided(rows, world, before, after))
    open_keys = {repository.key for repository in read.watched_repositories(rows) if not repository.settings.shadow}
    yield Promise("only the main repository is out of shadow mode", open_keys == {world.watched[MAIN]})
    yield Promise(CAUGHT, rows.value(_ADDRESSING) == ["needs_human"])
    yield Promise(NAMED_PACKAGE, _names_look_alike(rows, world))
    unread = rows.value("select count(*) from current_decisions where not own and content_risk is null")
    yield Promise("the content of every open pull request was read", unread == 0)
    yield Promise(OPENED, _is_open_on_an_estimate(rows, world))
    yield Promise(WATCHED, _is_watched_for_a_month(rows, world))
    yield Promise(WENT_WRONG, _incident_shows_decision(rows, world))
    has_several = rows.value(_OF_THEIR_OWN) >= SEVERAL
    yield Promise(f"at least {SEVERAL} contributors have a chance from pull requests of their own", has_several)
    yield Promise("everybody was scored", read.dashboard(rows).scored == len(world.cast))


def _read_present(rows: Rows) -> datetime:
    return rows.value("select max(as_of) from current_scores")


def _find_main_lane(rows: Rows, world: World) -> read.LaneState | None:
    return next((lane for lane in read.lane_states(rows) if lane.repository == world.watched[MAIN]), None)


def _find_opening(rows: Rows, world: World) -> read.EstimatedLane | None:
    lanes = read.estimated_lanes(rows, _read_present(rows))
    return next((lane for lane in lanes if lane.repository == world.watched[MAIN]), None)


def _is_open_on_an_estimate(rows: Rows, world: World) -> bool:
    """Return True if a maintainer opened the main repository's lane, its audit was answered, and it is still open."""
    lane, opened = _find_main_lane(rows, world), _find_opening(rows, world)
    return opened is not None and opened.audited > 0 and lane is not None and lane.is_open and lane.basis == "estimated"


def _is_watched_for_a_month(rows: Rows, world: World) -> bool:
    """Return True if shadow mode noted rounds over WEEKS_DAYS with every outcome, at least SETTLED settled."""
    report = read.shadow_report(rows, world.watched[SHADOWED])
    if report is None or not report.shadow or not report.days:
        return False
    totals, first_day, last_day = report.total, report.days[-1].day, report.days[0].day
    outcome_counts = (
        totals.merged_as_sent,
        totals.changed,
        totals.closed,
        totals.still_open,
        _count_marked(rows, world),
    )
    lasts_weeks = first_day is not None and last_day is not None and (last_day - first_day).days >= WEEKS_DAYS
    return lasts_weeks and all(outcome_counts) and totals.would - totals.still_open >= SETTLED


def _count_marked(rows: Rows, world: World) -> int:
    """Count the pull requests that would have been fast lane, were merged as sent and were later marked as bad."""
    return rows.value(_FIXED, [world.watched[SHADOWED]])


def _incident_shows_decision(rows: Rows, world: World) -> bool:
    """Return True if a fast-laned change was reverted and its incident shows the decision at its approval."""
    (uri,) = world.pulls["went_wrong"]
    incident = read.incident(rows, uri, _read_present(rows))
    is_marked = any(action.outcome == "reverted" for action in read.past_actions(rows, uri))
    return is_marked and incident is not None and incident.is_named and incident.verdict.lane is Lane.FAST_LANE


SHADOWED = "tidepool"  # stays in shadow mode, with enough settled pull requests for an offer
SETTLED, WEEKS_DAYS = 10, 20
_FIXED = """
select count(distinct s.pull_uri) from shadow_rounds s join repositories r using (repository_id)
semi join (from marks where not clean) m on m.pull_uri = s.pull_uri
where r.repo_key = ? and s.outcome = 'merged_as_sent'
"""
SEVERAL = 10
OPENED = "the main repository's fast lane was opened on an estimate, its audit is answered, and nothing has shut it"
WATCHED = f"shadow mode noted weeks of rounds that ended in every way, {SETTLED} or more of them settled"
WENT_WRONG = "the incident of an approved change that was taken back shows the decision that its approval saw"
NAMED = "the fast lane says of its threshold that it is estimated and nothing certifies it, until something does"
VOIDED = "the approval of the swapped patch is void: it changed after it was approved, and is not fast lane"
CAUGHT = "the diff that tells its reviewer what to find goes to a human"
NAMED_PACKAGE = "the package with nearly a known name goes to a human, with its age and its downloads"
# The lanes of open pull requests in which a scanner found text that addresses the reviewer.
_ADDRESSING = """
select list(distinct d.lane) from current_decisions d join content_reviews v using (pull_uri)
join pull_requests p on p.pull_uri = d.pull_uri and p.patch_ref = v.patch_ref
where contains(v.findings, '"scanner":"addressed"') and v.high_flags > 0
"""
# People whose score rests on their own settled pull requests.
_OF_THEIR_OWN = "select count(*) from current_scores where repository_id = 0 and probability is not null and cases > 0"
_LONERS = ("self_vouch", "mutual_pair", "denouncer", "self_marked", "stranger")


def _names_its_threshold(row: read.QueueRow) -> bool:
    """Return True if a fast-laned row says that its threshold is not certified."""
    codes = {reason.code for reason in row.verdict.reasons}
    return "threshold_estimated" in codes and "fast lane estimated, not certified" in row.sentence


def _is_voided(rows: Rows, world: World, before: read.QueueRow, after: read.QueueRow) -> bool:
    """Return True if the approval names the patch that was judged first, and is void, and the row is not fast lane."""
    changed = read.changed_after(rows).get(before.uri)
    if changed is None or any(approval.subject.uri == before.uri for approval in read.approved(rows)):
        return False
    names_patch = (changed.approver.did, changed.seen.patch_id) == (world.cast["ana"], before.patch_id)
    was_void = any(reason.code == "approved_before" for reason in after.verdict.reasons)
    return names_patch and was_void and after.verdict.lane is not Lane.FAST_LANE


def _names_look_alike(rows: Rows, world: World) -> bool:
    """Return True if the stranger's change goes to a human, and a finding has age and downloads of its package."""
    (uri,) = world.pulls["stranger"]
    row, review = read.pull(rows, uri), read.content_review(rows, uri)
    if row is None or review is None or row.verdict.lane is not Lane.NEEDS_HUMAN:
        return False
    figures = ("days before this change", f"{LOOK_ALIKE_DOWNLOADS} downloads a week")
    return any(
        finding.severity == "high" and all(figure in finding.explanation for figure in figures)
        for finding in review.findings
    )


def _depends_on_one_account(rows: Rows, author: str, repository: str) -> bool:
    """Return True if losing one account, not a seed, would end the seeds' trust in the author."""
    explanation = read.explain_trust(rows, author, repository, policy_from_settings())
    return explanation is None or explanation.dominator is not None


def _all_open(rows: Rows, uris: Sequence[str]) -> bool:
    watched = rows.rows("select state from pull_requests where pull_uri in (select unnest(?))", [list(uris)])
    return bool(watched) and all(row["state"] == "open" for row in watched)


def _gained_nothing(rows: Rows, did: str) -> bool:
    """Return True if a person has no trust, and no better chance than a person without a record."""
    score = read.score(rows, did)
    if score is None or score.structural_trust > 0:
        return False
    return (score.verdict.estimate.probability or 0.0) < settings.PRIOR_CLEAN_RATE


def _has_no_record(rows: Rows, did: str) -> bool:
    """Return True if no pull request of this person counts as settled, verified or labelled."""
    score = read.score(rows, did)
    return score is not None and score.verdict.estimate.cases == 0 and rows.value(_SETTLED, [did]) == 0


_SETTLED = """
select count(*) from contributors c
join pull_requests p on p.author_id = c.contributor_id left join labels l using (pull_uri)
where c.did = ? and (p.merge_proof = 'verified' or l.pull_uri is not null)
"""


def _moved_nobody(rows: Rows, denouncer: str) -> bool:
    """Return True if people whom only this person denounced keep their lane: a human by their record, or a vouch."""
    denounced_rows = rows.rows(_TOUCHED, [denouncer])
    trusted = [row for row in denounced_rows if row["vouched_by_seed"]]
    return (
        bool(trusted) and not any(row["moved"] for row in denounced_rows) and all(row["trust"] > 0.5 for row in trusted)
    )


# Judgements, at the site and in each repository, of people whom this person denounces but no seed there does.
_TOUCHED = """
with said as (select voucher_id, subject_id, kind from vouches where superseded_at is null),
by_seed as (select repository_id, subject_id, kind from said join seeds s on s.contributor_id = voucher_id),
judged as (
  select contributor_id, repository_id, structural_trust, lane, reasons from current_scores
  union all select contributor_id, repository_id, structural_trust, lane, reasons from current_decisions
)
select j.structural_trust as trust,
  contains(j.reasons, '"denounced_by_seed"') or (j.lane = 'needs_human'
    and not regexp_matches(j.reasons, '"(low_probability|high_flag|content_risk_high|audit_drawn)"')) as moved,
  exists (
    from by_seed b where b.repository_id = j.repository_id and b.subject_id = j.contributor_id and b.kind = 'vouch'
  ) as vouched_by_seed
from judged j
join said d on d.subject_id = j.contributor_id and d.kind = 'denounce'
join contributors c on c.contributor_id = d.voucher_id and c.did = ?
where not exists (
  from by_seed b where b.repository_id = j.repository_id and b.subject_id = j.contributor_id and b.kind = 'denounce'
)
"""


def _total_trust(rows: Rows, dids: Sequence[str]) -> float:
    """Return the first-passage trust of these people from the site's seeds, together."""
    sql = (
        "select coalesce(sum(first_passage), 0) from trust join contributors using (contributor_id) "
        "where repository_id = 0 and did in (select unnest(?))"
    )
    return rows.value(sql, [list(dids)])


def _count_inner_vouches(rows: Rows, dids: Sequence[str]) -> int:
    sql = (
        "with ring as (select contributor_id from contributors where did in (select unnest(?))) "
        "select count(*) from vouches where superseded_at is null "
        "and voucher_id in (from ring) and subject_id in (from ring)"
    )
    return rows.value(sql, [list(dids)])


def _entry_limit() -> float:
    """Return the trust that one new vouch of a seed passes on."""
    return Parameters().transfer
