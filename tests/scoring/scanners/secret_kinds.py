"""Secrets that nobody was ever given, by the issuers' published forms, and the files in which people leave them."""

import json
import random
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable

from scoring.diff.parser import read_change
from scoring.scanners.submission import Submission

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
HEX = "0123456789abcdef"
ALNUM = DIGITS + UPPER + LOWER
URL64 = ALNUM + "-_"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
Draw = random.Random
# What a person calls the value, and how it is made.
Kind = tuple[str, Callable[[Draw], str]]


def text(draw: Draw, length: int, alphabet: str = ALNUM) -> str:
    """Random characters."""
    return "".join(draw.choices(alphabet, k=length))


def with_crc(prefix: str, draw: Draw) -> str:
    """Thirty characters and their CRC-32 in six digits of base 62."""
    body, digits = text(draw, 30), ""
    rest = zlib.crc32(body.encode())
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = ALNUM[digit] + digits
    return prefix + body + digits


def age_key(draw: Draw) -> str:
    """Bech32 over 32 bytes, by the reference algorithm of BIP 173."""
    prefix, data = "age-secret-key-", [draw.randrange(32) for _ in range(51)] + [draw.randrange(2) * 16]
    check, high, low = 1, [ord(letter) >> 5 for letter in prefix], [ord(letter) & 31 for letter in prefix]
    for value in [*high, 0, *low, *data, 0, 0, 0, 0, 0, 0]:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator * (top >> bit & 1)
    check ^= 1
    body = data + [check >> 5 * (5 - place) & 31 for place in range(6)]
    return (prefix + "1" + "".join(BECH32[value] for value in body)).upper()


