"""The base score of a CVSS 3.0 or 3.1 vector, as its specification computes it. Pure."""

from math import ceil

_ATTACK = {
    "AV": {"N": 0.85, "A": 0.62, "L": 0.55, "P": 0.2},
    "AC": {"L": 0.77, "H": 0.44},
    "UI": {"N": 0.85, "R": 0.62},
}
_PRIVILEGES = {"U": {"N": 0.85, "L": 0.62, "H": 0.27}, "C": {"N": 0.85, "L": 0.68, "H": 0.5}}
_IMPACT = {"H": 0.56, "L": 0.22, "N": 0.0}


def base_score(vector: str) -> float | None:
    """The base score in [0, 10]; None for a vector of another version, and for one that is broken.

    Specification: https://www.first.org/cvss/v3.1/specification-document §7.1.
    """
    version, *pairs = vector[:200].split("/")
    told = dict(pair.split(":", 1) for pair in pairs if ":" in pair)
    if version not in ("CVSS:3.0", "CVSS:3.1"):
        return None
    try:
        scope = told["S"]
        exploitability = 8.22 * _PRIVILEGES[scope][told["PR"]]
        for name, weights in _ATTACK.items():
            exploitability *= weights[told[name]]
        kept = 1.0
        for name in ("C", "I", "A"):
            kept *= 1 - _IMPACT[told[name]]
    except KeyError:
        return None
    lost = 1 - kept
    impact = 6.42 * lost if scope == "U" else 7.52 * (lost - 0.029) - 3.25 * (lost - 0.02) ** 15
    if impact <= 0:
        return 0.0
    return _rounded_up(min(impact + exploitability, 10) if scope == "U" else min(1.08 * (impact + exploitability), 10))


def _rounded_up(score: float) -> float:
    """To one place, upwards; in whole numbers first, so that 4.02 stored as 4.0200000001 is no 4.1 too many."""
    whole = round(score * 100_000)
    return whole / 100_000 if whole % 10_000 == 0 else (ceil(whole / 10_000)) / 10
