"""The statements of derived.sql, by which tables follow from others."""

import re
from collections.abc import Mapping
from pathlib import Path

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("derived.sql").read_text(), re.DOTALL)
)
