"""Put the estimated fast lane into words: what it lets through, how much of that is bad, and what it costs. Pure.

Shares of bad outcomes are rounded up, intervals outwards, and nothing based on an estimate is called certified.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Literal, NamedTuple

from scoring.certificates.lane_counts import LaneCurve, Offer
from scoring.certificates.lane_curve import WORST_BAD_HIGH, offer_of
from scoring.certificates.sample_size import Need
from scoring.formatting import (
    bad_bound,
    bad_interval,
    bad_percent,
    budget_percent,
    one_decimal_up,
    percent_in_full,
    things,
    visible_name,
    weighted,
)
from scoring.pipeline.lane_history import AGREEMENTS, Agreement, Happened, LaneHistory, LaneSum
from scoring.queries.lanes import MONTHS, LaneMonth, share_interval
from scoring.queries.read import AuditCount
from triage.services.reading_times import FEWEST, TimeSaved

State = Literal["certified", "by_hand", "open", "shut_itself", "watching", "nothing"]
TITLES: Mapping[State, str] = {
    "certified": "The fast lane is certified",
    "by_hand": "The fast lane's threshold is set by hand",
    "open": "The fast lane is open, estimated",
    "shut_itself": "The estimated fast lane shut itself",
    "watching": "Open the fast lane?",
    "nothing": "The fast lane is shut",
}
PILLS: Mapping[State, str] = {
    "certified": "Certified",
    "by_hand": "Set by hand",
    "open": "Estimated, open",
    "shut_itself": "Estimated, shut",
    "watching": "Estimated, shut",
    "nothing": "Shut",
}
HAPPENED: Mapping[Happened, str] = {
    "merged_as_sent": "merged as sent",
    "fixed_after_merge": "merged, then reverted or fixed",
    "changed_and_merged": "changed, then merged",
    "changed_and_open": "changed, still open",
    "changed_and_closed": "changed, then closed",
    "closed": "closed",
    "withdrawn": "withdrawn by its author",
    "open": "still open",
}
SAYS: Mapping[Agreement, str] = {
    "agrees": "agrees",
    "agrees_so_far": "agrees so far",
    "stricter": "you were stricter",
    "wrong": "would be wrong",
    "unknown": "not known yet",
}
WAS: Mapping[Agreement, str] = {**SAYS, "agrees": "was right", "agrees_so_far": "right so far", "wrong": "was wrong"}
SUMMED: Mapping[Agreement, tuple[str, str]] = {  # one, several
    "agrees": ("agrees", "agree"),
    "agrees_so_far": ("agrees so far", "agree so far"),
    "stricter": ("time you were stricter", "times you were stricter"),
    "wrong": ("would be wrong", "would be wrong"),
    "unknown": ("not known yet", "not known yet"),
}
SUMMED_WAS: Mapping[Agreement, tuple[str, str]] = {
    **SUMMED,
    "agrees": ("was right", "were right"),
    "agrees_so_far": ("right so far", "right so far"),
    "wrong": ("turned out bad", "turned out bad"),
}
SOURCES = {
    "own": "pull requests that settled in the last year, all repositories together",
    "starter": "pull requests that settled in other public projects, not in yours",
}
# The window and source shown beside each share of bad outcomes.
WINDOWS = {"own": "last 12 months, estimate", "starter": "other projects, estimate"}
FEWEST_TOLD = 5  # least number of settled ones for a share of bad ones


def opening_words(offer: Offer) -> str:
    """Describe an offer with its threshold in one sentence."""
    bad = bad_interval(offer.bad_low, offer.bad_high)
    start = percent_in_full(offer.threshold)
    return f"Open at {start}: {bad} % of what goes through may be bad ({WINDOWS[offer.source]}), not certified."


def answer_words(offer: Offer) -> str:
    """Say how many would go through, and how many of those were bad."""
    through = weighted(offer.let_through)
    return (
        f"{through} of {weighted(offer.cases)} {SOURCES[offer.source]}. "
        f"{weighted(offer.bad) if offer.bad else 'None'} of the {through} {_were(offer.bad)} bad: "
        f"{bad_percent(offer.bad / offer.let_through)}, {bad_interval(offer.bad_low, offer.bad_high)} % as far as "
        f"these can tell ({WINDOWS[offer.source]})."
    )


def group_words(curve: LaneCurve, offer: Offer) -> list[tuple[str, str]]:
    """List the other groups for which the lane was counted, and how many of each would go through."""
    lines = []
    for name, group in (("Newcomers alone", curve.newcomers), ("With push access", curve.everybody)):
        if group is not None:
            through, bad = group.at(offer.threshold)
            spoiled = f", {weighted(bad) if bad else 'none'} of them bad" if through else ""
            lines.append((name, f"{weighted(through) if through else 'none'} of {weighted(group.cases)}{spoiled}"))
    return lines


def record_words(offer: Offer, has_model: bool) -> str:
    """Say how far such figures were off on recorded history, measured year by year (docs/method.md)."""
    if offer.source == "starter":
        return "Other projects are a poor guide: where some suggested 14 % bad, it was 34 % in projects left out."
    if not has_model:
        return (
            "These chances are each person's own record, weighed with the average. On the recorded history of other "
            "projects that was too optimistic: 20 % were bad where it said 7 %."
        )
    return "On recorded history 1.4 to 4.3 times as many were bad as counted. 1 year in 10 was above the interval."


def _were(count: float) -> str:
    return "was" if round(count) in (0, 1) else "were"


def notice_words(offer: Offer, budget: float) -> str:
    """Give the figures of the queue's notice where the advice is to open; the template has the notice's first words."""
    return (
        f"It would have let through {weighted(offer.let_through)} of {weighted(offer.cases)}, "
        f"{weighted(offer.bad) if offer.bad else 'none'} of them bad: "
        f"{bad_percent(offer.bad / offer.let_through)}, up to {bad_bound(offer.bad_high)} "
        f"({WINDOWS[offer.source]}). Your budget is {percent_in_full(budget)}."
    )


def budget_words(budget: float) -> str:
    """Say what a lane's budget limits."""
    return f"{percent_in_full(budget)}: the share of bad ones that you accept among all that the lane lets through"


