"""The form of a repository's settings: its fields in words, and the typed values. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ingest.atproto.syntax import parse_handle
from scoring.config.repository import DIDS, LISTED, LISTS, RepositorySettings, SettingsProblem, check_settings
from scoring.formatting import percent_in_full

TYPED = 70_000  # characters of one field: 200 of the longest patterns
SHARE = re.compile(r"(\d{1,3})(?:[.,](\d{1,2}))?", re.ASCII)
DAYS = re.compile(r"\d{1,4}", re.ASCII)

LABELS: Mapping[str, str] = {
    "budget": "Budget of bad ones in the fast lane, in percent",
    "alarm_budget": "Budget of false alarms, in percent of clean work",
    "window_days": "Days until a merge counts as clean",
    "tier": "Tier",
    "review": "Content review",
    "publish": "Publish lanes",
    "time_zones": "Time zones of commits",
    "seeds_added": "Additional seeds",
    "seeds_removed": "Not trusted as seeds",
    "never_fast_paths": "Never fast-lane these paths",
    "sensitive_paths": "Always need a person",
    "accepted_issuers": "Accepted attestation issuers",
    "organisation_domains": "Accepted organisation domains",
    "shadow": "Only watching",
}
# The field that each part of the form begins with.
PARTS: Mapping[str, str] = {
    "budget": "How much the fast lane risks",
    "tier": "Review and publishing",
    "seeds_added": "People",
    "never_fast_paths": "Files",
    "accepted_issuers": "Attestations in the sensitive tier",
}
BUDGETS = ("budget", "alarm_budget")
BOUNDS: Mapping[str, str] = {
    "budget": "The share of bad ones that you accept among all that the lane lets through. A lane that is open on an "
    "estimate keeps the limit of its opening. ",
    "alarm_budget": "The share of clean work that may be flagged because of a low chance. ",
}
ONE_A_LINE: Mapping[str, str] = {
    "seeds_added": "Handles or DIDs, one a line. Their judgement counts fully in this repository.",
    "seeds_removed": "Handles or DIDs, one a line: for example a bot. It can still push, but no trust starts from it.",
    "never_fast_paths": "Patterns as in .gitignore, one a line. CI, build, release, install hooks, locked "
    "dependencies and binaries always count.",
    "sensitive_paths": "Patterns as in .gitignore, one a line: a person always reads changes of these.",
    "accepted_issuers": "Handles or DIDs of organisations, one a line. Their attestations count in the sensitive tier.",
    "organisation_domains": "Domains, one a line. A did:web on one of them counts as attested by the organisation.",
}
PUBLISH_HINT = (
    "Public records that anybody can read and prove: each lane with its reasons about the change, from now on. Never a "
    "chance, trust or a voucher. People who object or opt out are left out. An admin of the site connects its account."
)
TIME_ZONES_HINT = (
    "Each commit says how far its clock is from UTC. With this on, a quarter of the world is noted with the commits of "
    "pull requests and compared with the same person's earlier ones, only where a person who usually signs comes back "
    "without their key. It is never shown, and switching it off forgets it."
)
HINTS = {"publish": PUBLISH_HINT, "time_zones": TIME_ZONES_HINT}
SWITCH = ("off", "on")
CHOICES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "tier": (
        ("public", "Public: any pull request can be fast lane"),
        ("sensitive", "Sensitive: the fast lane needs a valid attestation of the author's jurisdiction"),
    ),
    "review": (
        ("off", "Off: no review, and no fast lane"),
        ("deterministic", "Scanners only: nothing leaves this machine"),
        ("claude", "Claude: also sends diffs to Anthropic, without names"),
    ),
    "publish": (
        ("off", "Off: nothing is published"),
        ("decided", "Decided: each lane once its pull request is merged or closed"),
        ("delayed", "Delayed: also open ones that need a human, after a day"),
    ),
    "time_zones": (
        ("off", "Off: the time zones of commits are not read"),
        ("on", "On: compared with the same person's own, after a silence and without their key"),
    ),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form; `problem` is a sentence, "" where the typed value is valid.

    `in_force` describes the present value, `default` is shown in an empty field, and `people` names the DIDs: (DID,
    name), "" for somebody not seen here.
    """

    name: str
    label: str
    kind: Literal["figure", "choice", "lines"]
    value: str
    problem: str
    hint: str = ""
    in_force: str = ""
    default: str = ""
    people: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    part: str = ""  # the heading above it, "" where it belongs to the part before


def form_fields(
    typed: Mapping[str, str],
    problems: Mapping[str, str],
    current: RepositorySettings,
    site: Mapping[str, str],
    names: Mapping[str, str],
) -> tuple[Field, ...]:
    """Return the fields of the form in order, with typed and present values.

    `site` are the site's own values in words, `names` those of the known DIDs.
    """
    fields = [_field(name, typed.get(name, "")[:TYPED], problems.get(name, "")) for name in LABELS if name != "shadow"]
    return tuple(
        replace(field, part=PARTS.get(field.name, ""), **_present_value(field.name, current, site, names))
        for field in fields
    )


