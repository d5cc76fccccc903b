"""What a setting may be: each refuses a value in words that say what it should look like."""

import ipaddress
import re
from typing import get_args

from environs import validate as check

from ingest import records
from scoring.claude_models import parse_prices
from scoring.content.globs import PatternProblem, check_patterns
from scoring.rules import Condition

unit = check.Range(min=0, max=1)
inside_unit = check.Range(min=0, max=1, min_inclusive=False, max_inclusive=False)
stream_url = check.URL(schemes={"ws", "wss"}, require_tld=False, error="{input!r} is not a ws:// or wss:// URL")


def is_loopback(bind: str) -> bool:
    """Return whether only this machine can reach a host:port."""
    host = bind.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def streams(urls: list[str]) -> None:
    """Refuse a list that names no server, or something else than servers."""
    if not urls:
        raise check.ValidationError("name at least one ws:// or wss:// URL")
    for url in urls:
        stream_url(url)


def event_streams(urls: list[str]) -> None:
    """Refuse what is no wss:// address of a host."""
    for url in urls:
        if not re.fullmatch(r"wss://[A-Za-z0-9.-]{4,253}(:[1-9][0-9]{0,4})?(/[a-z0-9/._-]*)?", url):
            raise check.ValidationError(f"{url!r} is not an address such as wss://knot1.tangled.sh")


def origins(urls: list[str]) -> None:
    """Refuse what is no plain https://host."""
    for url in urls:
        if re.fullmatch(r"https://[a-z0-9.-]+", url) is None:
            raise check.ValidationError(f"{url!r} is not an origin such as https://host.example")


def cors(origins: list[str]) -> None:
    """Refuse what is no origin; a * would let every site in the world read with what its visitors paste into it."""
    for origin in origins:
        if (
            re.fullmatch(r"https://[a-z0-9.-]+(:[0-9]{1,5})?|http://(localhost|127\.0\.0\.1):[0-9]{1,5}", origin)
            is None
        ):
            raise check.ValidationError(f"{origin!r} is not an origin such as https://host.example")


def api(url: str) -> None:
    """Refuse what is neither https nor on this machine: the key goes there."""
    if (
        re.fullmatch(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9/._-]*)?|http://127\.0\.0\.1:[0-9]{1,5}", url)
        is None
    ):
        raise check.ValidationError(f"{url!r} is not an address such as https://api.anthropic.com")


def receiver(url: str) -> None:
    """Refuse what is neither empty, nor https, nor on this machine: what is sent names pull requests."""
    path = r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
    found = re.fullmatch(
        rf"(?:https://[A-Za-z0-9.-]+(?::([0-9]{{1,5}}))?|http://127\.0\.0\.1:([0-9]{{1,5}})){path}|", url
    )
    if found is None or not 0 < int(found[1] or found[2] or 443) < 65_536:
        raise check.ValidationError("it is not an address such as https://hooks.example/sunstead")


def operator(name: str) -> None:
    """Refuse what is no name in one short line."""
    if len(name) > 100 or not name.isprintable() or name != name.strip():
        raise check.ValidationError("it is not a name of at most 100 characters on one line")


def contact(address: str) -> None:
    """Refuse what is neither empty, nor mailto:, nor https:// in at most 300 characters: pages link to it."""
    mail, page = (
        r"mailto:[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+",
        r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~@/?=&%-]*)?",
    )
    if address and (len(address) > 300 or re.fullmatch(f"{mail}|{page}", address) is None):
        raise check.ValidationError(f"{address[:300]!r} is not an address such as mailto:ana@site.example")


def prices(lines: list[str]) -> None:
    """Refuse a line that is no price."""
    try:
        parse_prices(lines)
    except ValueError as problem:
        raise check.ValidationError(str(problem)) from problem


def conditions(names: list[str]) -> None:
    """Refuse what is no condition of the fast lane."""
    known = get_args(Condition)
    if wrong := [name for name in names if name not in known]:
        raise check.ValidationError(f"{wrong[0]!r} is not one of {', '.join(known)}")


def paths(patterns: list[str]) -> None:
    """Refuse path patterns that cannot be used."""
    try:
        check_patterns(patterns)
    except PatternProblem as problem:
        raise check.ValidationError(str(problem)) from problem


def address(text: str) -> None:
    """Refuse what is neither empty nor an IP address; a name or * would let anybody say who they are."""
    try:
        ipaddress.ip_address(text or "::")
    except ValueError as problem:
        raise check.ValidationError(f"{text!r} is not an IP address such as 127.0.0.1") from problem


def bind(text: str) -> None:
    """Refuse what is neither empty nor an IP address and a port."""
    host, _, port = text.rpartition(":")
    if text and not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise check.ValidationError(f"{text!r} is not an address and port such as 127.0.0.1:8001")
    address(host.removeprefix("[").removesuffix("]"))


def collector(url: str) -> None:
    """Refuse what is neither empty nor the address of a trace collector."""
    if url and re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9/._-]*)?", url) is None:
        raise check.ValidationError(f"{url!r} is not an address such as https://collector.example/v1/traces")


def authority(name: str) -> None:
    """Refuse what is no domain, reversed, of the operator's own."""
    try:
        records.build_registry(name)
    except ValueError as problem:
        raise check.ValidationError(str(problem)) from problem
