"""The shape of a review of one change for every reviewer; Claude's tool schema is derived from it.

A strict tool schema supports no minimum, maximum or length: descriptions state the bounds, and this module checks them.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ingest.store.long_texts import fitting
from scoring.review.pricing import Usage
from scoring.types import FlagType, Severity

LOCATION_LENGTH = 300  # characters
EXPLANATION_LENGTH = 1200
SUMMARY_LENGTH = 900
FLAGS_LIMIT = 60
FLAGS_BYTES = 10_000  # of one reading's flags as JSON: a column holds two readings and their omitted files
DETERMINISTIC = "deterministic"  # the reviewer that is no model

State = Literal["content verdict", "no content verdict"]
# A link that a browser, a mail program or a person could follow.
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.|\b(?:mailto|javascript|data|tel):(?=\S))\S*", re.IGNORECASE)
_HOST = re.compile(r"(?:[^/@]*@)?(?:www\.)?((?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,20})(?::\d*)?(?:[/?#,;)].*)?", re.DOTALL)
# Formatting (bidirectional marks, tags, zero widths), surrogates, private and unassigned characters.
_UNSEEN = {"Cf", "Cs", "Co", "Cn"}
_BREAKS = {"Cc", "Zl", "Zp"}


class Flag(BaseModel):
    """One problem at one place of the change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: FlagType
    severity: Annotated[Severity, WithJsonSchema({"type": "string", "enum": [one.value for one in Severity]})]
    location: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LOCATION_LENGTH,
            description="file id and line id as given, such as F2:L14 or F2:L14-L18; F2 for a whole file; or title, "
            "description, discussion",
        ),
    ]
    explanation: Annotated[
        str,
        Field(
            min_length=1,
            max_length=EXPLANATION_LENGTH,
            description="what is wrong there and what to look at, in one or two plain sentences",
        ),
    ]


class Assessment(BaseModel):
    """The structured risk assessment of one pull request's content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    content_risk: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            allow_inf_nan=False,
            description="0.0 is clearly safe or trivial, 1.0 is clearly broken or dangerous",
        ),
    ]
    flags: Annotated[tuple[Flag, ...], Field(max_length=FLAGS_LIMIT)]
    summary: Annotated[
        str,
        Field(
            min_length=1,
            max_length=SUMMARY_LENGTH,
            description="one to three plain sentences, fit to read aloud to a maintainer",
        ),
    ]
    review_recommended: Annotated[bool, Field(description="whether a person should read this change")]


@dataclass(frozen=True, slots=True)
class Review:
    """The final result on one change.

    `reviewer` is DETERMINISTIC or the id of the reading model. `coverage` is the share in [0, 1] of the changed lines
    that every reader read; `left_out` names files that the model was not given. `state` is "no content verdict" if a
    wanted reading is missing, with its code in `reason`; such a change cannot enter the fast lane. `dollars` is the
    cost of the calls. The later fields are None if no model was asked; `temperature_sent` is None also if the model
    takes no temperature.
    """

    assessment: Assessment
    reviewer: str
    coverage: float
    state: State = "content verdict"
    reason: str | None = None
    left_out: tuple[str, ...] = ()
    dollars: float = 0.0
    model: str | None = None
    prompt_version: str | None = None
    temperature_sent: float | None = None
    usage: Usage | None = None


def tool_schema() -> dict[str, Any]:
    """Return the JSON schema of an Assessment for a strict tool; imports the SDK, which takes a second."""
    from anthropic import transform_schema

    return transform_schema(Assessment)


def plain_text(text: str, limit: int) -> str:
    """Return outside text as one line of at most `limit` characters without links or unprintable characters.

    Of a link its host is named. It stays untrusted: pages must escape it.
    """
    categories = ((character, unicodedata.category(character)) for character in text)
    visible_text = "".join(
        " " if category in _BREAKS else character for character, category in categories if category not in _UNSEEN
    )
    line = " ".join(_LINK.sub(_linked_host, visible_text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _linked_host(link: re.Match[str]) -> str:
    """Say where a link leads, in words that are no link; of what names no plain host only that it was one."""
    found = _HOST.fullmatch(link[0].lower().rpartition("://")[2] if link[0].count("://") == 1 else link[0].lower())
    return f"(link to {found[1]})" if found and "www." not in found[1] else "(link removed)"


def tidy_assessment(assessment: Assessment) -> Assessment:
    """Return the assessment with plain texts and the strongest flags that fit into FLAGS_BYTES.

    A placeholder replaces a text that would be empty.
    """
    strongest = sorted(assessment.flags, key=lambda flag: tuple(Severity).index(flag.severity), reverse=True)
    flags = [
        flag.model_copy(update={"explanation": _plain_or_placeholder(flag.explanation, EXPLANATION_LENGTH)})
        for flag in strongest
    ]
    kept_count = len(fitting((flag.model_dump(mode="json") for flag in flags), FLAGS_BYTES))
    updates = {"flags": tuple(flags[:kept_count]), "summary": _plain_or_placeholder(assessment.summary, SUMMARY_LENGTH)}
    return assessment.model_copy(update=updates)


def _plain_or_placeholder(text: str, limit: int) -> str:
    return plain_text(text, limit) or "(nothing readable was said)"
