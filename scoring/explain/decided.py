"""A judgement in one line, which its decisive clause begins: the cause of its place in the queue. Pure.

The clause has at most LONGEST characters. It names no person, and only maintainers see a threshold in it, because
readers of the feed get the clause too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scoring.explain.findings import finding_name
from scoring.explain.reasons import FLAG_NAMES, days_ago
from scoring.formatting import (
    count_of,
    number_of,
    percent,
    percent_in_full,
    risk_percent,
    things,
    visible,
    visible_name,
)
from scoring.gate.conditions import SHUT_LANE
from scoring.thresholds import LARGE
from scoring.types import Evidence, Factor, Lane, Param, ShownFinding, Verdict

Params = Mapping[str, Param]
Words = Mapping[str, Callable[[float], str]]

LONGEST = 42  # characters that a row of the queue shows uncut
LONGEST_REASON = 140  # of the whole sentence
EVEN = 0.5  # a chance below it, not the record beside it, is what puts an author with a record ahead in the queue
FAR_BELOW = 0.3  # or a chance that is so much lower than the share of the record that stayed clean
MANY_FILES = 10  # number of files from which it is named instead of the lines
TOUCHED: Mapping[str, str] = {
    "ci": "CI",
    "release": "releases",
    "install_hook": "install hooks",
    "build": "the build",
    "dependencies": "dependencies",
    "binary": "a binary file",
    "submodule": "a submodule",
    "symlink": "a symbolic link",
    "executable": "file modes",
}
_LINE = re.compile(r":\d+( \(removed\))?$")


@dataclass(frozen=True, slots=True)
class ChangeOutline:
    """The facts of a change that a clause may name besides its reasons; `findings` strongest first."""

    findings: Sequence[ShownFinding] = ()
    files: int = 0
    lines: int = 0
    tests_fail: bool = False
    several_open: bool = False  # its author has other pull requests open in this repository
    shadow: bool = False  # its repository is in shadow mode
    claimed: bool = False  # its author claims a merge that nothing confirms
    own: bool = False  # its author may push there, so it stands apart from the lanes
    reverted: int = 0  # of its author's merges, within the last 30 days


NOTHING_KNOWN = ChangeOutline()
NO_LANE = "Fast lane not open in this repository"
NO_LANE_FOR_SEED = "By a maintainer; fast lane not open here"
A_PERSON_ASKED_FOR = "A person was asked to decide"  # an objection, to those whom it does not concern
CLAIMED = "Author marked it merged; nothing shows it"
SETTLES_CLAIM = "A maintainer who says that it was merged takes it out of the inbox. "


def decided(verdict: Verdict, evidence: Evidence, change: ChangeOutline = NOTHING_KNOWN, exact: bool = False) -> str:
    """Return the decisive clause of a judgement, in at most LONGEST characters and without a full stop.

    `exact` names who objects, and the fast lane's threshold where the chance is not too low for it by far.
    """
    if clauses := _causes(verdict, evidence, change):
        return _objection_words(verdict) if exact and clauses[0] == A_PERSON_ASKED_FOR else clauses[0]
    if change.claimed:
        return CLAIMED
    touched = next((reason.params for reason in verdict.reasons if reason.code == "never_fast_path"), None)
    addition = "tests fail" if change.tests_fail else _touched(touched) if touched else ""
    if change.own:
        return _own_clause(verdict, addition)
    if not evidence.settled_here:
        return fit(_newcomer_clause(verdict, evidence, change, addition))
    return fit(_known_author_clause(verdict, evidence, change, exact))


def explain(verdict: Verdict, evidence: Evidence, change: ChangeOutline = NOTHING_KNOWN) -> str:
    """Return one line for a row: the decisive clause, then the record and the trust path; without a full stop."""
    decisive = decided(verdict, evidence, change)
    basis, last = _clauses(verdict, NOT_CERTIFIED), _clauses(verdict, TOLD_LAST)
    facts = [_record_clause(evidence, decisive), _reverted_words(change), _trust_clause(verdict, evidence)]
    return joined([decisive, *_causes(verdict, evidence, change), *basis, *facts, *last])


def _known_author_clause(verdict: Verdict, evidence: Evidence, change: ChangeOutline, exact: bool) -> str:
    """Say what keeps an author with a record out of the fast lane, or what brings them into it."""
    reasons, is_fast = {reason.code: reason.params for reason in verdict.reasons}, verdict.lane is Lane.FAST_LANE
    probability, cases = verdict.estimate.probability, evidence.clean + evidence.not_clean
    low = EVEN if "below_fast_lane" in reasons or not cases else max(EVEN, evidence.clean / cases - FAR_BELOW)
    if not is_fast and cases and probability is not None and probability < low:
        return _low_chance(probability, verdict, evidence, change)
    is_shut = not reasons.keys().isdisjoint(SHUT_LANE)
    if of_lane := _clauses(verdict, [code for code in OF_LANE if not (is_shut and code == "back_from_silence")]):
        return of_lane[0]
    if below := reasons.get("below_fast_lane"):
        start = f"Chance {percent(number_of(below['probability']))}, fast lane from {{}}"
        return start.format(percent_in_full(number_of(below["t_high"]))) if exact else CLAUSES["below_fast_lane"](below)
    if is_fast and change.shadow and not change.reverted:
        return fit(f"{_merged_words(evidence).removesuffix(' here')}; fast lane not open here")
    if not is_fast and not is_shut and (trust := _clauses(verdict, OF_TRUST)):
        return trust[0]
    if "fast_lane_shut" in reasons and not change.tests_fail:
        return NO_LANE_FOR_SEED if evidence.is_seed else NO_LANE
    addition = (
        "tests fail"
        if change.tests_fail
        else _reverted_words(change)
        if change.reverted and is_fast
        else "fast lane shut"
        if is_shut
        else _findings_count(change)
        if is_fast
        else ""
    )
    whole = ", ".join(filter(None, (record_words(evidence), addition)))
    return whole if len(whole) <= LONGEST else f"{_merged_words(evidence)}, {addition}"


def _reverted_words(change: ChangeOutline) -> str:
    return f"{change.reverted:,} reverted lately" if change.reverted else ""


def _objection_words(verdict: Verdict) -> str:
    params = next(reason.params for reason in verdict.reasons if reason.code == "objection_open")
    return (
        "A maintainer objects for the author" if params.get("by") == "maintainer" else "The author objects to the score"
    )


def _findings_count(change: ChangeOutline) -> str:
    """Count the scanners' findings in a change; "" where no patch is known."""
    if change.findings:
        is_low = all(finding.severity == "low" for finding in change.findings)
        return things(len(change.findings), "low finding" if is_low else "finding")
    return "no findings" if change.files else ""