def shutting_words(offer: Offer, share: float, budget: float) -> str:
    """Say when an estimated lane shuts itself; `share` of what it lets through is audited."""
    limit = bad_bound(offer.bad_high)
    why = f", since so few cases cannot prove less against your budget of {percent_in_full(budget)}"
    return (
        f"when the audit ({one_in(share)}) or the outcomes show that more than {limit} are bad"
        f"{why if offer.bad_high > budget else ''}; then only a person opens it again"
    )


def in_a_row_words(outcomes: int, answers: int) -> str:
    """Say how many bad outcomes, or bad answers of the audit, in a row would shut an open lane now."""
    bad = f"the next {outcomes:,} outcomes are" if outcomes > 1 else "the next outcome is"
    no = f"the next {answers:,} audits are" if answers > 1 else "the next audit is"
    return f"It shuts if {bad} bad, or if {no} answered with no."


def detection_words(days: float) -> str:
    """Say how long a bad lane stays open: `days` is the median until detection of lanes twice as bad from the start.

    Detection takes 3.2 to 3.9 times as long where the lane was good before (docs/measurements.md).
    """
    return (
        f"twice as bad from the start is found after {_time_words(days)} at this pace (median); one that turns bad "
        "later takes three to four times as long"
    )


def _time_words(days: float) -> str:
    """Format a number of days: in weeks from two weeks on, in years from two years on."""
    if days < 14:
        return f"about {things(max(ceil(days), 1), 'day')}"
    return f"about {things(ceil(days / 7), 'week')}" if days < 730 else f"about {things(ceil(days / 365), 'year')}"


def one_in(share: float) -> str:
    """Format a share of the audit as '1 in 3', or in per cent where that is not a whole number."""
    times = round(1 / share, 2)
    return f"1 in {times:g}" if times == int(times) else f"{100 * share:.0f} %"


def standing_words(offer: Offer) -> str:
    """Give the figures on which an open lane was opened."""
    return (
        f"It would have let through {weighted(offer.let_through)} of {weighted(offer.cases)} "
        f"{SOURCES[offer.source]}. {weighted(offer.bad) if offer.bad else 'None'} of them {_were(offer.bad)} bad: "
        f"{bad_interval(offer.bad_low, offer.bad_high)} % ({WINDOWS[offer.source]})."
    )


