"""The content review: findings first, then Claude in two passes if the cost gate asks for it; the risk only rises.

Pass one reads the code with its words masked; pass two reads all of it, with title, description and discussion. Words
by an honest author or an attacker make a reader miss what code does (arXiv 2603.18740: 16 to 93 % fewer faults are
found where the text calls a change free of bugs), so a risk that falls between the passes is a finding. A change
without words needs one pass. If a pass fails, earlier passes count and there is no verdict.

A prompt has the role, the data between two marks, and the contract after them. The mark is a keyed hash of the scrubbed
data, so the author cannot know it, and it changes only with the content.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from scoring.diff.paths import Rank, rank
from scoring.explain.reasons import NO_RULES
from scoring.formatting import risk_percent
from scoring.review.anthropic_client import OUTPUT_TOKENS, Block, Claude, Request
from scoring.review.cache import Ledger, Reading, Ticket
from scoring.review.costs import Call, Price, Usage, capability
from scoring.review.deterministic import (
    FLOOR,
    WHOLE,
    combine,
    count_changed_lines,
    resolve_flag_place,
    review_without_model,
)
from scoring.review.payload import RENDERING, Case, Rendering, render_change, render_words
from scoring.review.schema import (
    DETERMINISTIC,
    EXPLANATION_LENGTH,
    Assessment,
    Flag,
    NoAnswer,
    Review,
    plain_text,
    tidy_assessment,
)
from scoring.types import Severity

PARTS = ("prompt.md", "prompt_change.md", "prompt_masked.md", "prompt_contract.md", "prompt_words.md")


@cache
def prompt_part(name: str) -> str:
    """Return the text of one of PARTS without the newline at its end."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").rstrip("\n")


@cache
def prompt_version() -> str:
    """Return 16 hex digits that change with the fixed text of the prompt, the schema and the rendering."""
    schema = json.dumps(Assessment.model_json_schema(), sort_keys=True)
    prompt_text = "\x00".join([*map(prompt_part, PARTS), schema, str(RENDERING)])
    return hashlib.sha256(prompt_text.encode()).hexdigest()[:16]


