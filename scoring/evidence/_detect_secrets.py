"""Finds, line by line, the kinds of secret that detect-secrets knows and our own rules do not.

Its other plugins are left out: for their kinds there are rules of our own that check more, and those on entropy, names,
addresses and URLs fired on 61 of 1,617 real diffs without a secret among them. Its `scan_diff` finds nothing in files
that are not on the disk. Importing it takes 0.3 s (it brings an HTTP client, which is never called), hence only where a
line names one of these issuers.
"""

import re
from collections.abc import Iterator

from scoring.content.finding import Severity
from scoring.evidence._secret_hits import Hit

_ISSUERS = re.compile(r"cloudant|softlayer|ibm|artifactory|jfrog", re.IGNORECASE)


def find_by_plugins(text: str) -> Iterator[Hit]:
    """Find credentials of Cloudant, SoftLayer, IBM Cloud and Artifactory on lines that name their issuer."""
    for named in _lines_with_issuer(text):
        start, line = named
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
