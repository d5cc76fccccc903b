"""All rules for tokens: those whose shape tells their issuer, and those of no issuer."""

from scoring.content.finding import Severity
from scoring.evidence import _token_checks as checks
from scoring.evidence._token_rule import WORD, rule, shape
from scoring.evidence._tokens_of_clouds import CLOUD
from scoring.evidence._tokens_of_forges import FORGES, MODELS
from scoring.evidence._tokens_of_services import SERVICES

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