def _causes(verdict: Verdict, evidence: Evidence, change: ChangeOutline = NOTHING_KNOWN) -> list[str]:
    """Return a clause for each reason about what was sent or done, strongest first."""
    reasons = {reason.code: reason.params for reason in reversed(verdict.reasons)}
    if change.own:
        reasons.pop("low_probability", None)  # a push-holder's own stand apart from the lanes, whatever their chance
    clauses = (_change_clause(code, reasons, verdict, evidence, change) for code in OF_CHANGE if code in reasons)
    return [fit(words) for words in dict.fromkeys(clauses) if words]


def _clauses(verdict: Verdict, codes: Sequence[str]) -> list[str]:
    reasons = {reason.code: reason.params for reason in reversed(verdict.reasons)}
    return [fit(CLAUSES[code](reasons[code])) for code in codes if code in reasons]


def joined(clauses: Iterable[str]) -> str:
    """Join the clauses into one sentence without a full stop; omit clauses that would exceed LONGEST_REASON."""
    line = ""
    for words in filter(None, clauses):
        longer = f"{line}; {words if words[1:2].isupper() else words[:1].lower() + words[1:]}" if line else words
        if words.lower() not in line.lower() and len(longer) <= LONGEST_REASON:
            line = longer
    return line


def record_words(evidence: Evidence) -> str:
    """Describe the record in one repository in a clause: merged pull requests, and how many needed a fix."""
    merged, settled = evidence.merged_here, evidence.settled_here
    cases = evidence.clean + evidence.not_clean
    if not settled:
        return f"{evidence.clean} of {cases} went well elsewhere" if cases else "No settled pull request yet"
    fixed = merged - evidence.clean if cases == settled else 0
    return _merged_words(evidence) + (f", {fixed} needed a fix" if fixed > 0 else "")


