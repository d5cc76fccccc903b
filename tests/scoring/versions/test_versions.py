"""The rules' version is raised when the same inputs give other results; only then is everything judged anew."""

import pytest

from tests.scoring.versions.outputs import FILE, VERSIONS, digest, outputs_of, stored

HOW = f"then write {FILE.name} anew: python -m tests.scoring.versions.outputs"


@pytest.mark.parametrize("rules", sorted(VERSIONS))
def test_an_output_of_the_rules_changes_only_with_their_version(rules: str) -> None:
    known, now = stored()[rules], outputs_of(rules)
    differs = [name for name in {**known["outputs"], **now} if known["outputs"].get(name) != now.get(name)]
    assert not differs, f"{len(differs)} outputs differ ({differs[:5]}): raise {rules.upper()}_VERSION, {HOW}"
    assert known["version"] == VERSIONS[rules], HOW


@pytest.mark.parametrize("rules", sorted(VERSIONS))
def test_no_version_stands_for_two_sets_of_outputs(rules: str) -> None:
    known = stored()[rules]
    assert known["digests"][known["version"]] == digest(known["outputs"])
    assert len(set(known["digests"].values())) == len(known["digests"]), "a version was raised for nothing"


def test_the_cases_reach_every_lane_and_most_rules() -> None:
    gate, review = stored()["gate"]["outputs"], stored()["review"]["outputs"]
    lanes = {case["lane"] for name, case in gate.items() if name != "drawn together"}
    assert lanes == {"fast_lane", "normal_queue", "needs_human"}
    assert len({reason[0] for case in gate.values() if isinstance(case, dict) for reason in case["reasons"]}) >= 30
    assert len({finding[0] for case in review.values() for finding in case["findings"]}) >= 100


@pytest.mark.parametrize(
    ("case", "other"),
    [
        ("alias of pickle, the whole file", "alias of pickle, the hunk alone"),
        ("like a known-bad change: near", "like a known-bad change: not near"),
        ("small change, git reads the same", "small change, git reads otherwise"),
    ],
)
def test_the_cases_show_what_is_known_besides_a_patch(case: str, other: str) -> None:
    outputs = stored()["review"]["outputs"]
    assert outputs[case] != outputs[other]
