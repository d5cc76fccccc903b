"""The JSON of a content review: what is sent and what is told, with units and ranges."""

from typing import Annotated, Any, Literal

from ninja import Field, Schema

from triage.api.schemas import Share

Severity = Literal["low", "med", "high"]
FlagType = Literal[
    "subtle_bug", "slop", "security", "secret_leak", "license", "intent_mismatch", "untested", "oversized", "other"
]
Words = Annotated[str, Field(max_length=65_536)]
EXAMPLE_DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n"


class ArtefactIn(Schema):
    """What is to be reviewed; whoever wrote it is not asked and not told."""

    diff: str = Field(
        description="A unified diff or a git format-patch series, as text.", min_length=1, examples=[EXAMPLE_DIFF]
    )
    title: Annotated[str, Field(max_length=1000)] = Field("", description="Title of the pull request.")
    description: Words = Field("", description="What its author says of it.")
    discussion: Annotated[list[Words], Field(max_length=50)] = Field(
        default_factory=list, description="What others said of it, oldest first."
    )


class FlagOut(Schema):
    """One problem at one place."""

    type: FlagType = Field(description="What kind of problem.")
    severity: Severity = Field(description="How much it weighs: one of high sends a change to a person.")
    location: str = Field(description="File and line in the new file; the old one's where it says (removed).")
    explanation: str = Field(description="What is wrong; may hold words of the change, so escape it where shown.")


class FindingOut(Schema):
    """What a deterministic scanner found."""

    scanner: str = Field(description="Id of the scanner.", examples=["secrets"])
    severity: Severity = Field(description="How much it weighs.")
    file: str | None = Field(description="Path in the change; null where it concerns all of it.")
    line: int | None = Field(ge=1, description="Line of the new file, from 1; null for the whole file.")
    quote: str = Field(description="That line, cut at 200 characters, secrets masked; escape it where shown.")
    explanation: str = Field(description="What is wrong, in one sentence.")


class CostOut(Schema):
    """What the reading cost."""

    dollars: float = Field(description="US dollars; 0 where no model was asked or its answer was known.", ge=0)
    model: str | None = Field(description="The model that was asked; null for none.")
    tokens: dict[str, Any] | None = Field(description="Tokens as billed; null where no model was asked.")


class ReviewOut(Schema):
    """A review of a change's content."""

    content_risk: Share = Field(description="0 is clearly safe or trivial, 1 clearly broken or dangerous.")
    flags: list[FlagOut] = Field(description="Problems, strongest first.")
    summary: str = Field(description="One to three plain sentences; escape them where shown.")
    review_recommended: bool = Field(description="Whether a person should read the change.")
    findings: list[FindingOut] = Field(description="What the scanners found, strongest first.")
    coverage: Share = Field(description="Share of the changed lines that was read.")
    reviewer: str = Field(description="Who read: `deterministic`, or the id of the model.", examples=["deterministic"])
    verdict: Literal["content verdict", "no content verdict"] = Field(
        description="No verdict: a requested reading is missing, so it cannot be fast lane."
    )
    missing: str | None = Field(description="Why there is no verdict; null where there is one.")
    cost: CostOut = Field(description="What it cost.")


class JobOut(Schema):
    """A review that is under way."""

    job: str = Field(description="Its name. A maintainer who knows it can fetch the answer for an hour.")
    url: str = Field(description="Where to look for the answer.", examples=["/review/pr/1795000000-0a1b"])
