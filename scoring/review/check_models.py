"""Checks that a model can review: the API knows it, and it accepts a review's request."""

from dataclasses import dataclass, replace
from datetime import date

from scoring.review.answers import NoAnswer
from scoring.review.anthropic_client import Claude
from scoring.review.payload import Rendering
from scoring.review.pricing import capability
from scoring.review.prompt import first_request
from scoring.review.schema import plain_text

EMPTY_CHANGE = Rendering('{"findings": []}')


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The report on one model. `lifecycle` and the fields after it are None if the API does not know the model.

    `problem` says why the model cannot review, None if it can: count_tokens, which checks fields, schema and model and
    costs nothing, accepted a review's request. It takes no temperature, so `temperature` comes from our own table.
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
        """Return whether the model can review."""
        return self.problem is None


def check_model(claude: Claude, model: str, role: str) -> ModelReport:
    """Ask the API about a model; a refusal or an error becomes the report's problem."""
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
        claude.count_tokens(first_request(report.model, EMPTY_CHANGE, b"check"))
    except NoAnswer as problem:
        return replace(report, problem=f"refuses the request of a review: {problem}")
    return report