def _merged_words(evidence: Evidence) -> str:
    return f"{evidence.merged_here:,} of {evidence.settled_here:,} merged here"


def _trust_clause(verdict: Verdict, evidence: Evidence) -> str:
    """Return the trust path of the verdict in words; "" where a seed denounces, which the decisive clause says."""
    if evidence.denounced_by_seed:
        return ""  # the decisive clause says so
    if evidence.is_seed:
        return "a seed here"
    if evidence.structural_trust <= 0:
        return "no trust path yet"
    path = next((reason.params for reason in verdict.reasons if reason.code == "trust_path"), None)
    return path_words(path) if path else "trust from the seeds reaches this contributor"


def path_words(params: Params) -> str:
    """Say over whom trust reaches the contributor, by the params of the reason "trust_path"."""
    seed, voucher, hops = visible_name(params["seed"]), visible_name(params["voucher"]), count_of(params["hops"])
    merges, seed_merges = count_of(params.get("merges", 0)), count_of(params.get("seed_merges", 0))
    how = f"merged {'once' if merges == 1 else f'{merges} times'} by" if merges else "vouched for by"
    if hops == 1:
        return f"{how} the maintainer {seed}"
    if hops == 2:
        return f"{how} {voucher}, {'merged before' if seed_merges else 'vouched for'} by the seed {seed}"
    return f"{hops} steps from the seed {seed}, through {voucher}"


def _record_clause(evidence: Evidence, decisive: str) -> str:
    """Return the record here and overall, without what the decisive clause says; "" where nothing is left to say."""
    cases, here = evidence.clean + evidence.not_clean, record_words(evidence)
    if not evidence.settled_here:
        return here if cases and here not in decisive else ""
    told = f"of {cases:,} merged cleanly" in decisive or f"of {cases:,} clean" in decisive
    overall = "" if told or cases == evidence.settled_here else f"{evidence.clean} of {cases} clean overall"
    merged, _, fixed = here.partition(", ")
    rest = here if merged.removesuffix(" here") not in decisive else "" if here in decisive else fixed
    return ", ".join(filter(None, (rest, overall)))


def place_words(place: str, longest: int) -> str:
    """Shorten a place to `longest` characters: first drop its folders, then cut the middle of the file's name.

    The line number stays; "" where no name fits beside it.
    """
    line = match[0] if (match := _LINE.search(place)) else ""
    path = place.removesuffix(line)
    if len(place) <= longest:
        return place
    name, room = path.rpartition("/")[2], longest - len(line)
    if len(name) <= room:
        return name + line
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[-end:]}{line}" if end > 2 else ""


def fit(words: str) -> str:
    """Cut the middle of a clause that is too long, so that both ends stay."""
    if len(words) <= LONGEST:
        return words
    end = (LONGEST - 1) // 2
    return f"{words[: LONGEST - 1 - end].rstrip()}…{words[-end:].lstrip()}"


def found_words(name: str, place: str, places: int = 1) -> str:
    """Return "Prompt injection in resolve_form.py:14"; for several places their number, and the file where it fits."""
    end = f", {places:,} places" if places > 1 else ""
    short = place_words(place, LONGEST - len(f"{name} in {end}")) if place else ""
    return f"{name} in {short}{end}" if short and not ("…" in short and end) else name + end


