"""Checks that a model can review: the API's word on it, and that it takes the very request of a review."""

from dataclasses import dataclass, replace
from datetime import date

from scoring.review.answers import NoAnswer
from scoring.review.anthropic_client import Claude
from scoring.review.payload import Rendering
from scoring.review.pricing import capability
from scoring.review.prompt import first_request
from scoring.review.schema import plain_text

NOTHING = Rendering('{"findings": []}')


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A report on one model. `lifecycle` and what follows are None where the API does not know it.

    `problem` says in words why it cannot review, None where it can: the request of a review was taken by count_tokens,
    which checks fields, schema and model and costs nothing. It takes no temperature, so `temperature` is our table's.
    """

    model: str
    role: str
    temperature: str
    lifecycle: str | None = None
    retires_on: date | None = None
    input_tokens: int | None = None
    problem: str | None = None

    @property
    def serves(self) -> bool:
        """Return whether a review can be asked of it."""
        return self.problem is None


def check_model(claude: Claude, model: str, role: str) -> ModelReport:
    """Ask the API about a model; never raises for what it answers."""
    sent_temperature = capability(model).temperature
    temperature = "no temperature is sent" if sent_temperature is None else f"temperature {sent_temperature:g} is sent"
    try:
        model_info = claude.look_up(model)
    except NoAnswer as problem:
        return ModelReport(model, role, temperature, problem=str(problem))
    retires = model_info.retires_at
    report = ModelReport(
        model=model,
        role=role,
        temperature=temperature,
        lifecycle=plain_text(model_info.lifecycle, 20) or "unknown",
        retires_on=retires.date() if retires else None,
        input_tokens=model_info.max_input_tokens,
        problem="it is retired" if model_info.lifecycle == "retired" else None,
    )
    return report if report.problem else _try_request(claude, report)


def _try_request(claude: Claude, report: ModelReport) -> ModelReport:
    try:
        claude.count_tokens(first_request(report.model, NOTHING, b"check"))
    except NoAnswer as problem:
        return replace(report, problem=f"refuses the request of a review: {problem}")
    return report
