"""`python -m tests.scoring.versions.outputs` writes outputs.json anew, after a version of the rules was raised.

The file holds, for gate and review, the version, what the rules of that version make of every case, and the digest of
each version so far. An output that changed under the same version is refused: raise the version first.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import msgspec

from scoring.gate.decide import GATE_VERSION, Inputs, judge_inputs
from scoring.review.deterministic import review_without_model
from scoring.scanners.run import REVIEW_VERSION, examine
from scoring.scanners.submission import Submission
from tests.scoring.versions.cases import drawn_inputs, gate_inputs, submissions

FILE = Path(__file__).with_name("outputs.json")
VERSIONS = {"gate": GATE_VERSION, "review": REVIEW_VERSION}


def outputs_of(rules: str) -> dict[str, Any]:
    """The outputs of 'gate' or 'review' by the name of the case."""
    if rules == "review":
        return {name: _review(submission) for name, submission in submissions()}
    told: dict[str, Any] = {name: _judge(inputs) for name, inputs in gate_inputs()}
    return told | {"drawn together": digest([_judge(inputs) for inputs in drawn_inputs()])}


def digest(outputs: object) -> str:
    """SHA-256 of outputs as JSON, 16 hex digits."""
    return hashlib.sha256(msgspec.json.encode(outputs, order="deterministic")).hexdigest()[:16]


def stored() -> dict[str, Any]:
    """The file as it stands: {rules: {version, digests, outputs}}."""
    return msgspec.json.decode(FILE.read_bytes())


def _judge(inputs: Inputs) -> dict[str, Any]:
    verdict = judge_inputs(inputs)
    estimate = verdict.estimate
    figures = (estimate.probability, estimate.low, estimate.high, estimate.cases)
    return {
        "lane": str(verdict.lane),
        "reasons": [[reason.code, dict(reason.params)] for reason in verdict.reasons],
        "estimate": [figure and round(figure, 9) for figure in figures],  # the last digits differ between machines
    }


def _review(submission: Submission) -> dict[str, Any]:
    examined = examine(submission)
    review = review_without_model(submission.change, examined.findings, examined.unfinished)
    return {
        "state": review.state if review.reason is None else f"{review.state}: {review.reason}",
        "risk": review.assessment.content_risk,
        "recommended": review.assessment.review_recommended,
        "coverage": review.coverage,
        "findings": [[one.rule, str(one.severity), one.file, one.line] for one in examined.findings],
    }


def write() -> str:
    """Write the file; the reason why not in words, else nothing."""
    before = stored() if FILE.exists() else {}
    told = {}
    for rules, version in VERSIONS.items():
        outputs = outputs_of(rules)
        digests = {**before.get(rules, {}).get("digests", {})}
        if digests.setdefault(version, digest(outputs)) != digest(outputs):
            return f"What the {rules} makes of its cases changed: raise its version, which is still {version}."
        told[rules] = {"version": version, "digests": digests, "outputs": outputs}
    FILE.write_text(f"{{{','.join(_lines(rules, each) for rules, each in told.items())}\n}}\n")
    return ""


def _lines(rules: str, told: dict[str, Any]) -> str:
    """One entry of the file, a line a case."""
    cases = ",\n".join(f"  {_json(name)}: {_json(output)}" for name, output in told["outputs"].items())
    head = f'"version": {_json(told["version"])}, "digests": {_json(told["digests"])}'
    return f'\n"{rules}": {{{head}, "outputs": {{\n{cases}\n}}}}'


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    sys.exit(write() or None)
