"""Which model a label points at: one line in a file beside the models, which a page can read without loading any."""

from pathlib import Path

from scoring.learning.cases import LabelName


class ModelProblem(Exception):
    """A kept model cannot serve, in one sentence."""


def serving_name(folder: Path, label: LabelName) -> str | None:
    """The model that a label points at; None for none, ModelProblem for a pointer that names none."""
    try:
        name = (folder / f"{label}.serving").read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise ModelProblem(f"the pointer of {label} names no model")
    return name