def model_words(offer: Offer, serving: str) -> str:
    """Name the model whose scores an opening was counted on, and the model that serves now where it is another."""
    source = f"with the scores of model {offer.model}" if offer.model else "without a trained model"
    if offer.model == serving:
        return f"These figures were counted {source}."
    serving_words = f"model {serving} serves" if serving else "each person's own record serves, without a model"
    return (
        f"These figures were counted {source}, and now {serving_words}: the lane may be better or worse than they say."
    )


def audit_words(counts: AuditCount) -> str:
    """Say how many the audit of an open estimated lane has drawn so far, and the answers."""
    if not counts.drawn:
        return "0 of them were audited so far."
    decided_before = counts.drawn - counts.answered - counts.due
    parts = [f"{counts.answered:,} answered"]
    if counts.answered:
        parts += [
            f"{counts.bad:,} of these would not be merged as sent" if counts.bad else "all would be merged as sent"
        ]
    parts += [f"{counts.due:,} {'waits' if counts.due == 1 else 'wait'} for an answer"]
    parts += [f"{decided_before:,} decided or changed before anybody answered"] if decided_before else []
    unlisted = " The list below has none without an answer." if counts.answered < counts.drawn else ""
    return f"The audit drew {counts.drawn:,} more: {', '.join(parts)}.{unlisted}"


def certificate_words(need: Need | None, budget: float, training: str) -> str:
    """Say when a certificate is possible at the earliest; `training` says when a model is, "" where there is one."""
    if training:
        return f"only with your own model. {training}"
    if need is None:
        return f"enough are settled; proof is missing that the share of bad ones is within {percent_in_full(budget)}"
    if need.threshold is None:
        return f"needs {need.needed:,} settled ones that scored high enough, all of them clean"
    weeks = f"in about {things(need.weeks, 'week')} at this pace" if need.weeks is not None else "not at this pace"
    return (
        f"{weeks}, at the earliest: it takes {need.needed:,} settled ones at {percent_in_full(need.threshold)} or "
        f"above, as clean as those so far ({need.have:,})"
    )


def nothing_words(curve: LaneCurve | None, budget: float, fewest: int) -> str:
    """Say why no lane can be offered, and what is missing."""
    if curve is None:
        return (
            "No pull request by people with a record has settled yet, so there is no estimate. One settles when it "
            "is closed, or when its days after the merge are over. Your own past counts once "
            f"{fewest} have settled."
        )
    highs = [point.bad_high for point in curve.points if point.bad <= budget * point.let_through]
    why = (
        f"Where at most {percent_in_full(budget)} of them were bad, too few would go through to be sure: up to "
        f"{bad_bound(min(highs))} of those may be bad, and a lane needs {percent_in_full(WORST_BAD_HIGH)} or less."
        if highs
        else f"At every threshold more than {percent_in_full(budget)} of them were bad."
    )
    rests = f"It rests on {weighted(curve.cases)} {SOURCES[curve.source]}."
    return f"Nothing yet. {rests} {why} {_larger_budget_words(curve)}"


def _larger_budget_words(curve: LaneCurve) -> str:
    """Say what the smallest budget in whole per cent that gives an offer would let through."""
    most = round(100 * WORST_BAD_HIGH)
    for budget in range(1, most + 1):
        if offer := offer_of(curve, budget / 100):
            return (
                f"A budget of {budget} % in the settings would let {weighted(offer.let_through)} of "
                f"{weighted(offer.cases)} through, {weighted(offer.bad) if offer.bad else 'none'} of them bad, "
                f"up to {bad_bound(offer.bad_high)}. More settled ones can change that too."
            )
    return f"More settled ones can change that; no budget up to {most} % does now."


BUDGETS_SHOWN = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


def budget_effects(curve: LaneCurve, budget: float) -> list[tuple[str, str, str, bool]]:
    """Return for some budgets, and the one in force (marked by True), how many pass and how many of these are bad."""
    effects = []
    for one in sorted({*BUDGETS_SHOWN, budget}):
        offer = offer_of(curve, one)
        passed = f"{weighted(offer.let_through)} of {weighted(offer.cases)}" if offer else "none"
        some = weighted(offer.bad) if offer and offer.bad else "none"
        bad = f"{some}, up to {bad_bound(offer.bad_high)}" if offer else some
        effects.append((percent_in_full(one), passed, bad, one == budget))
    return effects