def url64(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def web_token(draw: Draw) -> str:
    header = json.dumps({"alg": "HS256", "typ": "JWT"}).encode()
    claims = json.dumps({"sub": text(draw, 12), "role": "service", "iat": draw.randrange(10**9, 2 * 10**9)}).encode()
    return f"{url64(header)}.{url64(claims)}.{text(draw, 43, URL64)}"


def private_key(kind: str) -> Callable[[Draw], str]:
    """A key block of 12 lines on one line, as JSON, YAML and source code carry it."""

    def make(draw: Draw) -> str:
        lines = [b64encode(draw.randbytes(48)).decode() for _ in range(12)]
        return "\\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])

    return make


def uuid(draw: Draw) -> str:
    return "-".join(text(draw, length, HEX) for length in (8, 4, 4, 4, 12))


KINDS: dict[str, Kind] = {
    "aws key id": ("AWS_ACCESS_KEY_ID", lambda d: "AKIA" + text(d, 16, UPPER + "234567")),
    "aws secret": ("AWS_SECRET_ACCESS_KEY", lambda d: text(d, 40, ALNUM + "/+")),
    "gcp service account": ("private_key_id", lambda d: text(d, 40, HEX)),
    "google api key": ("MAPS_KEY", lambda d: "AIza" + text(d, 35, URL64)),
    "google oauth": ("GOOGLE_CLIENT_SECRET", lambda d: "GOCSPX-" + text(d, 28, URL64)),
    "azure storage": (
        "STORAGE",
        lambda d: "DefaultEndpointsProtocol=https;AccountName=plots;AccountKey=" + b64encode(d.randbytes(64)).decode(),
    ),
    "azure client": ("AZURE_CLIENT_SECRET", lambda d: text(d, 3) + "8Q~" + text(d, 34, ALNUM + "_-")),
    "github classic": ("GITHUB_TOKEN", lambda d: with_crc("ghp_", d)),
    "github app": ("INSTALLATION", lambda d: with_crc("ghs_", d)),
    "github fine-grained": ("GITHUB_PAT", lambda d: f"github_pat_{text(d, 22)}_{text(d, 59)}"),
    "gitlab": ("CI_TOKEN", lambda d: "glpat-" + text(d, 20, URL64)),
    "slack bot": ("SLACK", lambda d: f"xoxb-{text(d, 12, DIGITS)}-{text(d, 12, DIGITS)}-{text(d, 24)}"),
    "slack webhook": (
        "HOOK",
        lambda d: (
            "https://hooks.slack.com/services/T"
            + text(d, 10, UPPER + DIGITS)
            + "/B"
            + text(d, 10, UPPER + DIGITS)
            + "/"
            + text(d, 24)
        ),
    ),
    "stripe": ("STRIPE_KEY", lambda d: "sk_live_" + text(d, 99)),
    "twilio key": ("TWILIO_SID", lambda d: "SK" + text(d, 32, HEX)),
    "twilio auth token": ("TWILIO_AUTH_TOKEN", lambda d: text(d, 32, HEX)),
    "sendgrid": ("MAIL_KEY", lambda d: f"SG.{text(d, 22, URL64)}.{text(d, 43, URL64)}"),
    "mailgun": ("MAILGUN", lambda d: "key-" + text(d, 32, HEX)),
    "npm": ("NPM_TOKEN", lambda d: with_crc("npm_", d)),
    "pypi": ("TWINE_PASSWORD", lambda d: "pypi-" + url64(b"\x02\x01\x08pypi.org\x02\x24" + d.randbytes(90))),
    "rubygems": ("GEM_HOST_API_KEY", lambda d: "rubygems_" + text(d, 48, HEX)),
    "crates.io": ("CARGO_REGISTRY_TOKEN", lambda d: "cio" + text(d, 32)),
    "docker hub": ("DOCKER_PASSWORD", lambda d: "dckr_pat_" + text(d, 27, URL64)),
    "digitalocean": ("DO_TOKEN", lambda d: "dop_v1_" + text(d, 64, HEX)),
    "heroku": ("HEROKU_API_KEY", uuid),
    "cloudflare": ("CLOUDFLARE_API_TOKEN", lambda d: text(d, 40, URL64)),
    "discord": (
        "BOT",
        lambda d: f"{url64(str(d.randrange(10**17, 10**18)).encode())}.{text(d, 6, URL64)}.{text(d, 38)}",
    ),
    "telegram": ("TELEGRAM", lambda d: f"{d.randrange(10**9, 10**10)}:AA{text(d, 33, URL64)}"),
    "openai": ("OPENAI", lambda d: f"sk-proj-{text(d, 74, URL64)}T3BlbkFJ{text(d, 74, URL64)}"),
    "anthropic": ("ANTHROPIC", lambda d: f"sk-ant-api03-{text(d, 93, URL64)}AA"),
    "hugging face": ("HF", lambda d: "hf_" + text(d, 34)),
    "facebook": ("PAGE", lambda d: "EAAG" + text(d, 170)),
    "shopify": ("SHOP", lambda d: "shpat_" + text(d, 32, HEX)),
    "square": ("SQUARE", lambda d: "sq0atp-" + text(d, 22, URL64)),
    "braintree": ("BRAINTREE", lambda d: f"access_token$production${text(d, 16, DIGITS + LOWER)}${text(d, 32, HEX)}"),
    "databricks": ("DATABRICKS", lambda d: "dapi" + text(d, 32, HEX)),
    "datadog": ("DATADOG_API_KEY", lambda d: text(d, 32, HEX)),
    "new relic": ("NEW_RELIC", lambda d: "NRAK-" + text(d, 27, UPPER + DIGITS)),
    "sentry": ("SENTRY", lambda d: "sntryu_" + text(d, 64, HEX)),
    "linear": ("LINEAR", lambda d: "lin_api_" + text(d, 40)),
    "notion": ("NOTION", lambda d: f"ntn_{text(d, 11, DIGITS)}{text(d, 35)}"),
    "atlassian": ("JIRA", lambda d: f"ATATT3xFfGF0{text(d, 171, URL64)}={text(d, 8, HEX.upper())}"),
    "postman": ("POSTMAN", lambda d: f"PMAK-{text(d, 24, HEX)}-{text(d, 34, HEX)}"),
    "grafana": ("GRAFANA", lambda d: f"glsa_{text(d, 32)}_{text(d, 8, HEX)}"),
    "vault": ("VAULT", lambda d: "hvs." + text(d, 95, URL64)),
    "age": ("SOPS", age_key),
    "rsa key": ("SIGNING", private_key("RSA PRIVATE KEY")),
    "openssh key": ("DEPLOY", private_key("OPENSSH PRIVATE KEY")),
    "pgp key": ("RELEASE", private_key("PGP PRIVATE KEY BLOCK")),
    "web token": ("SERVICE", web_token),
    "basic auth": ("INDEX", lambda d: f"https://deploy:{text(d, 20)}@packages.tidewater.io/simple"),
    "database": ("DATABASE", lambda d: f"postgresql://plots:{text(d, 18)}@db7.tidewater.io:5432/plots"),
    "password": ("ADMIN_PASSWORD", lambda d: text(d, 24, ALNUM)),
    "bluesky app password": ("ATP_APP_PASSWORD", lambda d: "-".join(text(d, 4, LOWER + "234567") for _ in range(4))),
}
CARRIERS: dict[str, tuple[str, str]] = {
    "python": ("app/settings.py", '{name} = "{value}"'),
    "yaml": ("deploy/values.yaml", '  {lower}: "{value}"'),
    "environment": (".env.production", "{name}={value}"),
    "json": ("config/live.json", '  "{lower}": "{value}",'),
    "shell": ("scripts/deploy.sh", "export {name}='{value}'"),
    "go": ("cmd/server/main.go", '\tconst {name} = "{value}"'),
}


def leak(kind: str, carrier: str, draw: Draw) -> tuple[Submission, str]:
    """A change whose third added line carries a fresh secret of this kind, and the secret."""
    name, make = KINDS[kind]
    path, form = CARRIERS[carrier]
    value = make(draw)
    return adding(path, ["", "", form.format(name=name, lower=name.lower(), value=value), ""]), value


def adding(path: str, lines: list[str]) -> Submission:
    """A change that adds one file."""
    return Submission(read_change(patch(path, added=lines)))


def patch(path: str, added: list[str], removed: list[str] | None = None) -> str:
    """The text of a diff that puts lines in the place of others, at the start of one file."""
    gone = removed or []
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    if not gone:
        head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    spans = f"@@ -{1 if gone else 0},{len(gone)} +{1 if added else 0},{len(added)} @@\n"
    return head + spans + "".join([f"-{line}\n" for line in gone] + [f"+{line}\n" for line in added])
