"""What was chosen and learned: risky settings, models, certificates, and, where asked, the peers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlsplit

from ingest.net import Fetcher
from ingest.plain_words import FetchProblem
from scoring.rules import Condition
from trustsite.doctor.findings import Patient
from trustsite.setting_checks import is_loopback

Settings = Mapping[str, Any]


def _has_https(settings: Settings) -> bool:
    return bool(settings["TRUSTED_PROXY"]) or any(one.startswith("https:") for one in settings["CSRF_TRUSTED_ORIGINS"])


def _is_reached(settings: Settings) -> bool:
    """Whether anybody but those on this machine opens the pages."""
    return _has_https(settings) or not is_loopback(settings["BIND"])


# A setting that is risky as it stands, and what to do about it.
RISKS: Sequence[tuple[Callable[[Settings], object], str]] = (
    (
        lambda of: of["PUBLIC_READ"] and not is_loopback(of["BIND"]),
        "PUBLIC_READ with a public BIND shows people's scores to everybody: set PUBLIC_READ=False",
    ),
    (
        lambda of: not is_loopback(of["BIND"]) and not _has_https(of),
        "BIND is reached from outside without https: put a proxy with TLS in front and set TRUSTED_PROXY",
    ),
    (
        lambda of: _has_https(of) and not of["SECURE_COOKIES"],
        "a proxy speaks https and SECURE_COOKIES is off: set SECURE_COOKIES=True",
    ),
    (lambda of: "*" in of["ALLOWED_HOSTS"], "ALLOWED_HOSTS=* takes any name: list those of this site"),
    (lambda of: of["T_HIGH"] is not None, "T_HIGH opens the fast lane by hand, not certified: leave it empty"),
    (lambda of: not of["TRUST_TWO_WAYS"], "TRUST_TWO_WAYS is off: one stolen account brings fakes into the fast lane"),
    (
        lambda of: of["TRUST"] != "first_passage",
        "TRUST=eigentrust can be raised by people who are trusted: set TRUST=first_passage",
    ),
    (
        lambda of: set(get_args(Condition)) - {"certificate"} - set(of["LANE_CONDITIONS"]),
        "LANE_CONDITIONS leaves out default conditions of the fast lane: see .env.example",
    ),
    (
        lambda of: not (of["OPERATOR_NAME"] and of["OPERATOR_CONTACT"]) and _is_reached(of),
        "the site does not say who runs it: set OPERATOR_NAME and OPERATOR_CONTACT",
    ),
    (lambda of: of["MERGE_ON_FORGE"], "MERGE_ON_FORGE lets this machine merge: switch it off where nobody uses it"),
)


def check_settings(patient: Patient) -> tuple[bool, str]:
    """Whether what was set opens what should be shut."""
    found = [told for is_risky, told in RISKS if is_risky(patient.settings)]
    return not found, "; ".join(found) or "none that is risky"


def check_models(patient: Patient) -> tuple[bool, str]:
    """Whether the model that each label points at can serve."""
    from scoring.learning.cases import LabelName
    from scoring.learning.model_files import load_model
    from scoring.learning.pointers import serving_name

    folder = patient.places.models
    names = [name for label in get_args(LabelName) if (name := serving_name(folder, label))]
    for name in names:
        load_model(folder, name)
    return True, f"{len(names)} serve" if names else "no model is trained yet: the shrunk rate is used"


def check_certificates(patient: Patient) -> tuple[bool, str]:
    """Whether all certificates can be read, and one is valid where there are any."""
    from scoring.learning.certificate_files import read_certificates

    found, problems = read_certificates(patient.places.models / "certificates")
    if problems:
        return False, f"{problems[0]}: put it back from a backup, or delete it"
    if not found:
        return True, "no certificate yet: the fast lane is shut"
    valid = [one for one in found.values() if one.is_valid(patient.now)]
    if not valid:
        return False, f"{len(found)}, all expired or without a threshold: `manage.py train` makes another attempt"
    return True, f"{len(found)}, {len(valid)} valid"


def peer_checks(settings: Settings, fetcher: Fetcher) -> list[tuple[str, Callable[[Patient], tuple[bool, str]]]]:
    """One check for each host that this site depends on; any answer of its own over https will do."""
    wanted = [*settings["JETSTREAM_URLS"], *settings["KNOT_STREAMS"], settings["PLC_URL"], *settings["BACKFILL_HOSTS"]]
    hosts = dict.fromkeys(host for url in wanted if (host := urlsplit(url).hostname))
    return [(f"peer {host}", _asks(fetcher, host)) for host in hosts]


def _asks(fetcher: Fetcher, host: str) -> Callable[[Patient], tuple[bool, str]]:
    def check(patient: Patient) -> tuple[bool, str]:
        try:
            fetcher.get(f"https://{host}/", seconds=10.0)
        except FetchProblem as problem:
            if problem.status is None and not problem.too_large:
                return False, f"{problem}: see the network, or name another one in the settings"
        return True, "answers"

    return check