def _low_chance(probability: float, verdict: Verdict, evidence: Evidence, change: ChangeOutline) -> str:
    """Say why a chance is low: a bad record, then failed tests; for a good record, what lowers it most."""
    chance, clean, cases = percent(probability), evidence.clean, evidence.clean + evidence.not_clean
    if 2 * clean <= cases:
        return f"Chance {chance}: {f'{clean:,}' if clean else 'none'} of {cases:,} merged cleanly"
    if change.tests_fail:
        return f"Chance {chance}, tests fail"
    words = _lowering_words(verdict.factors)
    return f"Chance {chance}: {words}" if words else f"Chance {chance}, though {clean:,} of {cases:,} clean"


def _lowering_words(factors: Iterable[Factor], tables: Sequence[Words] | None = None) -> str:
    """Name the factor that lowers the chance most, of the change or its author before what is so in the repository.

    "" where none of those that have words lowers it by TELLING.
    """
    told = ((one.effect, one.name, one.value) for one in factors if None not in (one.effect, one.value))
    lowering = sorted((number_of(effect), name, value) for effect, name, value in told if number_of(effect) <= -TELLING)
    words = (
        table[name](number_of(value))
        for table in tables or (LOWERS, LOWERS_HERE)
        for _, name, value in lowering
        if name in table
    )
    return next(filter(None, words), "")


def _change_clause(
    code: str, reasons: Mapping[str, Params], verdict: Verdict, evidence: Evidence, change: ChangeOutline
) -> str:
    """Name the strongest finding where the reason is about content, or the size where nothing else is wrong."""
    if code == "low_probability" and evidence.clean + evidence.not_clean:
        return _low_chance(number_of(reasons[code]["probability"]), verdict, evidence, change)
    if code not in OF_CONTENT:
        return CLAUSES[code](reasons[code])
    if finding := next((other for other in change.findings if other.severity != "low"), None):
        name = finding_name(finding.scanner, finding.rule, finding.type)
        same_name = [other for other in change.findings if finding_name(other.scanner, other.rule, other.type) == name]
        if len(same_name) == 1:
            return found_words(name, _place(finding.file, finding.line))
        in_one_file = all(other.file == finding.file for other in same_name)
        return found_words(name, _place(finding.file, None) if in_one_file else "", len(same_name))
    if code == "review_recommended" and change.lines > LARGE:
        return f"Large: {change.files:,} files" if change.files >= MANY_FILES else f"Large: {change.lines:,} lines"
    if code == "review_recommended" and "content_risk_above" not in reasons:
        return ""  # some part was not read, which other reasons say
    if code == "content_risk_above" and change.findings:
        return _of_low_findings(change.findings)
    return CLAUSES[code](reasons[code])


def _of_low_findings(findings: Sequence[ShownFinding]) -> str:
    """Name the finding where there is one; of several say how many there are, and where."""
    (finding, *more) = findings
    if not more:
        name = finding_name(finding.scanner, finding.rule, finding.type)
        return found_words(name, _place(finding.file, finding.line))
    files = {one.file for one in findings}
    words = f"{len(findings):,} low-severity findings"
    return found_words(words, _place(finding.file, None)) if len(files) == 1 else f"{words}, {len(files):,} files"


def _place(file: str | None, line: int | None) -> str:
    return "" if file is None else visible(file) + ("" if line is None else f":{line}")


def _own_clause(verdict: Verdict, addition: str) -> str:
    """Say that the author may push, with another fact where there is one, else with what lowers the chance most."""
    if not addition and verdict.estimate.probability is not None:
        lowered = _lowering_words(verdict.factors, (LOWERS,))
        whole = f"Author may push; {percent(verdict.estimate.probability)}: {lowered}"
        return whole if lowered and len(whole) <= LONGEST else "Its author may push here"
    return fit(f"Author may push; {addition}") if addition else "Its author may push here"