def _present_value(
    name: str, current: RepositorySettings, site: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the present value of one field, and the names of its DIDs."""
    if name in site:
        value = getattr(current, name)
        in_force = f"{site[name]}, the site default" if value is None else _figure_words(name, value)
        return {
            "in_force": f"In force: {in_force}.",
            "default": site[name].partition(" ")[0],
            "hint": f"{BOUNDS.get(name, '')}Leave empty for the site default ({site[name]}).",
        }
    if name not in LISTS:
        return {}
    lines = getattr(current, name)
    people = tuple((did, names.get(did, "")) for did in lines) if name in DIDS else ()
    return {"people": people, "in_force": "" if lines else "In force: none listed."}


def _figure_words(name: str, value: float) -> str:
    return percent_in_full(value) if name in BUDGETS else f"{value:g} days"


def site_values(budget: float, alarm_budget: float, window_days: int) -> dict[str, str]:
    """Return the site's values of settings that a repository may leave empty, in words."""
    values = {"budget": budget, "alarm_budget": alarm_budget, "window_days": window_days}
    return {name: _figure_words(name, value) for name, value in values.items()}


def typed_handles(typed: Mapping[str, str]) -> frozenset[str]:
    """Return the handles among the lines that name people."""
    lines = (line.strip() for name in DIDS for line in typed.get(name, "")[:TYPED].splitlines())
    return frozenset(handle for line in lines if not line.startswith("did:") and (handle := parse_handle(line)))


def with_dids(typed: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Replace each handle with its DID; raise SettingsProblem for a handle that is not `known`."""
    typed_dids, problems = dict(typed), dict[str, str]()
    for name in DIDS:
        lines = [line.strip() for line in typed.get(name, "")[:TYPED].splitlines()] if name in typed else []
        handles = {line: parse_handle(line) for line in lines if not line.startswith("did:")}
        unknown = [line for line, handle in handles.items() if handle and handle not in known]
        if unknown:
            problems[name] = f"Nobody seen here has the handle “{unknown[0][:100]}”. Check it, or write their DID."
        elif any(handles.values()):
            typed_dids[name] = "\n".join(known.get(handles.get(line) or "", line) for line in lines)
    if problems:
        raise SettingsProblem(problems)
    return typed_dids


def _field(name: str, value: str, problem: str) -> Field:
    if name in CHOICES:
        return Field(name, LABELS[name], "choice", value, problem, HINTS.get(name, ""), choices=CHOICES[name])
    if name in ONE_A_LINE:
        return Field(name, LABELS[name], "lines", value, problem, ONE_A_LINE[name])
    return Field(name, LABELS[name], "figure", value, problem)


def typed_of(settings: RepositorySettings) -> dict[str, str]:
    """Return the settings as a person would type them."""
    lines = {name: "\n".join(getattr(settings, name)) for name in LISTS}
    return {
        **lines,
        **{name: "" if (value := getattr(settings, name)) is None else f"{value * 100:g}" for name in BUDGETS},
        "window_days": "" if settings.window_days is None else str(settings.window_days),
        "tier": settings.tier,
        "review": settings.review,
        "publish": settings.publish,
        "time_zones": SWITCH[settings.time_zones],
    }


def read_form(typed: Mapping[str, str], current: RepositorySettings) -> RepositorySettings:
    """Return the typed settings; raise SettingsProblem with a sentence for each invalid field.

    A field that was not sent keeps its value; shadow mode has its own button.
    """
    problems: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name in typed.keys() & (LABELS.keys() - {"shadow"}):
        try:
            values[name] = _value(name, typed[name])
        except ValueError as problem:
            problems[name] = str(problem)
    settings = replace(current, **values)
    try:
        check_settings(settings)
    except SettingsProblem as invalid:
        problems = {**invalid.problems, **problems}
    if problems:
        raise SettingsProblem(problems)
    return settings


def _value(name: str, text: str) -> Any:
    if name in ONE_A_LINE:
        return _lines(text)
    text = text.strip()
    if name in BUDGETS:
        return _share(text)
    if name == "window_days":
        return _days(text)
    if name == "time_zones":
        return _switch(text)
    return cast(Any, text[:40])


def _lines(text: str) -> tuple[str, ...]:
    if len(text) > TYPED:
        raise ValueError(f"Not saved: this is longer than {TYPED:,} characters.")
    lines = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if len(lines) > LISTED:
        raise ValueError(f"At most {LISTED} lines, not {len(lines):,}.")
    return lines


def _share(text: str) -> float | None:
    if not text:
        return None
    match = SHARE.fullmatch(text.removesuffix("%").strip())
    if match is None:
        raise ValueError("The budget is a percentage such as 5 or 2.5.")
    return round(float(f"{match[1]}.{match[2] or 0}") / 100, 6)


def _days(text: str) -> int | None:
    if not text:
        return None
    if not DAYS.fullmatch(text):
        raise ValueError("The window is a whole number of days.")
    return int(text)


def _switch(text: str) -> bool:
    if text not in SWITCH:
        raise ValueError("This is either on or off.")
    return text == "on"


def change_words(changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a logged change in words: one sentence per setting, with the previous value."""
    return tuple(_change_sentence(name, *changes[name]) for name in LABELS if name in changes)


def _change_sentence(name: str, before: Any, after: Any) -> str:
    if name in LISTS:
        removed, added = [line for line in before if line not in after], [line for line in after if line not in before]
        parts = [f"added {', '.join(added)}"] if added else []
        parts += [f"took out {', '.join(removed)}"] if removed else []
        return f"{LABELS[name]}: {'; '.join(parts) or 'put in another order'}."
    return f"{LABELS[name]}: {_value_words(name, before)}, now {_value_words(name, after)}."


def _value_words(name: str, value: Any) -> str:
    if value is None:
        return "as the operator set it"
    if name in BUDGETS:
        return percent_in_full(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
