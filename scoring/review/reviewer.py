"""The content review: findings first, then, where the cost gate asks, Claude in two passes; risk only ever rises.

Pass one reads the code with its words masked; pass two all of it, with title, description and discussion. Words make a
reader miss what code does, be they an honest author's or an attacker's (arXiv 2603.18740: 16 to 93 % fewer faults are
found where the text calls a change free of bugs), so a risk that falls between the passes is a finding. A change
without words needs one pass. A pass that fails leaves what was said before it, and no verdict.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scoring.diff.paths import Rank, rank
from scoring.explain.content import NO_RULES
from scoring.formatting import risk_percent
from scoring.review.answers import NoAnswer
from scoring.review.anthropic_client import OUTPUT_TOKENS, Claude, Request
from scoring.review.cache import Ledger, Reading, Ticket
from scoring.review.cost_gate import Call
from scoring.review.deterministic import FLOOR, WHOLE, changed_lines, combine, review_without_model
from scoring.review.locations import resolved
from scoring.review.payload import Case, Rendering, render_change, render_words
from scoring.review.pricing import Price, Usage, capability
from scoring.review.prompt import content_hash, first_request, prompt_version, second_request
from scoring.review.schema import DETERMINISTIC, EXPLANATION_LENGTH, Assessment, Flag, Review, plain_text, tidied
from scoring.types import Severity

CHARACTERS_A_TOKEN = 3  # of code as it is rendered; what is counted decides
FITTING = 4  # times the data is cut before it is called too large
HARD_LINES = 50  # changed lines of CI, build or authentication from which the strong model reads
HARD_TYPES = frozenset({"security", "subtle_bug"})
NAMES_TOLD = 5
LEFT_OUT_KEPT = 800  # files; their numbers are kept in one column with what was said
# Of risk from the first pass to the second. The contract sets .8 for a high, .4 for a med and .1 for a low flag: one of
# the first two that the words explain away is more than this, a low one is less.
DROP = 0.2


@dataclass(frozen=True, slots=True)
class Models:
    """The models for each task; `hard` and `screen` None: the main one reads hard cases, and nobody screens.

    Every one of them has its price, else its cost could not be bounded. `input_tokens` bound one pass.
    """

    main: str
    hard: str | None
    screen: str | None
    prices: Mapping[str, Price]
    input_tokens: int = 60_000


@dataclass(frozen=True, slots=True)
class _Passes:
    """The requests to a model, each with its counted tokens, and the change as the last one holds it."""

    change: Rendering
    requests: Sequence[Request]
    tokens: Sequence[int]


class Reviewer:
    """Reviews cases. `key` is the site's, under which data is marked."""

    def __init__(self, claude: Claude, models: Models, key: bytes, ledger: Ledger) -> None:
        self._claude, self._models, self._key, self._ledger = claude, models, key, ledger

    def review(self, case: Case, call: Call, unfinished: Sequence[str] = (), pull_uri: str | None = None) -> Review:
        """The final result on one case. `unfinished` are ids of scanners that could not look at all of it."""
        baseline = review_without_model(case.sent.change, case.findings, unfinished)
        if call is Call.DETERMINISTIC:
            return baseline
        if call is Call.NOBODY:
            return _without_verdict(baseline, "review_off")
        if call is Call.MISSING:
            return _without_verdict(baseline, "over_budget")
        if call is Call.SCREEN and self._models.screen:
            screened = finish(case, baseline, self._read(case, self._models.screen, pull_uri))
            if not asks_for_more(screened):
                return screened
            baseline = replace(baseline, assessment=screened.assessment, dollars=screened.dollars)
        return finish(case, baseline, self._read(case, self._model(case), pull_uri))

    def _model(self, case: Case) -> str:
        return self._models.hard if self._models.hard and is_hard(case) else self._models.main

    def _read(self, case: Case, model: str, pull_uri: str | None) -> Reading:
        """One model's reading, from the ledger or anew."""
        change, words = render_change(case, self._models.input_tokens * CHARACTERS_A_TOKEN), render_words(case.scrubbed)
        version, content = prompt_version(), content_hash(change, words)
        key = hashlib.sha256(f"{version}:{model}:{content}".encode()).hexdigest()
        cached = self._ledger.find(key)
        if cached is not None:
            self._claude.tell_found(model)
            return replace(cached, dollars=0.0)
        try:
            passes = self._passes(case, words, model)
        except NoAnswer as problem:
            return Reading(model, reason=problem.reason)
        ticket = Ticket(key, content, version, model, self._most(model, passes.tokens), pull_uri)
        outcome = self._ledger.reserve(ticket)
        if outcome != "reserved":
            return Reading(model, reason=outcome)
        reading = Reading(model, reason="abandoned", dollars=ticket.dollars)
        try:
            reading = self._asked(passes, words, model)
        finally:  # an error of ours leaves no row that says for half an hour that somebody is reading
            self._ledger.settle(ticket, reading)
        return reading

    def _passes(self, case: Case, words: Rendering | None, model: str) -> _Passes:
        """The requests of a reading, each with its counted tokens; NoAnswer where the change does not fit.

        What is said beside the change has room of its own.
        """
        change, masked, sizes = self._fitted(case, model)
        if masked is None:
            requests = [first_request(model, change, self._key, cached=words is not None)]
        else:
            requests = [first_request(model, masked, self._key, masked=True), first_request(model, change, self._key)]
        if words is not None:
            requests = [requests[0], second_request(model, change, words, self._key)]
            sizes = [sizes[0], self._claude.count_tokens(requests[1])]
        return _Passes(change, requests, sizes)

    def _fitted(self, case: Case, model: str) -> tuple[Rendering, Rendering | None, list[int]]:
        """The data in as many tokens as a pass may have, the same masked, and the tokens of both, masked first.

        None in place of the masked data where there is nothing to mask.
        """
        limit = min(self._models.input_tokens, capability(model).context_tokens - OUTPUT_TOKENS)
        room = self._models.input_tokens * CHARACTERS_A_TOKEN
        for _ in range(FITTING):
            change, masked = render_change(case, room), render_change(case, room, masked=True)
            requests = [first_request(model, change, self._key)]
            if masked.text != change.text:
                requests.insert(0, first_request(model, masked, self._key, masked=True))
            sizes = [self._claude.count_tokens(request) for request in requests]
            if max(sizes) <= limit:
                return change, masked if len(requests) > 1 else None, sizes
            room = int(len(change.text) * 0.9 * limit / max(sizes))
        raise NoAnswer("too_large", f"the change cannot be cut to {limit} tokens")

    def _most(self, model: str, tokens: Sequence[int]) -> float:
        """The most dollars that passes with so many tokens count for: a lost attempt counts as all of its input."""
        return self._models.prices[model].most(self._claude.attempts * sum(tokens), len(tokens) * OUTPUT_TOKENS)

    def _asked(self, passes: _Passes, words: Rendering | None, model: str) -> Reading:
        """Every pass in turn, none after one that failed."""
        assessments: list[Assessment] = []
        usage, reason = Usage(), None
        try:
            for request, token_count in zip(passes.requests, passes.tokens, strict=True):
                assessment, cost = self._claude.ask(request, token_count)
                assessments.append(tidied(assessment))
                usage += cost
        except NoAnswer as problem:
            usage, reason = usage + problem.usage, problem.reason
        return Reading(
            model=model,
            assessments=tuple(assessments),
            coverage=passes.change.coverage,
            left_out=passes.change.left_out[:LEFT_OUT_KEPT],
            words_whole=words is None or words.coverage == 1,
            reason=reason,
            usage=usage,
            dollars=self._models.prices[model].dollars(usage),
            temperature_sent=capability(model).temperature,
        )


