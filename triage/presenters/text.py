"""Words for people: incidents, missing figures, contributors, trust, ages and intervals. Pure.

For an incident: the rule that would have stopped a change, what other changes share with it, and the remaining budget.
These figures are for maintainers only: they say what a change must look like for the fast lane.
For a missing figure: what is missing, what produces it, and how long it takes. For a contributor: words to read aloud.

For structural trust: what it depends on, who brings it, and who depends on it. Unknown is not bad: a missing path is
not mentioned here, and a single path is stated as a fact about the network.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from scoring.certificates.certificate import NeedRecord
from scoring.certificates.sample_size import Need, say_need
from scoring.explain.spoken import briefing
from scoring.formatting import (
    bad_bound,
    budget_percent,
    number_of,
    percent,
    percent_in_full,
    percent_interval,
    risk_percent,
    things,
    trust_bound,
    trust_figure,
    visible_name,
)
from scoring.formatting import visible as visible
from scoring.gate.counterfactual import TightenedRule
from scoring.queries.audited import is_drawn
from scoring.queries.read import (
    Answers,
    BudgetState,
    ContributorScore,
    Hold,
    Person,
    Place,
    Shared,
    TrainingNeed,
    TrustExplanation,
    VouchWorth,
    hidden_words,
)
from scoring.thresholds import items_needed
from scoring.training.summary import ShownLane, ShownModel
from scoring.types import Estimate, Measure, Param, Verdict
from triage.presenters.lane import FEWEST_TOLD

SHARE_WORDS: Mapping[Shared, str] = {
    "author": "same author",
    "voucher": "same voucher",
    "paths": "same files",
    "model": "same model",
}
LEAST_RISK, LEAST_SILENT_DAYS = 0.1, 30
CONDITION_WORDS: Mapping[str, str] = {
    "certificate": "a certified threshold",
    "verdict": "a verdict on its content",
    "coverage": "a full scan of it",
    "newest_round": "a judgement of the latest round",
    "account_changes": "no recent change of an account behind it",
    "silence": "an author without a long absence",
    "signing": "the signature that its author's commits usually have",
    "never_fast_paths": "no file that always needs a person",
    "enrichment": "the end of all look-ups",
    "tier": "an attestation in the sensitive tier",
    "audit": "the audit draw",
}


def is_worth_setting(rule: TightenedRule) -> bool:
    """Tell a rule that somebody might set from one that would stop nearly everything.

    Every finding has a risk of LEAST_RISK or more, and most people are away for days.
    """
    least = {"r_low": LEAST_RISK, "silent_days": LEAST_SILENT_DAYS}.get(rule.rule)
    return least is None or number_of(rule.after) >= least


def hold_words(hold: Hold) -> str:
    """Describe one rule that would have held it, as a clause, with how many others it holds too."""
    words = WORDS[hold.rule.rule](hold.rule.before, hold.rule.after)
    return f"{words}: {hold.holds:,} of {hold.others:,} others" if hold.others else words


def budget_words(state: BudgetState) -> str:
    """Say how many that the lane let through turned out bad, against its budget."""
    if not state.let_through:
        return "It did not go through the fast lane, so nothing counts against its limit."
    count = things(state.let_through, "pull request")
    began = f"Since {state.since.day} {state.since:%b %Y} this lane" if state.since else "So far this lane"
    sentence = f"{began} let through {count}: {state.settled:,} settled, {state.bad:,} turned out bad."
    limit = f"the limit of {budget_percent(state.budget)} that the lane had when it let this one through"
    if state.settled < FEWEST_TOLD:
        return f"{sentence} That is too few to judge against {limit}."
    against = "above" if state.is_spent else "within"
    return f"{sentence} That is {bad_bound(state.bad / state.settled)} of what settled, {against} {limit}."


def _was_before(before: Param, say: Callable[[float], str]) -> str:
    return "" if before is None else f" (the setting was {say(number_of(before))})"


WORDS: Mapping[str, Callable[[Param, Param], str]] = {
    "t_high": lambda before, after: (
        f"a lane that starts above its chance of {percent(number_of(after))}{_was_before(before, percent_in_full)}"
    ),
    "r_low": lambda before, after: (
        f"a limit of content risk below its {risk_percent(number_of(after))}{_was_before(before, percent_in_full)}"
    ),
    "trust": lambda before, after: (
        f"a demand for more trust than its {trust_figure(number_of(after))}{_was_before(before, trust_bound)}"
    ),
    "two_ways": lambda before, after: "a demand that trust does not hang on one account that is no seed",
    "account_change_days": lambda before, after: (
        f"{things(int(number_of(after)), 'day')} since the last change of an account behind it (it was {before})"
    ),
    "silent_days": lambda before, after: (
        f"a review of whoever was away for {things(int(number_of(after)), 'day')} (it was {before}; its author was)"
    ),
    "condition": lambda before, after: f"a demand for {CONDITION_WORDS.get(str(after), 'more')}, which is off here",
    "never_fast_paths": lambda before, after: f"{visible_name(after)} in the list “Always need a person”",
    "tier": lambda before, after: "the repository in the sensitive tier, which asks for an attestation",
    "audit": lambda before, after: (
        "an audit of all that the lane lets through"
        + ("" if before is None else f" (it drew {100 * number_of(before):.3g} %)")
    ),
}


AT_ONCE = "manage.py train does it at once."
PRIOR_SERVES = "For now the chance is each person's own record, weighed with the average of past pull requests."


def next_training(need: TrainingNeed) -> str:
    """Say when the worker trains next."""
    if need.is_training:
        return "A model is trained beside these pages, which takes some minutes."
    if not need.days:
        return f"The worker does not train here; {AT_ONCE}"
    if need.due is None:
        return f"The worker trains within the hour; {AT_ONCE}"
    return f"The worker trains next on {need.due.day} {need.due:%b %Y} after {need.due:%H:%M} UTC; {AT_ONCE}"


def training_words(need: TrainingNeed) -> str:
    """Say how many pull requests have settled for a model, how many are needed, and when the worker trains."""
    return (
        f"A model learns from settled pull requests of anybody that were opened at least {need.quiet_days:,} days ago: "
        f"{need.cases:,} by {things(need.authors, 'author')} so far, {need.fewest_cases:,} by {need.fewest_authors:,} "
        f"are needed.{' That is enough.' if need.is_enough else ''} {next_training(need)}"
    )


def no_reliability(name: str | None, model: ShownModel | None, need: TrainingNeed) -> str:
    """Return why there is no reliability curve; "" where there is one."""
    if name is None:
        return (
            f"{PRIOR_SERVES} A curve needs a trained model, and pull requests that settled after its training. "
            f"{training_words(need)}"
        )
    if model is None:
        return f"The model has no figures for this page, or its file is damaged. {next_training(need)}"
    if not model.change.bins:
        return (
            "0 settled pull requests have tested the model so far. A merged one settles when its window is over; "
            "others settle when they are closed, or after 180 days."
        )
    return ""


def no_lifts(name: str | None, need: TrainingNeed) -> str:
    """Return why nothing was measured about people raising their own score."""
    if name is None:
        return f"{PRIOR_SERVES} Nobody settles pull requests alone. {training_words(need)}"
    return f"The model was not tried for this, or its file is damaged. {next_training(need)}"


def fewest_words(budget: float, delta: float, a_year: int) -> str:
    """Return the least number of settled pull requests for a budget, and the time that they take."""
    fewest = items_needed(budget, delta)
    sentence = (
        f"A certificate for {percent_in_full(budget)} needs at least {fewest:,} settled ones in the lane, all clean"
    )
    if not a_year:
        return f"{sentence}; in the last year none was merged or closed here."
    weeks = things(max(1, round(52 * fewest / a_year)), "week")
    return f"{sentence}; at the pace of the last year that takes at least {weeks}."


def no_false_approvals(name: str | None, model: ShownModel | None, exact: bool, fewest: str, need: TrainingNeed) -> str:
    """Return why there is no rate of false approvals; "" where there is one.

    What is still needed is for maintainers only.
    """
    if name is None:
        needed_too = f" {fewest}" if exact and fewest else ""
        sentence = "What the lane would have let through is not counted yet. manage.py backtest counts it."
        return f"{sentence}{needed_too}"
    if model is None or model.lane is None:
        return f"No threshold was tried for the current model. {next_training(need)}"
    if model.lane.months:
        return ""
    return needed(model.lane) if exact else "Nothing is certified yet: too few pull requests have settled."


def no_live(window: int) -> str:
    """Return why the backtest has no live outcomes beside it, which come `window` days after a merge."""
    return (
        "Live: 0 outcomes of the fast lane are known so far. One counts "
        f"{window} days after its merge, or when it is refused, reverted or fixed."
    )


def needed(lane: ShownLane) -> str:
    """Return what a failed attempt lacked, as a sentence; "" for one that did not fail."""
    if lane.certified:
        return ""
    if lane.need is None:
        return "Nothing is certified: the lane did not keep its budget in every part of the last year."
    return f"Nothing is certified: {say_need(_need(lane.need))}."


def _need(record: NeedRecord) -> Need:
    return Need(record.needed, record.have, record.threshold, record.weeks, record.authors)


def no_vouches(score: ContributorScore | None) -> str:
    """Return why no vouch is proposed to somebody, and what would change that."""
    if score is None:
        return (
            "No record of yours has reached this site, so no trust flows through you. Sign in with the DID that "
            "vouches, or vouch for somebody on Tangled first."
        )
    if score.structural_trust == 0 and score.distance is None:
        return (
            "No trust reaches you yet, so your vouch would help nobody. A vouch by a seed changes that. "
            "An admin can also make you a seed in the repository's settings."
        )
    return (
        "0 people to propose: everybody with settled work here is trusted already, or your vouch would not help. "
        "Each scoring updates this list."
    )


BRIEFING_LENGTH = 600  # characters


def spoken(score: ContributorScore) -> str:
    """Return one to three sentences about the newest open pull request.

    They are about the person where there is none, or where it was drawn for audit: its question is answered by then.
    """
    if score.hidden_by:
        return f"{hidden_words(score.hidden_by)}."
    if score.newest is None or is_drawn(score.newest):
        return " ".join(briefing(score.verdict, "person"))
    return " ".join(briefing(score.newest, "change", score.shadow))


NOT_LOOKED_UP = {"L": "Not", "l": "not"}
MEASURE_WORDS: dict[Measure, str] = {
    "first_passage": "trust that flows along vouches",
    "eigentrust": "trust by EigenTrust, the baseline, which people can raise by their own vouches",
}


def recorded_words(words: str) -> str:
    """Return words of a judgement for a recording, where a look-up without an answer was never made."""
    said = "{} looked up in a recording"
    return re.sub(r"([Ll])ook-ups? under way", lambda found: said.format(NOT_LOOKED_UP[found[1]]), words)


def trust_sentences(explanation: TrustExplanation) -> tuple[str, ...]:
    """Return the distance from the seeds, the number of paths, and what would end the trust.

    () for a seed and where there is no path.
    """
    if not explanation.distance:
        return ()
    hops = "One step" if explanation.distance == 1 else f"{explanation.distance} steps"
    ways = len(explanation.paths)
    sentence = f"{hops} from the nearest seed" + (f", over {ways} independent paths" if ways > 1 else "") + "."
    return (sentence, *_dependence_words(explanation))


def _dependence_words(explanation: TrustExplanation) -> tuple[str, ...]:
    if explanation.dominator is not None:
        return (f"If {explanation.dominator.name} were compromised, this trust would be gone.",)
    if explanation.distance == 1:
        return ()
    return ("No single account carries all of it.",)


def share_words(share: float) -> str:
    """Format a share in whole per cent; a positive share is never 0 %."""
    percent = round(share * 100)
    return f"{percent} %" if percent else "under 1 %"


def vouching_words(merges: int, evidence: int = 0) -> str:
    """Describe how somebody vouches: with a record and its verified evidence, or by merging."""
    if not merges:
        named = "1 merged pull request" if evidence == 1 else f"{evidence:,} merged pull requests"
        return f"vouched, with {named} as evidence" if evidence else "vouched"
    return "merged once" if merges == 1 else f"merged {merges:,} times"


def dependents_words(explanation: TrustExplanation, exact: bool = True) -> str:
    """Say how many people are trusted only through this person's vouches, with the exact mark or without.

    "" for nobody.
    """
    if not explanation.dependents_total:
        return ""
    people = _people(explanation.dependents_total)
    verb = "is" if explanation.dependents_total == 1 else "are"
    enough = f"with {trust_bound(explanation.threshold)} or more" if exact else "enough to count"
    return f"{people} {verb} trusted {enough} only through vouches by this account."


def worth_words(worth: VouchWorth) -> str:
    """Return the effect of one vouch, and the most that it could be abused for."""
    mark = trust_bound(worth.threshold)
    sentences = [f"Reaches {mark}." if worth.after >= worth.threshold else f"Stays below {mark}."]
    if worth.opens:
        sentences.append(f"{_people(worth.opens)} more would too.")
    fakes = "1 fake" if worth.exposure == 1 else f"{worth.exposure:,} fakes" if worth.exposure else "no fake"
    sentences.append(f"Worst case: {fakes}.")
    return " ".join(sentences)


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


# What Python puts before the system's error message, and what asyncio says instead for each address of a host.
_ERRNO = re.compile(r"\[Errno -?\d{1,4}\] ")
_CALL_FAILED = re.compile(r"\[Errno (\d{1,4})\] Connect call failed \([^()]{0,200}\)")
_SEVERAL = "Multiple exceptions: "
_REPEATED = re.compile(r"(connection refused|network is unreachable|no route to host)(?:, \1)+")


def age_words(then: datetime | None, now: datetime) -> str:
    """Return an age as one figure ("3 days"), "" for None; a future time reads "just now"."""
    return duration_words((now - then).total_seconds()) if then is not None else ""


def duration_words(seconds: float) -> str:
    """Return a length of time as one figure ("3 days"); under a minute it reads "just now"."""
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        count = int(seconds // length)
        if count >= 1:
            return f"{count:,} {name}{'' if count == 1 else 's'}"
    return "just now"


def first_answer_words(found: Sequence[Answers], where: str = "") -> str:
    """Say within how many days half of the answered heard back, and how many still wait; "" where nobody was answered.

    Those who still wait are in no median, so their number is always beside it.
    """
    said = [_first_answer(one, one.all.n, one.all.median, where) for one in found if one.all]
    if said and not all(one.has_comments for one in found):
        said.insert(0, "Comments were not recorded: only merges and closes are known.")
    return " ".join(said)


def _first_answer(one: Answers, answered: int, median: float, where: str) -> str:
    who = "first-timer" if one.first_timers else "regular"
    got = f"who got {'an answer' if one.has_comments else 'a decision'}{where} in six months"
    begin = f"Of the {answered:,} {who}s {got}, half" if answered > 1 else f"The one {who} {got}"
    still = f"{one.waiting:,} still wait{'s' if one.waiting == 1 else ''}" if one.waiting else "nobody still waits"
    return f"{begin} had it within {median:,.1f} days; {still}."


def brief_age(words: str) -> str:
    """Shorten an age for a row: "3 days" reads "3 d"."""
    number, _, unit = words.partition(" ")
    return f"{number} {'min' if unit[0] == 'm' else unit[0]}" if words[:1].isdigit() else words


def interval_sentence(estimate: Estimate, whose: str = "theirs") -> str:
    """Describe P(clean) with its interval and its basis; `whose` is "yours" for the contributor."""
    if estimate.probability is None:
        return f"Nothing like {whose} has settled yet, so there is no number. Unknown is not bad: a person looks."
    return (
        f"About {percent(estimate.probability)} of changes like {whose} stay clean "
        f"(95 % interval {percent_interval(estimate.low, estimate.high)}, "
        f"from {things(estimate.cases, 'settled pull request')} like {whose})."
    )


def borrowed_words(projects: int | None) -> str:
    """Name the source of a borrowed order, "" for none."""
    if projects is None:
        return ""
    return f"borrowed from {projects:,} other project{'' if projects == 1 else 's'}, not yet checked on yours"


PLACES: Mapping[str, str] = {
    "changed": "it changed after an approval or a request, and those come first",
    "turn": "every third place goes to the first-timer who has waited longest, and that is this one",
    "author": "its author has the next word, and those come last",
    "copy": "another of theirs with this title stands above, and copies come after the rest",
    "oldest": "the oldest come first",
    "newest": "the newest come first",
    "lowest": "the lowest chances come first",
}
NEED_FROM: Mapping[str, str] = {
    "finding": "from its finding and its chance together",
    "risk": "from its content risk",
    "chance": "from its chance",
    "borrowed": "as such changes in other projects tell, since it has no score",
    "unknown": "as wherever the chance is unknown",
}


def place_words(place: Place) -> str:
    """Say why a row stands above the next one in its lane, from the numbers that ordered it."""
    if place.cause != "need":
        return f"{place.number:,} of {place.total:,}: {PLACES[place.cause]}."
    days = f"{things(place.waited, 'day')} here" if place.waited else "first seen today"
    more = place.raised - place.need
    waits = f", and {more} more for waiting {things(place.waited, 'day')}" if more else f"; {days}"
    passes = " No row goes before a finding only by waiting." if place.by == "finding" else ""
    stands = f"{place.number:,} of {place.total:,} in this list"
    return f"{stands}: need {place.need} of 9 {NEED_FROM[place.by]}{waits}.{passes}"


def is_denounced(verdict: Verdict) -> bool:
    """Return whether a seed denounces the contributor: then the missing path is certain, not unknown."""
    return any(reason.code == "denounced_by_seed" for reason in verdict.reasons)


def no_path_words(verdict: Verdict) -> str:
    """Return why no path is shown."""
    if is_denounced(verdict):
        return "Someone trusted here warns about this contributor, so no vouch for them counts."
    return "No trust path from the seeds. That is unknown, not bad."


def missing_evidence(verdict: Verdict, path: Sequence[Person], is_read: bool) -> tuple[str, ...]:
    """Return each unknown fact as a clause; pass `is_read` True for a person, whose verdict is about no change."""
    estimate = verdict.estimate
    facts = (
        (bool(path) or is_denounced(verdict), "no trust path from the seeds"),
        (estimate.cases > 0, "no settled pull request like it"),
        (is_read, "content not reviewed yet"),
    )
    return tuple(words for is_known, words in facts if not is_known)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The age of the data: words, a tone that repeats them as a colour, and sentences with details."""

    tone: Literal["live", "late", "stopped", "recorded", "none"]
    words: str
    details: tuple[str, ...] = ()


