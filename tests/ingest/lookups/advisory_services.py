"""osv.dev, deps.dev, npm and crates.io as they answer, from records that a test writes; what they refuse is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.ingest.peer import Answer, Request, response

LIMIT = 1_000  # questions at once


@dataclass
class AdvisoryServices:
    """Answers for these hosts. `page` advisories are named in one answer; `faults` gives a host a status.

    `swapped` serves another record than the one that was asked for, by id. `downloads` counts by the registry's host
    and the name of the package; `agents` are the User-Agents that came.
    """

    records: list[dict[str, Any]]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the path behind /v3
    page: int = 1_000
    faults: dict[str, int] = field(default_factory=dict)
    swapped: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    downloads: dict[tuple[str, str], int] = field(default_factory=dict)
    agents: set[str] = field(default_factory=set)

    def answer(self, request: Request) -> Answer:
        """One answer, by host and path."""
        host, path = request.headers["host"], unquote(request.path)
        self.asked.append(f"{request.method} {path}")
        self.agents.add(request.headers["user-agent"])
        if host in self.faults:
            return response(b"", self.faults[host])
        if host == "api.deps.dev":
            known = self.facts.get(path.removeprefix("/v3"))
            return _said(known) if known else response(b"version not found\n", 404)
        if host in ("api.npmjs.org", "crates.io"):
            return self._count(host, path)
        if path == "/v1/querybatch" and request.method == "POST":
            return self._batch(json.loads(request.body), request.headers)
        wanted = path.removeprefix("/v1/vulns/")
        found = [one for one in self.records if one["id"] == self.swapped.get(wanted, wanted)]
        return _said(found[0]) if found else _said({"code": 5, "message": "Bug not found."}, 404)

    def _count(self, host: str, path: str) -> bytes:
        name = path.removeprefix("/downloads/point/last-week/").removeprefix("/api/v1/crates/").partition("?")[0]
        count = self.downloads.get((host, name))
        if host == "api.npmjs.org":
            point = {"downloads": count, "start": "2026-11-13", "end": "2026-11-19", "package": name}
            return _said({"error": f"package {name} not found"}, 404) if count is None else _said(point)
        errors = [{"detail": f"crate `{name}` does not exist"}]
        crate = {"id": name, "name": name, "created_at": "2026-11-17T10:00:00.123456Z", "recent_downloads": count}
        crate |= {"downloads": 9_000, "max_version": "1.0.0", "yanked": False, "categories": None, "versions": None}
        whole = {"crate": crate, "versions": None, "keywords": None, "categories": None}
        return _said({"errors": errors}, 404) if count is None else _said(whole)

    def _batch(self, told: Any, headers: Mapping[str, str]) -> Answer:
        queries = told.get("queries")
        if headers.get("content-type") != "application/json" or not queries or len(queries) > LIMIT:
            return _said({"code": 3, "message": "Too many queries."}, 400)
        if any(set(query) - {"package", "version", "page_token", "commit"} for query in queries):
            return _said({"code": 3, "message": "Invalid query."}, 400)
        return _said({"results": [self._result(query) for query in queries]})

    def _result(self, query: Mapping[str, Any]) -> dict[str, Any]:
        found = [one for one in self.records if any(each["package"] == query["package"] for each in one["affected"])]
        begin = int(query.get("page_token") or 0)
        page = [{"id": one["id"], "modified": one["modified"]} for one in found[begin : begin + self.page]]
        more = {"next_page_token": str(begin + self.page)} if begin + self.page < len(found) else {}
        return {**({"vulns": page} if page else {}), **more}


def _said(told: object, status: int = 200) -> bytes:
    return response(json.dumps(told).encode(), status)
