"""OSV records for tests, and folders and zip files of them."""

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Events = list[dict[str, str]]


def record(
    identifier: str = "PYSEC-1",
    name: str = "flask",
    events: Events | None = None,
    versions: Iterable[str] = (),
    ecosystem: str = "PyPI",
    **more: Any,
) -> dict[str, Any]:
    """A record on one package; without events every version up to 2.0 is affected."""
    ranges = [{"type": "ECOSYSTEM", "events": events or [{"introduced": "0"}, {"fixed": "2.0"}]}]
    affected = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges, "versions": list(versions)}
    return {
        "id": identifier,
        "modified": "2026-01-02T03:04:05Z",
        "summary": "It breaks",
        "affected": [affected],
        **more,
    }


def folder_of(folder: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """A folder with a file for each record."""
    folder.mkdir(exist_ok=True)
    for number, one in enumerate(records):
        (folder / f"{number}.json").write_text(json.dumps(one))
    return folder


def zip_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """A zip file with these members, packed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