def untried_words(curve: LaneCurve | None, budget: float, fewest: int, a_month: float) -> str:
    """Say how many settled pull requests are missing before a threshold can be tried, and how long they take."""
    cases = ceil(curve.cases) if curve else 0
    if cases >= fewest:
        within = percent_in_full(budget)
        return (
            f"Of {cases:,} {SOURCES['own']}, no threshold keeps bad ones within {within} with enough of them to tell."
        )
    sentence = f"{cases} of {fewest} have settled in the last year, all repositories together"
    if not a_month:
        return f"{sentence}; none of them in this one."
    return f"{sentence}; the rest takes {_time_words(30 * (fewest - cases) / a_month)} at this repository's pace alone."


def shut_words(budget: float) -> str:
    """Say why a lane that shut itself cannot be reopened, and when it can."""
    return (
        "You can't open it again yet. What shut it now counts in the past, and no threshold keeps your budget of "
        f"{percent_in_full(budget)} there. You can once the past keeps it again, or after you raise the budget."
    )


def costs_words(offer: Offer, through: int, days: int, audited: float) -> str:
    """Say in one sentence what the lane saves and risks, on as many as it took in `days`; "" where it took none.

    The share `audited` of them is read in full all the same.
    """
    if not through:
        return ""
    spared, worst = max(round(through * (1 - audited)), 1), one_decimal_up(through * offer.bad_high)
    likely = one_decimal_up(through * offer.bad / offer.let_through)
    return (
        f"In {days} days it would have spared you about {things(spared, 'full reading')} of {through:,}. "
        f"Of the next {through:,} about {likely} may be bad, at worst {worst}."
    )


HARDLY_TELLS = "In the backtest the chances hardly tell clean ones from bad ones"


class Advice(NamedTuple):
    """What to do about a lane, and why."""

    action: Literal[
        "open it",
        "keep watching",
        "close it",
        "close it, or answer each of its audits",
        "leave it open",
        "leave it open, and answer its audits",
    ]
    why: str


def watching_advice(history: LaneHistory, budget: float, hardly_tells: bool = False) -> Advice:
    """Advise whether to open a lane that only watches, by what it would have done in this repository alone.

    Its figures are of all repositories together: it is opened where those of this one do not speak against it, and
    never where the backtest found no order in the chances (`hardly_tells`).
    """
    if hardly_tells:
        return Advice(
            "keep watching",
            f"{HARDLY_TELLS}, so they cannot say what to let through.",
        )
    settled, bad = history.settled, history.count("wrong")
    if settled < FEWEST_TOLD:
        some = f"Only {settled}" if settled else "None"
        return Advice(
            "keep watching", f"{some} of its rows settled here so far, and it takes {FEWEST_TOLD} to tell more."
        )
    limit = percent_in_full(budget)
    if bad > budget * settled:
        return Advice(
            "keep watching", f"Of {settled} settled here {bad} would be wrong, more than your budget of {limit}."
        )
    return Advice(
        "open it",
        f"Of {settled} settled here {bad or 'none'} would be wrong, so nothing here speaks against what all "
        "repositories together show. The audit goes on, and the lane shuts itself.",
    )


def known_words(settled: int, answered: int, bad: int) -> str:
    """Say what is known of a lane: outcomes that settled, answers of its audit, and how many of both were bad."""
    parts = [f"{settled:,} settled"] if settled else []
    parts += [f"{answered:,} audited"] if answered else []
    return f"{' and '.join(parts)} so far, {f'{bad:,}' if bad else 'none'} of them bad"


def open_advice(history: LaneHistory, audit: AuditCount, budget: float, hardly_tells: bool = False) -> Advice:
    """Advise what to do about an open lane, by what it let through since its opening and by the audit's answers.

    Whether more than the budget were bad is told by an interval of 95 % (`share_interval`). Until that tells, a lane
    whose chances the backtest found without order (`hardly_tells`) would not be opened today, and the advice says so.
    """
    advice = _advise_by_outcomes(history, audit, budget)
    if not hardly_tells or advice.action in ("close it", "leave it open"):
        return advice
    why = f"{advice.why} {HARDLY_TELLS}: we would not open it today."
    return Advice("close it, or answer each of its audits", why)


