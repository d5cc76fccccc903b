"""Structural trust in words: what it hangs on, who brings it, who hangs on somebody. Pure.

Unknown is not bad: where there is no path nothing is said here, and one way only is told as a fact about the network.
"""

from scoring.figures import trust_bound
from scoring.read import TrustExplanation, VouchWorth
from scoring.verdict import Measure

MEASURE_WORDS: dict[Measure, str] = {
    "first_passage": "trust by first passage",
    "eigentrust": "trust by EigenTrust, the baseline, which people can raise by their own vouches",
}


def trust_sentences(found: TrustExplanation) -> tuple[str, ...]:
    """How far from the seeds, over how many ways, and what would end it; () for a seed and where there is no path."""
    if not found.distance:
        return ()
    hops = "One step" if found.distance == 1 else f"{found.distance} steps"
    ways = len(found.paths)
    told = f"{hops} from the nearest seed" + (f", over {ways} independent paths" if ways > 1 else "") + "."
    return (told, *_hangs_on(found))


def _hangs_on(found: TrustExplanation) -> tuple[str, ...]:
    if found.dominator is not None:
        return (f"If {found.dominator.name} were compromised, this trust would be gone.",)
    if found.distance == 1:
        return ()
    return ("No single account carries all of it.",)


def share_words(share: float) -> str:
    """A share in whole per cent; what is not nothing is never 0 %."""
    percent = round(share * 100)
    return f"{percent} %" if percent else "under 1 %"


def vouching_words(merges: int, evidence: int = 0) -> str:
    """How somebody vouches: in a record, with what evidence that was verified, or by merging."""
    if not merges:
        named = "1 merged pull request" if evidence == 1 else f"{evidence:,} merged pull requests"
        return f"vouched, with {named} as evidence" if evidence else "vouched"
    return "merged once" if merges == 1 else f"merged {merges:,} times"


def dependents_words(found: TrustExplanation, exact: bool = True) -> str:
    """Whose trust hangs on this person's vouches, by the exact mark or not; "" where nobody's does."""
    if not found.dependents_total:
        return ""
    people = _people(found.dependents_total)
    keeps = "is" if found.dependents_total == 1 else "are"
    enough = f"with {trust_bound(found.threshold)} or more" if exact else "enough to count"
    return f"{people} {keeps} trusted {enough} only through vouches by this account."


def worth_words(found: VouchWorth) -> str:
    """What one vouch would open, and the most that it could be abused for."""
    mark = trust_bound(found.threshold)
    told = [f"Would be trusted with {mark} or more." if found.after >= found.threshold else f"Stays below {mark}."]
    if found.opens:
        told.append(f"{_people(found.opens)} more would be trusted too.")
    one = "one of them" if found.opens and found.after >= found.threshold else "this account"
    if found.exposure:
        fakes = "1 fake" if found.exposure == 1 else f"{found.exposure:,} fakes"
        told.append(f"If {one} were compromised, at most {fakes} could reach {mark}, all through that one account.")
    else:
        told.append(f"If {one} were compromised, no fake could reach {mark}.")
    return " ".join(told)


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"
