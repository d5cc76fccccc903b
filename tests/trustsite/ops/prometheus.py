"""Prometheus and promtool for tests, as Debian's package has them; only the programs are used, never its service."""

import os
import re
import shutil
from collections.abc import Iterable

import pytest


def program(name: str) -> str:
    """The path of prometheus or promtool; a machine without skips, REQUIRE_PROMETHEUS=1 fails."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not on the PATH (Debian's package is called prometheus)"
        if os.environ.get("REQUIRE_PROMETHEUS") == "1":
            pytest.fail(f"REQUIRE_PROMETHEUS=1, but {reason}")
        pytest.skip(reason)
    return found


def series_named(exposition: str) -> set[str]:
    """The names of every series that an exposition declares, also of those that have no sample yet."""
    endings = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
    declared = re.findall(r"^# TYPE (\S+) (\S+)$", exposition, re.MULTILINE)
    return {name + ending for name, kind in declared for ending in endings.get(kind, ("",))}


def metrics_in(expressions: Iterable[str]) -> set[str]:
    """The metrics that PromQL expressions ask for: every sunstead_ or process_ name, since labels have other names."""
    return {name for expression in expressions for name in re.findall(r"\b(?:sunstead|process)_\w+", expression)}