def content_hash(change: Rendering, words: Rendering | None) -> str:
    """Return the SHA-256 in hex of all data about one pull request that a model is given."""
    parts = [change.text] if words is None else [change.text, words.text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def nonce(key: bytes, data: str) -> str:
    """Return the mark around this data: 32 hex digits of its HMAC-SHA256 under the site's key."""
    return hmac.digest(key, data.encode(), hashlib.sha256).hex()[:32]


def first_request(model: str, change: Rendering, key: bytes, cached: bool = False, masked: bool = False) -> Request:
    """Build the request of the first pass: diff, findings and the contract.

    `cached`: a second pass over the same data follows. `masked`: the words of the change are masked, and the prompt
    says so.
    """
    mark = nonce(key, change.text)
    data = Block(_fill_part("prompt_change.md", mark, change.text), cached)
    contract = _fill_part("prompt_contract.md", mark)
    if masked:
        contract = f"{prompt_part('prompt_masked.md')}\n{contract}"
    return Request(model, prompt_part("prompt.md"), (data, Block(contract)), (mark,))


def second_request(model: str, change: Rendering, words: Rendering, key: bytes) -> Request:
    """Build the request of the second pass: the whole change, then title, description and discussion."""
    first = first_request(model, change, key, cached=True)
    mark = nonce(key, words.text)
    blocks = (first.blocks[0], Block(_fill_part("prompt_words.md", mark, words.text)))
    return replace(first, blocks=blocks, nonces=(*first.nonces, mark))


def _fill_part(part_name: str, mark: str, data: str = "") -> str:
    """Put the mark and then the data into a part of the prompt; nothing within the data is replaced."""
    before, placeholder, after = prompt_part(part_name).replace("NONCE", mark).partition("DATA\n")
    return f"{before}{data}\n{after}" if placeholder else before


CHARACTERS_A_TOKEN = 3  # of rendered code; an estimate, the counted tokens decide
FITTING = 4  # cuts of the data before it counts as too large
HARD_LINES = 50  # changed lines of CI, build or authentication from which on the strong model reads
HARD_TYPES = frozenset({"security", "subtle_bug"})
NAMES_TOLD = 5
LEFT_OUT_KEPT = 800  # files; their numbers share a column with the assessments
# Fall of the risk from the first pass to the second that is a finding. The contract sets .8 for a high, .4 for a med
# and .1 for a low flag: the loss of a high or med flag is a larger fall, that of a low one a smaller.
DROP = 0.2


@dataclass(frozen=True, slots=True)
class Models:
    """The models for each task; without `hard` the main one reads hard cases, without `screen` none screens.

    Each model needs a price, which bounds its cost. `input_tokens` limits one pass.
    """

    main: str
    hard: str | None
    screen: str | None
    prices: Mapping[str, Price]
    input_tokens: int = 60_000


@dataclass(frozen=True, slots=True)
class _Passes:
    """The requests to a model with their counted tokens, and the change as the last request holds it."""

    change: Rendering
    requests: Sequence[Request]
    tokens: Sequence[int]


class Reviewer:
    """Reviews cases. `key` is the site's key for the marks around data."""

    def __init__(self, claude: Claude, models: Models, key: bytes, ledger: Ledger) -> None:
        self._claude, self._models, self._key, self._ledger = claude, models, key, ledger

    def review(self, case: Case, call: Call, unfinished: Sequence[str] = (), pull_uri: str | None = None) -> Review:
        """Return the final review of one case. `unfinished` are ids of scanners that did not look at all of it."""
        baseline = review_without_model(case.sent.change, case.findings, unfinished)
        if call is Call.DETERMINISTIC:
            return baseline
        if call is Call.NOBODY:
            return _without_verdict(baseline, "review_off")
        if call is Call.MISSING:
            return _without_verdict(baseline, "over_budget")
        if call is Call.SCREEN and self._models.screen:
            screened = finish(case, baseline, self._find_or_read(case, self._models.screen, pull_uri))
            if not asks_for_more(screened):
                return screened
            baseline = replace(baseline, assessment=screened.assessment, dollars=screened.dollars)
        return finish(case, baseline, self._find_or_read(case, self._model(case), pull_uri))

    def _model(self, case: Case) -> str:
        return self._models.hard if self._models.hard and is_hard(case) else self._models.main

    def _find_or_read(self, case: Case, model: str, pull_uri: str | None) -> Reading:
        """Return one model's reading from the ledger, else a new one."""
        change, words = render_change(case, self._models.input_tokens * CHARACTERS_A_TOKEN), render_words(case.scrubbed)
        version, content = prompt_version(), content_hash(change, words)
        key = hashlib.sha256(f"{version}:{model}:{content}".encode()).hexdigest()
        cached = self._ledger.find(key)
        if cached is not None:
            self._claude.report_cache_hit(model)
            return replace(cached, dollars=0.0)
        try:
            passes = self._build_passes(case, words, model)
        except NoAnswer as problem:
            return Reading(model, reason=problem.reason)
        ticket = Ticket(key, content, version, model, self._cost_limit(model, passes.tokens), pull_uri)
        outcome = self._ledger.reserve(ticket)
        if outcome != "reserved":
            return Reading(model, reason=outcome)
        reading = Reading(model, reason="abandoned", dollars=ticket.dollars)
        try:
            reading = self._ask_passes(passes, words, model)
        finally:  # also after our own error, so that no row stays "running"
            self._ledger.settle(ticket, reading)
        return reading

    def _build_passes(self, case: Case, words: Rendering | None, model: str) -> _Passes:
        """Build the requests of a reading and count their tokens. Raises NoAnswer if the change does not fit.

        The words beside the change have their own limit.
        """
        change, masked, sizes = self._fit_change(case, model)
        if masked is None:
            requests = [first_request(model, change, self._key, cached=words is not None)]
        else:
            requests = [first_request(model, masked, self._key, masked=True), first_request(model, change, self._key)]
        if words is not None:
            requests = [requests[0], second_request(model, change, words, self._key)]
            sizes = [sizes[0], self._claude.count_tokens(requests[1])]
        return _Passes(change, requests, sizes)

    def _fit_change(self, case: Case, model: str) -> tuple[Rendering, Rendering | None, list[int]]:
        """Cut the change to the tokens of a pass; return it, its masked form, and the tokens of both, masked first.

        The masked form is None if there is nothing to mask.
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

    def _cost_limit(self, model: str, tokens: Sequence[int]) -> float:
        """Return the highest cost of passes with so many tokens; a lost attempt counts with all of its input."""
        return self._models.prices[model].most(self._claude.attempts * sum(tokens), len(tokens) * OUTPUT_TOKENS)

    def _ask_passes(self, passes: _Passes, words: Rendering | None, model: str) -> Reading:
        """Ask for each pass in turn; stop after a failure."""
        assessments: list[Assessment] = []
        usage, reason = Usage(), None
        try:
            for request, token_count in zip(passes.requests, passes.tokens, strict=True):
                assessment, cost = self._claude.ask(request, token_count)
                assessments.append(tidy_assessment(assessment))
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
    """Return whether the strong model reads: a med or high finding of security or a bug, or many lines of CI, build or
    authentication.
    """
    if any(finding.type in HARD_TYPES and finding.severity is not Severity.LOW for finding in case.findings):
        return True
    risky = (file for file in case.sent.change.files if rank(file.path) in (Rank.CI, Rank.BUILD, Rank.AUTH))
    return sum(map(count_changed_lines, risky)) >= HARD_LINES


def asks_for_more(screened: Review) -> bool:
    """Return whether the screening needs the full reading: any doubt, or no verdict."""
    assessment = screened.assessment
    return (
        screened.state == "no content verdict"
        or assessment.review_recommended
        or assessment.content_risk >= FLOOR[Severity.MED]
    )


def finish(case: Case, baseline: Review, reading: Reading) -> Review:
    """Combine a reading with the findings on this case: the highest risk, flags with readable places, unread parts."""
    assessments = [_with_readable_places(case, assessment) for assessment in reading.assessments]
    if baseline.reason and baseline.reason.startswith(NO_RULES) and reading.reason is None and not reading.left_out:
        baseline = replace(baseline, state="content verdict", reason=None)  # the model read the code without rules
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
    flags = tuple(resolve_flag_place(flag, case.sent.change) for flag in assessment.flags)
    return assessment.model_copy(update={"flags": flags})


def _lowered_risk_flags(assessments: Sequence[Assessment]) -> list[Flag]:
    """Return a high flag if the second pass, which sees more, found much less: the words caused that."""
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
    """Return the risk of one pass, at least the floor of its strongest flag."""
    return max([assessment.content_risk, *(FLOOR[flag.severity] for flag in assessment.flags)])


def _has_high_flag(assessment: Assessment) -> bool:
    return any(flag.severity is Severity.HIGH for flag in assessment.flags)


def _unread_flags(case: Case, reading: Reading) -> list[Flag]:
    """Return a med flag, so that a person looks, for each part that the model was not given."""
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
