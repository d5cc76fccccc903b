"""The statements of derived.sql, by which tables follow from others, and the name by which a person is shown."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("derived.sql").read_text(), re.DOTALL)
)


def display_name(row: Mapping[str, Any]) -> str:
    """Return the handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"
