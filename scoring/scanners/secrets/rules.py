"""All rules for tokens: private keys in their text forms, issuers' token shapes, and the kinds of detect-secrets.

detect-secrets finds, line by line, kinds that our own rules do not know. Its other plugins are omitted: for their kinds
our own rules check more, and those on entropy, names, addresses and URLs fired on 61 of 1,617 real diffs without a
secret among them. Its `scan_diff` finds nothing in files that are not on the disk. Importing it takes 0.3 s (it
includes an HTTP client, which is never called), so it is imported only where a line names one of these issuers.
"""

import re
from collections.abc import Iterator

from scoring.scanners.secrets import checks
from scoring.scanners.secrets.clouds import CLOUD
from scoring.scanners.secrets.forges import FORGES, MODELS
from scoring.scanners.secrets.rule_file import WORD, rule, shape
from scoring.scanners.secrets.services import SERVICES
from scoring.scanners.secrets.values import Hit, is_placeholder, is_random
from scoring.types import Severity

_BEGIN = re.compile(
    r"-----BEGIN (?P<kind>(?:RSA |DSA |EC |OPENSSH |ENCRYPTED |ANY |PGP |SSH2 ENCRYPTED )?)PRIVATE KEY(?: BLOCK)?-----"
    r"|PuTTY-User-Key-File-[23]:"
)
_WINDOW = 1_200  # characters after the first line, which include the second and third in any format
_BODY = re.compile(r"[0-9A-Za-z+/]{40,}={0,2}")
_LINE_END = re.compile(r"\\[nr]")


def find_private_keys(text: str) -> Iterator[Hit]:
    """Find each first line of a key that is followed by the key itself, not code that only names the line."""
    for begin in _BEGIN.finditer(text):
        window = _LINE_END.sub("\n", text[begin.end() : begin.end() + _WINDOW]).partition("-----END")[0]
        body = "".join(_BODY.findall(window))
        if len(body) < 60 or not is_random(body, 4.0) or is_placeholder(body):
            continue
        encrypted = "ENCRYPTED" in begin[0] or "ENCRYPTED" in window[:100]
        end = min(begin.end() + len(window) + window.count("\n"), len(text))
        yield Hit("private-key", "a private key", begin.end(), end, Severity.MED if encrypted else Severity.HIGH)


_ISSUERS = re.compile(r"cloudant|softlayer|ibm|artifactory|jfrog", re.IGNORECASE)


def find_by_plugins(text: str) -> Iterator[Hit]:
    """Find credentials of Cloudant, SoftLayer, IBM Cloud and Artifactory on lines that name their issuer."""
    for start_and_line in _lines_with_issuer(text):
        start, line = start_and_line
        for what, secret in _secrets(line):
            offset = line.find(secret)
            if offset >= 0:
                begin = start + offset
                yield Hit("detect-secrets", what, begin, begin + len(secret), Severity.HIGH)


def _lines_with_issuer(text: str) -> Iterator[tuple[int, str]]:
    seen = -1
    for match in _ISSUERS.finditer(text):
        if match.start() <= seen:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        seen = len(text) if end < 0 else end
        yield start, text[start : min(seen, start + 1_000)]


def _secrets(line: str) -> Iterator[tuple[str, str]]:
    from detect_secrets.plugins.artifactory import ArtifactoryDetector
    from detect_secrets.plugins.cloudant import CloudantDetector
    from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
    from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
    from detect_secrets.plugins.softlayer import SoftlayerDetector

    for what, plugin in (
        ("a credential of Artifactory", ArtifactoryDetector),
        ("a credential of Cloudant", CloudantDetector),
        ("a key of IBM Cloud", IbmCloudIamDetector),
        ("a key of IBM Cloud Object Storage", IbmCosHmacDetector),
        ("a credential of SoftLayer", SoftlayerDetector),
    ):
        for secret in plugin().analyze_string(line):
            yield what, secret


KEYS = (
    rule(
        "age-key",
        "a secret key of age",
        "age-secret-key-1",
        shape(r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
        checks.bech32,
        proves=True,
    ),
    rule(
        "json-web-token",
        "a signed JSON web token",
        "eyj",
        shape(r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{20,1000}", WORD + "."),
        checks.json_web_token,
        severity=Severity.MED,
    ),
    rule(
        "bearer-header",
        "a bearer token in a header",
        "bearer",
        r"(?i:authorization)[\"']?\s{0,2}[:=,]\s{0,2}[\"'`]?(?i:bearer)\s([\w.~+/-]{30,500}=*)",
        bits=4.0,
        severity=Severity.MED,
    ),
)
RULES = (*CLOUD, *FORGES, *SERVICES, *MODELS, *KEYS)
