"""Find new dependencies whose names look like widely known ones, with what is known of their publication."""

from collections.abc import Iterator

from scoring.packages.compare import Comparison, comparisons
from scoring.packages.entry import Entry, Package
from scoring.packages.publication import Publication
from scoring.packages.typosquats import Imitation, imitation, known_names
from scoring.scanners._finding_helpers import number_of, quoted, shown
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "typosquats"
_HOW = {
    "spelling": "is spelled nearly like",
    "separators": "differs only in its separators from",
    "lookalike": "looks like",
    "order": "has the words in another order of",
    "scope": "has nearly the owner of",
    "affix": "reads like an edition of",
    "compound": "has a misspelling in it of",
}
_LETTERS = {1: ", one letter apart", 2: ", two letters apart"}
_SURE = ("lookalike", "separators", "scope")


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each new name that imitates a known one, in manifests and lock files."""
    for comparison in comparisons(submission.change):
        known = known_names(comparison.format.ecosystem, submission.knowledge.popular)
        for entry in comparison.new():
            if entry.source != "path" and (imitated := imitation(entry.name, known)):
                package = Package(comparison.format.ecosystem, entry.name, entry.version or entry.floor)
                (publication,) = submission.knowledge.publications([package])
                yield _finding(comparison, entry, imitated, publication)


def _finding(comparison: Comparison, entry: Entry, imitated: Imitation, publication: Publication) -> Finding:
    """Build the finding. A young package raises its severity, and nothing that is known of one lowers it."""
    is_sure = imitated.kind in _SURE or (imitated.kind == "spelling" and imitated.edits == 1)
    severity = Severity.HIGH if is_sure or publication.is_young else Severity.MED
    letters = _LETTERS.get(imitated.edits, "") if imitated.kind == "spelling" else ""
    known_name = f"{_HOW[imitated.kind]} {imitated.of}{letters}"
    names = f"{shown(entry.name)}{publication.in_words()} is new and {known_name}"
    return Finding(
        scanner=SCANNER,
        rule=imitated.kind,
        type="security",
        severity=severity,
        explanation=f"{names}: see that it is the package that was meant.",
        file=comparison.file.path,
        line=number_of(entry.line),
        quote=quoted(entry.line.text),
    )
