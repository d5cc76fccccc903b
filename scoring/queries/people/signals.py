"""Read what is known from beyond the forge of a person, or of a repository's upstream, and who says so.

Nothing of this enters a score or a lane. Place, pronouns and picture are left out.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from ingest.store.transaction import Rows
from scoring.formatting import display_name, things
from scoring.pipeline.signing import signing_habit
from scoring.queries.types import Signal

LINKS_SHOWN, CLAIMS_SHOWN = 5, 5
STATEMENTS = """
select k.statement, k.proof from attestation_checks k where k.contributor_id = ? and k.statement is not null
order by k.checked_at desc, k.uri limit 3
"""
KNOWN = """
select source, key, value, evidence_uri, observed_at from signals
where subject = ? and source in ('keytrace', 'link', 'npm', 'crates.io', 'pypi', 'repository')
order by source, key
"""
CLAIMS = """
select uri, type, subject, claim_uri, changed_at from account_claims
where author_id = ? and deleted_at is null and status = 'verified' order by changed_at desc, uri limit ?
"""
NEWEST_LINKS = """
select links from profiles where author_id = ? and deleted_at is null order by changed_at desc, uri limit 1
"""
NAMES = "select did, handle, handle_verified from contributors where list_contains(?, did)"
KINDS = {
    "github": "GitHub",
    "dns": "Domain",
    "activitypub": "Fediverse",
    "bsky": "Bluesky",
    "tangled": "Tangled",
    "pgp": "PGP key",
    "twitter": "Twitter",
    "linkedin": "LinkedIn",
    "instagram": "Instagram",
    "reddit": "Reddit",
    "hackernews": "Hacker News",
    "orcid": "ORCID",
    "itchio": "itch.io",
    "discord": "Discord",
    "steam": "Steam",
}
KEYTRACE = "did:plc:hcwfdlmprcc335oixyfsw7u3"  # named so that a reader knows it without looking the DID up
REGISTRIES = {"npm": "npm", "crates.io": "crates.io", "pypi": "PyPI"}
UPSTREAM = """
select source, key, value, evidence_uri from signals where subject = ? and source in ('scorecard', 'github')
order by source desc, key
"""
DOWNLOADS = {"npm": "downloads a week", "crates.io": "downloads in all"}


def read_signals(rows: Rows, person: Mapping[str, Any]) -> tuple[Signal, ...]:
    """Return what is known of a contributor, the proven first."""
    found = [*_names(person), *_proven(rows, person), *_declared(rows, person["contributor_id"])]
    known = {signal.what for signal in found if signal.proof != "declared"}
    shown = (signal for signal in found if signal.proof != "declared" or signal.what not in known)
    return tuple(sorted(shown, key=lambda signal: ORDER.index(signal.proof)))


def upstream_facts(rows: Rows, repository_key: str) -> tuple[Signal, ...]:
    """Return what is known of the repository on GitHub that this repository's record links; empty without a link."""
    told: dict[str, dict[str, str]] = {}
    for row in rows.rows(UPSTREAM, [repository_key]):
        told.setdefault(row["source"], {"page": row["evidence_uri"]})[row["key"]] = row["value"]
    found = []
    if card := told.get("scorecard"):
        day = f", {_day(card['scored_at'])}" if "scored_at" in card else ""
        found.append(Signal(f"OpenSSF Scorecard {card['score']} of 10{day}", "read", "scorecard.dev", card["page"]))
    if health := told.get("github"):
        parts = ["archived"] if health["archived"] == "true" else []
        parts += [f"last push {_day(health['pushed_at'])}"] if "pushed_at" in health else []
        parts.append(things(int(health["stars"]), "star"))
        parts.append(f"{int(health['open_issues']):,} open issues and pull requests")
        name = health["page"].removeprefix("https://github.com/")
        found.append(Signal(f"{name}: {', '.join(parts)}", "read", "GitHub", health["page"]))
    return tuple(found)


def _day(moment: str) -> str:
    day = datetime.fromisoformat(moment)
    return f"{day.day} {day:%b %Y}"


ORDER = ("handle", "signed", "mutual", "attested", "checked", "read", "revoked", "unverifiable", "declared")


def _names(person: Mapping[str, Any]) -> Iterator[Signal]:
    """Yield the names of an account that lie at somebody's domain, and its age by the directory's log."""
    if person["handle"]:
        proof = "handle" if person["handle_verified"] else "declared"
        yield Signal(f"Handle {person['handle']}", proof)
    if person["did"].startswith("did:web:") and person["pds"]:  # its domain has answered with the document
        yield Signal(f"Domain {person['did'].removeprefix('did:web:')}", "handle")
    if person["did_created_at"]:
        yield Signal(f"Account since {person['did_created_at']:%b %Y}", "read", "the directory")