def is_hard(case: Case) -> bool:
    """Return whether the strong model reads: a med or high finding of security or a bug, or much of CI, build or
    auth.
    """
    if any(finding.type in HARD_TYPES and finding.severity is not Severity.LOW for finding in case.findings):
        return True
    risky = (file for file in case.sent.change.files if rank(file.path) in (Rank.CI, Rank.BUILD, Rank.AUTH))
    return sum(map(changed_lines, risky)) >= HARD_LINES


def asks_for_more(screened: Review) -> bool:
    """Return whether the small model's reading calls for the full one: any doubt does, and so does its silence."""
    assessment = screened.assessment
    return (
        screened.state == "no content verdict"
        or assessment.review_recommended
        or assessment.content_risk >= FLOOR[Severity.MED]
    )


def finish(case: Case, baseline: Review, reading: Reading) -> Review:
    """A reading joined with the findings on this case: the highest risk, every flag at its place, what was not read."""
    assessments = [_with_readable_places(case, assessment) for assessment in reading.assessments]
    if baseline.reason and baseline.reason.startswith(NO_RULES) and reading.reason is None and not reading.left_out:
        baseline = replace(baseline, state="content verdict", reason=None)  # the model read what no rule does
    extra_flags = [*_unread_flags(case, reading), *_lowered_risk_flags(assessments)]
    findings_alone = baseline.assessment.model_copy(update={"flags": (*baseline.assessment.flags, *extra_flags)})
    review = Review(
        assessment=combine(findings_alone, assessments),
        reviewer=reading.model if assessments else DETERMINISTIC,
        coverage=baseline.coverage * reading.coverage,
        state=baseline.state,
        reason=baseline.reason,
        left_out=tuple(case.sent.change.files[index].path for index in reading.left_out),
        dollars=baseline.dollars + reading.dollars,
        model=reading.model,
        prompt_version=prompt_version(),
        temperature_sent=reading.temperature_sent,
        usage=reading.usage,
    )
    return _without_verdict(review, reading.reason) if reading.reason else review