def _newcomer_clause(verdict: Verdict, evidence: Evidence, change: ChangeOutline, addition: str) -> str:
    """Say that nothing of the author is settled here yet, and add another fact where there is one.

    Without another fact a model's chance comes first, high or low, since such a row is ordered by it; a low one with
    what lowers it most.
    """
    cases = evidence.clean + evidence.not_clean
    if not addition and cases and not evidence.waiting:
        return f"New here; {evidence.clean} of {cases} went well elsewhere"
    # No number, because a further pull request would change the words of all the author's rows.
    new = "New here" if change.several_open else "First change here"
    first = f"{evidence.waiting} merged here, too new to count" if evidence.waiting else new
    if not addition and not evidence.waiting:
        if (chance := verdict.estimate.probability) is not None:
            lowered = _lowering_words(verdict.factors, (LOWERS,)) if chance < EVEN else ""
            whole = f"Chance {percent(chance)}: new here, {lowered}"
            short = f"Chance {percent(chance)}: {new[:1].lower()}{new[1:]}"
            return whole if lowered and len(whole) <= LONGEST else short
        addition = _findings_count(change) if change.findings else "no record yet"
    return f"{first}, {addition}" if addition else first


def _merged_ratio(params: Params) -> str:
    return f"{count_of(params['merged_here'])} of {count_of(params['settled_here'])}"


def _flagged(params: Params) -> str:
    name = FLAG_NAMES.get(str(params.get("type")), FLAG_NAMES["other"])
    place = str(params.get("place") or "")
    return found_words(name, visible(place) if _LINE.search(place) or "/" in place else "")


def _touched(params: Params) -> str:
    return f"touches {TOUCHED.get(str(params['kind']), 'guarded files')}"


TELLING = 0.03  # least share of a chance by which a factor lowers it to be named as the reason
# What a model's factor says against a change, shortly; "" where the value says nothing. Only counts and facts that a
# person can see in the change or in its author's record: a rate that is drawn towards the usual one would name a share
# of theirs that nobody finds there.
LOWERS: Words = {
    "touches_tests": lambda value: "touches tests" if value else "",
    "touches_sensitive": lambda value: "touches guarded files" if value else "",
    "docs_only": lambda value: "documentation only" if value else "",
    "lines_changed": lambda value: things(round(value), "line") + " changed",
    "lines_added": lambda value: things(round(value), "line") + " added",
    "lines_deleted": lambda value: things(round(value), "line") + " deleted",
    "files_touched": lambda value: things(round(value), "file") + " touched",
    "size_against_usual": lambda value: "larger than usual for them" if value > 1 else "",
    "refused_here": lambda value: f"{round(value):,} of theirs refused here" if value else "",
    "open_here": lambda value: things(round(value), "other") + " open here" if value else "",
    "not_clean_before": lambda value: f"{round(value):,} of theirs went wrong" if value else "",
    "revert_rate": lambda value: f"{percent(value)} of their merges reverted" if value else "",
    "ci_pass_rate": lambda value: f"CI passed in {percent(value)} of rounds",
}
# Told of somebody with a record where nothing of the change or of theirs lowers it: how things were when it came.
LOWERS_HERE: Words = {
    "repository_days_since_merge": lambda days: f"no merges here for {round(days):,} days" if round(days) > 1 else "",
}

