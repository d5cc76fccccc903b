"""npm, crates.io and PyPI as they answer, in the shapes of their documents, for the person of `declaring`.

Sources: github.com/npm/registry/tree/main/docs; crates.io/data-access; docs.pypi.org/api/json.
"""

from typing import Any

NPM = "registry.npmjs.org/-/v1/search?text=maintainer:mallory&size=250"
CRATES_USER = "crates.io/api/v1/users/mallory"
CRATES = "crates.io/api/v1/crates?user_id=31&per_page=100"
PYPI = "pypi.org/pypi/lamps/json"
GITHUB_USER = "api.github.com/users/mallory"


def _listed(name: str, newest: str, *maintainers: str) -> dict[str, Any]:
    people = [{"username": name, "email": f"{name}@example.org"} for name in maintainers]
    package = {"name": name, "scope": "unscoped", "version": "1.2.3", "date": newest, "maintainers": people}
    return {"package": package, "score": {"final": 0.5}, "searchScore": 1.0}


def answers(handle: str) -> dict[str, object]:
    """What the registries say, by address: two packages of npm, one crate, one project that names the person."""
    listed = [
        _listed("lamps", "2026-10-01T08:00:00.000Z", "mallory", "ana"),
        _listed("@mallory/shade", "2026-11-02T08:00:00.000Z", "mallory"),
        _listed("not-hers", "2026-11-19T08:00:00.000Z", "ana"),
    ]
    crate = {"id": "lamps", "created_at": "2021-02-03T00:00:00+00:00", "updated_at": "2026-05-06T00:00:00+00:00"}
    avatar = "https://avatars.githubusercontent.com/u/7?v=4"
    user = {"id": 31, "login": "Mallory", "name": "M", "avatar": avatar, "url": "https://github.com/Mallory"}
    urls = {"Homepage": "https://lamps.example.org", "Source": f"https://tangled.org/{handle}/lamps"}
    upload = {"packagetype": "sdist", "upload_time_iso_8601": "2022-04-05T00:00:00.000000Z"}
    newest = upload | {"upload_time_iso_8601": "2026-07-08T00:00:00.000000Z"}
    info = {"home_page": None, "project_urls": urls | {"Author": f"https://tangled.org/{handle}"}, "downloads": None}
    return {
        NPM: {"objects": listed, "total": 3, "time": "2026-11-20T12:00:00.000Z"},
        "registry.npmjs.org/lamps": {"name": "lamps", "time": {"created": "2019-03-04T05:06:07.000Z"}},
        "registry.npmjs.org/@mallory%2Fshade": {"time": {"created": "2020-03-04T05:06:07.000Z"}},
        "api.npmjs.org/downloads/point/last-week/lamps": {"downloads": 1_200, "package": "lamps"},
        "api.npmjs.org/downloads/point/last-week/@mallory%2Fshade": {"downloads": 34},
        CRATES_USER: {"user": user},
        CRATES: {"crates": [crate | {"downloads": 560, "recent_downloads": 9}], "meta": {"total": 1}},
        PYPI: {"info": info, "releases": {"1.0": [upload], "2.0": [newest], "0.1": []}, "urls": []},
        GITHUB_USER: {"login": "mallory", "id": 7},
    }
