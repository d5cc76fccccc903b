"""The content review: findings first, then, where the cost gate asks, Claude in two passes; risk only ever rises.

Pass one sees diff and findings; pass two title, description and discussion too, since what an author says of a change
makes readers miss what it does (facts/content.md §1.5). What fails leaves what was said before it, and no verdict.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scoring.assessment import DETERMINISTIC, EXPLANATION_LENGTH, Assessment, Flag, Review, plain_text, tidied
from scoring.claude import OUTPUT_TOKENS, Claude
from scoring.claude_answers import NoAnswer
from scoring.claude_models import Price, Usage, capability
from scoring.content.finding import Severity
from scoring.content.paths import Rank, rank
from scoring.cost_gate import Call
from scoring.deterministic import FLOOR, WHOLE, changed_lines, combine, review_without_model
from scoring.explain_content import NO_RULES
from scoring.placing import resolved
from scoring.prompt import content_hash, first_request, prompt_version, second_request
from scoring.readings import Ledger, Reading, Ticket
from scoring.rendering import Case, Rendering, render_change, render_words

CHARACTERS_A_TOKEN = 3  # of code as it is rendered; what is counted decides
FITTING = 4  # times the data is cut before it is called too large
HARD_LINES = 50  # changed lines of CI, build or authentication from which the strong model reads
HARD_TYPES = frozenset({"security", "subtle_bug"})
NAMES_TOLD = 5


@dataclass(frozen=True, slots=True)
class Models:
    """Which model reads what; `hard` and `screen` None: the main one reads hard cases, and nobody screens.

    Every one of them has its price, else its cost could not be bounded. `input_tokens` bound one pass.
    """

    main: str
    hard: str | None
    screen: str | None
    prices: Mapping[str, Price]
    input_tokens: int = 60_000


class Reviewer:
    """Reviews cases. `key` is the site's, under which data is marked."""

    def __init__(self, claude: Claude, models: Models, key: bytes, ledger: Ledger) -> None:
        self._claude, self._models, self._key, self._ledger = claude, models, key, ledger

    def review(self, case: Case, call: Call, unfinished: Sequence[str] = (), pull_uri: str | None = None) -> Review:
        """The final result on one case. `unfinished` are ids of scanners that could not look at all of it."""
        ground = review_without_model(case.sent.change, case.findings, unfinished)
        if call is Call.DETERMINISTIC:
            return ground
        if call is Call.NOBODY:
            return _without_verdict(ground, "review_off")
        if call is Call.MISSING:
            return _without_verdict(ground, "over_budget")
        if call is Call.SCREEN and self._models.screen:
            screened = finish(case, ground, self._read(case, self._models.screen, pull_uri))
            if not asks_for_more(screened):
                return screened
            ground = replace(ground, assessment=screened.assessment, dollars=screened.dollars)
        return finish(case, ground, self._read(case, self._model(case), pull_uri))

    def _model(self, case: Case) -> str:
        return self._models.hard if self._models.hard and is_hard(case) else self._models.main

    def _read(self, case: Case, model: str, pull_uri: str | None) -> Reading:
        """One model's reading, from the ledger or anew."""
        change, words = render_change(case, self._models.input_tokens * CHARACTERS_A_TOKEN), render_words(case.scrubbed)
        version, content = prompt_version(), content_hash(change, words)
        key = hashlib.sha256(f"{version}:{model}:{content}".encode()).hexdigest()
        known = self._ledger.find(key)
        if known is not None:
            self._claude.tell_found(model)
            return replace(known, dollars=0.0)
        try:
            change, *tokens = self._fitted(case, change, model)
            if words is not None:
                tokens.append(self._claude.count_tokens(second_request(model, change, words, self._key)))
        except NoAnswer as problem:
            return Reading(model, reason=problem.reason)
        ticket = Ticket(key, content, version, model, self._most(model, tokens), pull_uri)
        outcome = self._ledger.reserve(ticket)
        if outcome != "reserved":
            return Reading(model, reason=outcome)
        reading = Reading(model, reason="abandoned", dollars=ticket.dollars)
        try:
            reading = self._asked(change, words, model, tokens)
        finally:  # an error of ours leaves no row that says for half an hour that somebody is reading
            self._ledger.settle(ticket, reading)
        return reading

    def _fitted(self, case: Case, change: Rendering, model: str) -> tuple[Rendering, int]:
        """The data in as many tokens as a pass may have, and their number; NoAnswer where that cannot be reached."""
        limit = min(self._models.input_tokens, capability(model).context_tokens - OUTPUT_TOKENS)
        for _ in range(FITTING):
            tokens = self._claude.count_tokens(first_request(model, change, self._key))
            if tokens <= limit:
                return change, tokens
            change = render_change(case, int(len(change.text) * 0.9 * limit / tokens))
        raise NoAnswer("too_large", f"the change cannot be cut to {limit} tokens")

    def _most(self, model: str, tokens: Sequence[int]) -> float:
        """The most dollars that passes with so many tokens count for: a lost attempt counts as all of its input."""
        return self._models.prices[model].most(self._claude.attempts * sum(tokens), len(tokens) * OUTPUT_TOKENS)

    def _asked(self, change: Rendering, words: Rendering | None, model: str, tokens: Sequence[int]) -> Reading:
        """Both passes; the second only where something was said, and not after a first one that failed."""
        requests = [first_request(model, change, self._key, kept=words is not None)]
        if words is not None:
            requests.append(second_request(model, change, words, self._key))
        said: list[Assessment] = []
        usage, reason = Usage(), None
        try:
            for request, size in zip(requests, tokens, strict=True):
                assessment, cost = self._claude.ask(request, size)
                said.append(tidied(assessment))
                usage += cost
        except NoAnswer as problem:
            usage, reason = usage + problem.usage, problem.reason
        return Reading(
            model=model,
            assessments=tuple(said),
            coverage=change.coverage,
            left_out=change.left_out,
            words_whole=words is None or words.coverage == 1,
            reason=reason,
            usage=usage,
            dollars=self._models.prices[model].dollars(usage),
            temperature_sent=capability(model).temperature,
        )