# Reasons about what was sent or done; they decide before anything known about the author.
CHANGE_CLAUSES: Mapping[str, Callable[[Params], str]] = {
    "high_flag": _flagged,
    "denounced_by_seed": lambda params: "Someone trusted here warns about them",
    "content_risk_high": lambda params: f"Content risk {risk_percent(number_of(params['risk']))}",
    "low_probability": lambda params: f"Chance {percent(number_of(params['probability']))} of merging without a fix",
    "attestation_missing": lambda params: "No attestation of jurisdiction",
    "attestation_expired": lambda params: "Attestation of jurisdiction expired",
    "attestation_revoked": lambda params: "Attestation of jurisdiction revoked",
    "attestation_unverifiable": lambda params: "Attestation could not be verified",
    "objection_open": lambda params: A_PERSON_ASKED_FOR,
    "audit_drawn": lambda params: "Random audit: would you merge this?",
    "peer_flagged": lambda params: "Another site sends it to a person",
    "approved_before": lambda params: "Changed after it was approved",
    "review_recommended": _flagged,
    "content_risk_above": lambda params: f"Content risk {risk_percent(number_of(params['risk']))}",
    "returned_differently": lambda params: "Back without their key: worth a look",
    "signature_missing": lambda params: "Usually signs commits; this is not signed",
    "signing_key_unknown": lambda params: "Usually signs, but not with this key",
    "signing_key_new": lambda params: f"Signed with a key first seen {days_ago(params['key_days'])}",
    "account_changed": lambda params: (
        "The author's account changed lately" if params["who"] == "author" else "A voucher's account changed lately"
    ),
}
# Reasons that keep a change out of the fast lane; they decide for a known author with passing tests.
LANE_CLAUSES: Mapping[str, Callable[[Params], str]] = {
    "never_fast_path": lambda params: f"T{_touched(params)[1:]}: always reviewed",
    "lane_closed": lambda params: "A maintainer closed the fast lane for it",
    "newer_round": lambda params: f"Round {count_of(params['newest']) + 1} not scanned yet",
    "no_content_verdict": lambda params: "Content not fully reviewed",
    "content_partly_read": lambda params: f"Only {percent(number_of(params['coverage']))} could be scanned",
    "back_from_silence": lambda params: "Sent right after a long absence",
    "signature_unchecked": lambda params: "Signatures not checked yet",
    "trusted_denouncers": lambda params: (
        "1 trusted person warns about them"
        if count_of(params["count"]) == 1
        else f"{count_of(params['count']):,} trusted people warn about them"
    ),
}
# Other reasons apply to every change or state known facts; the record decides before them.
OTHER_CLAUSES: Mapping[str, Callable[[Params], str]] = {
    "not_enough_evidence": lambda params: (
        "its low chance alone flags nobody" if "probability" in params else "No score yet"
    ),
    "content_not_reviewed": lambda params: "Content not reviewed yet",
    "below_fast_lane": lambda params: f"Chance {percent(number_of(params['probability']))}, too low for the fast lane",
    "no_trust_path": lambda params: "Nobody trusted here vouches for them yet",
    "trust_too_low": lambda params: "Too little trust for the fast lane",
    "one_account_path": lambda params: "All trust runs through one account",
    "never_seen_before": lambda params: "New to this site",
    "round_unknown": lambda params: "Latest round not known yet",
    "account_unknown": lambda params: "Account still being looked up",
    "paths_unknown": lambda params: "Files not known yet",
    "closures_unknown": lambda params: "Lane not known yet",
    "people_unknown": lambda params: "Objections not known yet",
    "enrichment_pending": lambda params: "Look-ups under way",
    "enrichment_unknown": lambda params: "Look-ups under way",
    "tests_failed": lambda params: "Tests fail",
    "audit_not_drawn": lambda params: "Audit not drawn yet",
    **dict.fromkeys(SHUT_LANE, lambda params: "The fast lane is shut"),
    "certificate_required": lambda params: "The fast lane needs a certificate",
    "threshold_not_certified": lambda params: "Fast lane not certified",
    "threshold_estimated": lambda params: "Fast lane estimated, not certified",
    "is_seed": lambda params: "Trusted as a seed here",
    "trust_path": lambda params: "Vouched for",
    "trust_reaches": lambda params: "Trust reaches them",
    "track_record": lambda params: f"{_merged_ratio(params)} merged here",
}
CLAUSES: Mapping[str, Callable[[Params], str]] = {**CHANGE_CLAUSES, **LANE_CLAUSES, **OTHER_CLAUSES}
OF_TRUST = ("no_trust_path", "trust_too_low", "one_account_path")
OF_CHANGE, OF_LANE = tuple(CHANGE_CLAUSES), tuple(LANE_CLAUSES)
NOT_CERTIFIED = ("threshold_not_certified", "threshold_estimated")  # what a fast lane rests on instead of a certificate
TOLD_LAST = (*OF_LANE, "not_enough_evidence", "content_not_reviewed", "enrichment_pending")
OF_CONTENT = frozenset({"high_flag", "content_risk_high", "content_risk_above", "review_recommended"})