def unread_words(repositories: int) -> str:
    """Return what is missing where `repositories` ask for Claude and it cannot be asked; "" where none does."""
    if not repositories:
        return ""
    whose = "the one repository that asks" if repositories == 1 else f"the {repositories:,} repositories that ask"
    return f"Claude reads nothing because no API key is set. In {whose} for it, only scanners judge content."


def freshness(newest: datetime | None, now: datetime, recorded: bool) -> Freshness:
    """Return the age of the newest event; amber over 60 s, red over 10 min, and both say so in words."""
    if newest is None:
        return Freshness("none", "No data yet")
    if recorded:
        return Freshness("recorded", f"Recording, up to {newest.day} {newest:%b %Y}")
    seconds = max(0, int((now - newest).total_seconds()))
    if seconds <= 60:
        return Freshness("live", f"Live, {seconds} s behind")
    if seconds <= 600:
        return Freshness("late", f"Late, {seconds // 60} min behind")
    return Freshness("stopped", f"Out of date, last event {age_words(newest, now)} ago")


def as_aware(moment: datetime | None) -> datetime | None:
    """Convert a naive UTC time of the store to an aware one, which templates format."""
    return moment.replace(tzinfo=UTC) if moment is not None else None


def said(problem: str) -> str:
    """Return the words of a problem without the system's error numbers and addresses."""
    plain = _CALL_FAILED.sub(lambda match: os.strerror(int(match[1])).lower(), problem.replace(_SEVERAL, ""))
    return _REPEATED.sub(r"\1", _ERRNO.sub("", plain))