def _proven(rows: Rows, person: Mapping[str, Any]) -> Iterator[Signal]:
    """Yield the facts that a look-up brought; the worker deletes those that expire.

    A claim that was rewritten since it was proven is not: its words are new, and nobody has looked at them.
    """
    known = rows.rows(KNOWN, [person["did"]])
    claims = {row["uri"]: row for row in rows.rows(CLAIMS, [person["contributor_id"], CLAIMS_SHOWN])}
    signers = _signer_names(rows, [row["value"] for row in known if row["source"] == "keytrace"])
    registries: dict[str, dict[str, str]] = {}
    for row in known:
        match row["source"]:
            case "keytrace" if (claim := claims.get(row["evidence_uri"])) and claim["changed_at"] <= row["observed_at"]:
                evidence = _web_address(claim["claim_uri"])
                yield Signal(_account_words(claim), "signed", signers[row["value"]], evidence)
            case "link" if row["value"] == "mutual":
                host = urlsplit(row["evidence_uri"]).hostname or ""
                yield Signal(_bare(row["key"]), "mutual", host, row["evidence_uri"])
            case source if source in REGISTRIES:
                registries.setdefault(source, {"page": row["evidence_uri"]})[row["key"]] = row["value"]
    for source, told in registries.items():
        yield Signal(_registry_words(source, told), "read", REGISTRIES[source], told["page"])
    for row in known:
        if row["source"] == "repository":
            count = int(row["value"])
            words = f"Records of {count:,} {'service' if count == 1 else 'services'}"
            yield Signal(words, "read", "their data server", row["evidence_uri"])


def _declared(rows: Rows, number: int) -> Iterator[Signal]:
    """Yield what nobody but the person says, and attestations with what their check found."""
    for row in rows.rows(STATEMENTS, [number]):
        proof = "attested" if row["proof"] == "proven" else row["proof"]
        yield Signal(f"Attested: {row['statement']}", proof)
    for row in rows.rows(CLAIMS, [number, CLAIMS_SHOWN]):
        yield Signal(_account_words(row), "declared", evidence=_web_address(row["claim_uri"]))
    keys = rows.value("select count(*) from public_keys where author_id = ? and deleted_at is null", [number])
    if keys:
        yield Signal("1 public key" if keys == 1 else f"{keys:,} public keys", "declared")
    if habit := signing_habit(rows, number):
        yield Signal(f"Signed {habit.signed} of the last {things(habit.checked, 'commit')}", "checked")
    for link in json.loads(rows.value(NEWEST_LINKS, [number]) or "[]")[:LINKS_SHOWN]:
        yield Signal(_bare(str(link)), "declared")


def _signer_names(rows: Rows, dids: list[str]) -> dict[str, str]:
    known = {row["did"]: display_name(row) for row in rows.rows(NAMES, [dids])} | {KEYTRACE: "keytrace.dev"}
    nobody = {"handle": None, "handle_verified": False}
    return {did: known.get(did) or display_name(nobody | {"did": did}) for did in dids}


def _account_words(claim: Mapping[str, Any]) -> str:
    return f"{KINDS.get(claim['type'], claim['type'])} {claim['subject']}"


def _registry_words(source: str, told: Mapping[str, str]) -> str:
    """Say what a registry tells, such as "npm: 2 packages since 2019, newest Nov 2026, 1,234 downloads a week"."""
    count = int(told.get("packages", "0"))
    name = told["page"].rpartition("/")[2].removeprefix("~")
    parts = [f"{count:,} {'package' if count == 1 else 'packages'}" if source != "pypi" else name]
    parts[0] += f" since {told['since'][:4]}" if "since" in told else ""
    if "newest" in told:
        parts.append(f"newest {datetime.fromisoformat(told['newest']):%b %Y}")
    if "downloads" in told:
        parts.append(f"{int(told['downloads']):,} {DOWNLOADS[source]}")
    return f"{REGISTRIES[source]}: {', '.join(parts)}"


def _bare(address: str) -> str:
    return address.removeprefix("https://").removesuffix("/")


def _web_address(text: str) -> str | None:
    """Return an address that a page may link: https to a named host, without a name or password in front of it.

    Nor with characters that hide in it or turn it round.
    """
    if not text.isascii() or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        return text if parts.scheme == "https" and parts.hostname and "@" not in parts.netloc else None
    except ValueError:
        return None