def _without_verdict(review: Review, reason: str) -> Review:
    assessment = review.assessment.model_copy(update={"review_recommended": True})
    return replace(review, assessment=assessment, state="no content verdict", reason=reason)


def _with_readable_places(case: Case, assessment: Assessment) -> Assessment:
    flags = tuple(resolved(flag, case.sent.change) for flag in assessment.flags)
    return assessment.model_copy(update={"flags": flags})


def _lowered_risk_flags(assessments: Sequence[Assessment]) -> list[Flag]:
    """A high flag where the second pass, which sees more, found much less: the words must have done that."""
    if len(assessments) < 2:
        return []
    first, second = assessments
    before, after = _pass_risk(first), _pass_risk(second)
    if before - after < DROP and not (_has_high_flag(first) and not _has_high_flag(second)):
        return []
    words = (
        f"The words of this change lowered the reviewer's risk: {risk_percent(before)} without them, "
        f"{risk_percent(after)} with them. Read the code before its comments."
    )
    return [Flag(type="security", severity=Severity.HIGH, location=WHOLE, explanation=words)]


def _pass_risk(assessment: Assessment) -> float:
    """The risk of one pass, at least the floor of its strongest flag."""
    return max([assessment.content_risk, *(FLOOR[flag.severity] for flag in assessment.flags)])


def _has_high_flag(assessment: Assessment) -> bool:
    return any(flag.severity is Severity.HIGH for flag in assessment.flags)


def _unread_flags(case: Case, reading: Reading) -> list[Flag]:
    """A med flag, and so a person's eyes, for whatever the model was not given."""
    names = [plain_text(case.sent.change.files[index].path, 80) for index in reading.left_out]
    sentences = []
    if names:
        remainder = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
        sentences.append(f"The model was not given all of {', '.join(names[:NAMES_TOLD])}{remainder}.")
    if not reading.words_whole:
        sentences.append("The model was not given all of what was said about the change.")
    return [
        Flag(
            type="oversized",
            severity=Severity.MED,
            location=WHOLE,
            explanation=plain_text(sentence, EXPLANATION_LENGTH),
        )
        for sentence in sentences
    ]
