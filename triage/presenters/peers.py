"""Puts into words how other sites judge a pull request, and how much their word weighs here."""

from dataclasses import dataclass

from scoring.explain.reasons import PEER_DECISIONS
from scoring.formatting import percent, things, visible
from scoring.queries.read import Agreement, PeerOpinion, PeerStanding


@dataclass(frozen=True, slots=True)
class PeerView:
    """One peer's word: `said` what, and `effect` what follows from it here, "" of a decided pull request."""

    name: str
    uri: str
    said: str
    effect: str


def opinion_view(opinion: PeerOpinion) -> PeerView:
    said = PEER_DECISIONS[opinion.decision]
    version = "" if opinion.is_current else ", but means another version"
    return PeerView(visible(opinion.peer.name), opinion.uri, f"says that {said}{version}", _effect(opinion))


def _effect(opinion: PeerOpinion) -> str:
    weight = weight_words(opinion.agreement)
    if opinion.lowers:
        return f"So a person decides here. Weight {weight}."
    if not opinion.is_own_word:
        return "It repeats what others said, so it counts nothing."
    return f"Only shown. Weight {weight}."


def weight_words(agreement: Agreement) -> str:
    """Say a peer's weight, and on how many audits it rests."""
    if not agreement.audits:
        return "0: no audit here has tested its word yet"
    audits = things(agreement.audits, "audit")
    return f"{percent(agreement.weight)}, from {audits} ({agreement.bad:,} bad)"


def standing_words(standing: PeerStanding) -> str:
    """Say how many assessments of a peer are proven, and its weight."""
    refused = f", {standing.refused:,} not proven" if standing.refused else ""
    return f"{things(standing.proven, 'assessment')}{refused}; weight {weight_words(standing.agreement)}"
