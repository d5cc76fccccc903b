"""What is read aloud of a contributor. Pure."""

from scoring.briefing import briefing
from scoring.read import ContributorScore
from scoring.sealing import is_drawn

BRIEFING_LENGTH = 600  # characters


def spoken(score: ContributorScore) -> str:
    """One to three sentences about the newest open pull request.

    About the person where there is none, or where it was a sample of the audit: its question is answered by then.
    """
    if score.newest is None or is_drawn(score.newest):
        return " ".join(briefing(score.verdict, "person"))
    return " ".join(briefing(score.newest, "change", score.shadow))