def _advise_by_outcomes(history: LaneHistory, audit: AuditCount, budget: float) -> Advice:
    known, bad = history.settled + audit.answered, history.count("wrong") + audit.bad
    counts = known_words(history.settled, audit.answered, bad)
    if not known:
        return Advice("leave it open, and answer its audits", "Nothing is known of it since it was opened.")
    if known < FEWEST_TOLD:
        return Advice("leave it open, and answer its audits", f"{counts}: too few to judge.")
    low, high = share_interval(bad, known)
    limit = percent_in_full(budget)
    if low > budget:
        return Advice("close it", f"{counts}: more than your budget of {limit} for sure.")
    if high <= budget:
        return Advice("leave it open", f"{counts}: within your budget of {limit} for sure.")
    return Advice("leave it open, and answer its audits", f"{counts}: too few to tell whether that is within {limit}.")


def lane_answer(results: Sequence[LaneMonth], audited: tuple[int, int], budget: float) -> tuple[str, str]:
    """Say how much of what lanes let through, or their audit drew, turned out bad, and the evidence; "" for nothing.

    `audited` counts answered audits and bad ones among them; `budget` is the share allowed to be bad on average.
    Below FEWEST_TOLD known ones a share means nothing, so there is none. A share above the limit alone does not shut a
    lane: `still_open` says what is missing.
    """
    settled = sum(month.n for month in results)
    known, bad = settled + audited[0], sum(month.bad for month in results) + audited[1]
    if not known:
        return "", ""
    counts = known_words(settled, audited[0], bad)
    if known < FEWEST_TOLD:
        return f"{counts}: too few to judge.", ""
    if not results:
        return f"{counts}.", ""
    low, high = share_interval(bad, known)
    within = "within" if high <= budget else "not surely within" if bad / known <= budget else "above"
    of_lanes = "limit of its lane" if len({month.budget for month in results}) == 1 else "average limit of these lanes"
    share = f"{bad_bound(bad / known)}, {within} {budget_percent(budget)}, the {of_lanes}"
    edges = bad_interval(low, high).replace("\N{EN DASH}", " % and ")
    return (
        f"{counts}: {share}.",
        f"Settled ones of the last {MONTHS} months and all audits, all repositories together: the true share lies "
        f"between {edges} % (95 % interval).",
    )


def still_open(name: str, needed: int) -> str:
    """Say how many bad outcomes in a row would shut an open lane above its limit."""
    more = "if the next one is bad too" if needed == 1 else f"if the next {needed:,} are bad too"
    return f"{visible_name(name)} is open: too few have settled to shut it. It shuts {more}."


def sum_words(history: LaneHistory, would: bool = True) -> str:
    """Sum up the rows: '18 let through: 10 agree, 6 agree so far, 1 time you were stricter, 1 would be wrong'."""
    parts = []
    for agreement in AGREEMENTS:
        if count := history.count(agreement):
            singular, plural = (SUMMED if would else SUMMED_WAS)[agreement]
            parts.append(f"{count} {singular if count == 1 else plural}")
    return f"{len(history.rows)} let through: {', '.join(parts)}" if parts else ""


def time_words(saved: TimeSaved) -> str:
    """Say how much reading time the lane would have saved, counting only changes with a measured time."""
    if not saved.measured:
        return "not measured"
    if saved.measured < FEWEST:
        return f"not shown yet: only {saved.measured} of {saved.rows:,} were measured"
    minutes = ceil(saved.measured * saved.mean_seconds / 60)
    return f"{things(minutes, 'minute')} with the change open, in the {saved.measured:,} of {saved.rows:,} measured"


def month_words(lane_sum: LaneSum, would: bool) -> str:
    """Say for the queue's head what the lane let through in the last thirty days, with the outcomes."""
    if not lane_sum.let_through:
        return ""
    waiting = lane_sum.let_through - lane_sum.clean - lane_sum.bad
    parts = [
        f"{count:,} {words}"
        for count, words in (
            (lane_sum.clean, "stayed clean"),
            (lane_sum.bad, "turned out bad"),
            (waiting, "not settled"),
        )
        if count
    ]
    verb = "would have let through" if would else "let through"
    return f"{verb} {lane_sum.let_through:,} of {lane_sum.offered:,} in 30 days: {', '.join(parts)}"