def is_hard(case: Case) -> bool:
    """Whether the strong model reads: a med or high finding of security or a bug, or much of CI, build or auth."""
    if any(found.type in HARD_TYPES and found.severity is not Severity.LOW for found in case.findings):
        return True
    risky = (file for file in case.sent.change.files if rank(file.path) in (Rank.CI, Rank.BUILD, Rank.AUTH))
    return sum(map(changed_lines, risky)) >= HARD_LINES


def asks_for_more(screened: Review) -> bool:
    """Whether the small model's reading calls for the full one: any doubt does, and so does its silence."""
    told = screened.assessment
    return screened.state == "no content verdict" or told.review_recommended or told.content_risk >= FLOOR[Severity.MED]


def finish(case: Case, ground: Review, reading: Reading) -> Review:
    """A reading joined with the findings on this case: the highest risk, every flag at its place, what was not read."""
    unread = _unread(case, reading)
    base = ground.assessment.model_copy(update={"flags": (*ground.assessment.flags, *unread)})
    said = [_placed(case, one) for one in reading.assessments]
    if ground.reason and ground.reason.startswith(NO_RULES) and reading.reason is None and not reading.left_out:
        ground = replace(ground, state="content verdict", reason=None)  # the model read what no rule does
    review = Review(
        assessment=combine(base, said),
        reviewer=reading.model if said else DETERMINISTIC,
        coverage=ground.coverage * reading.coverage,
        state=ground.state,
        reason=ground.reason,
        left_out=tuple(case.sent.change.files[index].path for index in reading.left_out),
        dollars=ground.dollars + reading.dollars,
        model=reading.model,
        prompt_version=prompt_version(),
        temperature_sent=reading.temperature_sent,
        usage=reading.usage,
    )
    return _without_verdict(review, reading.reason) if reading.reason else review


def _without_verdict(review: Review, reason: str) -> Review:
    assessment = review.assessment.model_copy(update={"review_recommended": True})
    return replace(review, assessment=assessment, state="no content verdict", reason=reason)


def _placed(case: Case, assessment: Assessment) -> Assessment:
    flags = tuple(resolved(flag, case.sent.change) for flag in assessment.flags)
    return assessment.model_copy(update={"flags": flags})


def _unread(case: Case, reading: Reading) -> list[Flag]:
    """A med flag, and so a person's eyes, for whatever the model was not given."""
    names = [plain_text(case.sent.change.files[index].path, 80) for index in reading.left_out]
    told = []
    if names:
        more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
        told.append(f"The model was not given all of {', '.join(names[:NAMES_TOLD])}{more}.")
    if not reading.words_whole:
        told.append("The model was not given all of what was said about the change.")
    return [
        Flag(
            type="oversized",
            severity=Severity.MED,
            location=WHOLE,
            explanation=plain_text(one, EXPLANATION_LENGTH),
        )
        for one in told
    ]
