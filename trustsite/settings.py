"""Every setting of Sunstead. The environment is read here, once, and nowhere else; `.env.example` lists it.

An invalid setting is refused, in words that show the right form.
"""

import sys
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from subprocess import Popen

from csp.constants import NONE, SELF
from django.http.request import validate_host
from django.utils.functional import SimpleLazyObject
from environs import Env, EnvError
from environs import validate as check

from ingest.records import registry
from scoring.diff.globs import check_patterns
from scoring.review.costs import parse_prices
from trustsite import drive
from trustsite.validation import (
    account,
    address,
    api,
    bind,
    collector,
    conditions,
    contact,
    cors,
    dids,
    each,
    event_stream,
    host_origin,
    inside_unit,
    operator,
    public_origin,
    read_by,
    receiver,
    spoken_voice,
    streams,
    unit,
)

env = Env()
BASE_DIR = Path(__file__).resolve().parent.parent

# --- The drive. Nothing that grows is written outside PLACE.root. -------------------------------------
DATA_ROOT: Path | None = env.path("DATA_ROOT", None) if env.str("DATA_ROOT", "") else None  # empty is not "."
PLACE = drive.choose_place(sys.argv, DATA_ROOT)
ROOT = PLACE.root


def _place(name: str, default: str) -> Path:
    """Return the path of a setting: the operator's own only for the drive's store, never for a demo or a replay."""
    if PLACE.mode != "drive" or not env.str(name, ""):
        return ROOT / default
    return env.path(name, validate=check.Predicate("is_absolute", error="a path must begin with /, not {input}"))


DUCKDB_PATH = _place("DUCKDB_PATH", "duckdb/trust.duckdb")
PYG_ROOT = _place("PYG_ROOT", "pyg")
STAGING_DIR = _place("STAGING_DIR", "staging")
DIFF_CORPUS_DIR = _place("DIFF_CORPUS_DIR", "diffs")
MODEL_DIR = _place("MODEL_DIR", "models")
LOG_DIR = _place("LOG_DIR", "logs")
MIRROR_DIR = _place("MIRROR_DIR", "mirrors")
BACKUP_DIR = _place("BACKUP_DIR", "backups")
SNAPSHOT_DIR = ROOT / "snapshots"
QUEUE_PATH = ROOT / "queue.sqlite3"
MARK_PATH = ROOT / drive.MARKER if PLACE.mode == "drive" else None  # tells the drive from a bare mount point
STATUS_PATH = ROOT / "status.json"
SECRET_KEY = SimpleLazyObject(partial(drive.key, ROOT, "django"))
AUDIT_KEY = SimpleLazyObject(partial(drive.key, ROOT, "audit"))  # of the audit draw, and of the marks around data
TOMBSTONE_KEY = SimpleLazyObject(partial(drive.key, ROOT, "tombstones"))  # of the hashes of erased people
WEBHOOK_KEY = SimpleLazyObject(partial(drive.key, ROOT, "webhook"))  # signs messages to WEBHOOK_URL
OAUTH_KEY = SimpleLazyObject(partial(drive.key, ROOT, "oauth"))  # encrypts the secrets of AT Protocol sign-ins
OAUTH_CLIENT_KEYS = ROOT / "keys" / "oauth_client.json"  # what this site signs its requests for tokens with
LABEL_KEY = ROOT / "keys" / "label"  # signs labels
PUSH_KEY = SimpleLazyObject(
    partial(drive.key, ROOT, "push")
)  # signs messages to browsers, each of which holds its half

# --- Where the stream comes from. ------------------------------------------------------------------------------------
JETSTREAM_URLS: list[str] = env.list(
    "JETSTREAM_URLS",
    ["wss://jetstream1.us-west.bsky.network/subscribe", "wss://jetstream2.us-east.bsky.network/subscribe"],
    validate=streams,
)
LEXICON_AUTHORITY: str = env.str(
    "LEXICON_AUTHORITY", registry.DEFAULT_AUTHORITY, validate=read_by(registry.build_registry)
)
PEERS: list[str] = env.list("PEERS", [], validate=partial(dids, "peers"))
KNOT_STREAMS: list[str] = env.list("KNOT_STREAMS", [], validate=each(event_stream))
PLC_URL: str = env.str("PLC_URL", "https://plc.directory", validate=check.URL(schemes={"https"}))
BLUESKY_API: str = env.str("BLUESKY_API", "https://public.api.bsky.app", validate=check.URL(schemes={"https"}))
APPVIEW_URL: str = env.str("APPVIEW_URL", "https://tangled.org", validate=check.URL(schemes={"https"}))
ASK_ADVISORIES: bool = env.bool("ASK_ADVISORIES", False)
ASK_DECLARED: bool = env.bool("ASK_DECLARED", True)
ASK_REGISTRIES: bool = env.bool("ASK_REGISTRIES", False)
# keytrace.dev, as its own documents name it (apps/keytrace.dev/content/blog/how-keytrace-works.md of its source).
CLAIM_SIGNERS: list[str] = env.list(
    "CLAIM_SIGNERS", ["did:plc:hcwfdlmprcc335oixyfsw7u3"], validate=partial(dids, "signers")
)
BACKFILL_HOSTS: list[str] = env.list(
    "BACKFILL_HOSTS",
    ["https://lightrail.microcosm.blue", "https://relay1.us-east.bsky.network"],
    validate=each(host_origin),
)
DUCKDB_MEMORY_MB: int = env.int("DUCKDB_MEMORY_MB", 160, validate=check.Range(min=128))
FETCH_TIMEOUT_SECONDS: float = env.float("FETCH_TIMEOUT_SECONDS", 15.0, validate=check.Range(min=0.1, max=300))
DIFF_DAYS: int = env.int("DIFF_DAYS", 365, validate=check.Range(min=1))
BACKUP_DAYS: int = env.int("BACKUP_DAYS", 30, validate=check.Range(min=1))
PATCH_LIMIT_BYTES: int = env.int("PATCH_LIMIT_BYTES", 4_000_000, validate=check.Range(min=10_000))
EVENT_DAYS: float = env.float("EVENT_DAYS", 30.0, validate=check.Range(min=1))
DEAD_LETTERS: int = env.int("DEAD_LETTERS", 10_000, validate=check.Range(min=10))
EVENT_ROWS: int = env.int("EVENT_ROWS", 1_000_000, validate=check.Range(min=10_000))
MIRROR_LIMIT_BYTES: int = env.int("MIRROR_LIMIT_BYTES", 1_000_000_000, validate=check.Range(min=1_000_000))
MIRRORS_LIMIT_BYTES: int = env.int("MIRRORS_LIMIT_BYTES", 20_000_000_000, validate=check.Range(min=1_000_000))

# Set by `demo`, `replay` and tests in their own process; no environment variable reaches these.
STREAM_SOURCE = "jetstream"  # name of the stream in ingest_state; a store filled from one stream refuses another
WHOLE_STREAM = False  # take every collection of the stream, for a recording that was already selected
STREAM_CLOCK = False  # the present is the newest frame's time_us instead of the wall clock
STAND_IN_ORIGIN: str | None = None  # http://127.0.0.1:port that answers for every host
BESIDE: dict[str, Popen[bytes]] = {}  # the commands that the demo and the replay run while they serve, by name
WATCH_EVERYTHING = False  # every repository in the input is watched
DEMO_MAINTAINER: str | None = None  # DID that one click signs in as
DEMO_CONTRIBUTOR: str | None = None  # another, of somebody without a role

# --- Judging. -----------------------------------------------------------------------------------------
TRUST: str = env.str("TRUST", "first_passage", validate=check.OneOf(("first_passage", "eigentrust")))
TRUST_TRANSFER: float = env.float("TRUST_TRANSFER", 0.10, validate=unit)
TRUST_BUDGET: float = env.float("TRUST_BUDGET", 1.0, validate=check.Range(min=0, max=10))
TRUST_HOPS: int = env.int("TRUST_HOPS", 4, validate=check.Range(min=1, max=4))
TRUST_HALF_LIFE_DAYS: float = env.float("TRUST_HALF_LIFE_DAYS", 730.0, validate=check.Range(min=1))
TRUST_DENOUNCE_STRENGTH: float = env.float("TRUST_DENOUNCE_STRENGTH", 1.0, validate=check.Range(min=0, max=100))
TRUST_VOUCH_WEIGHT: float = env.float(
    "TRUST_VOUCH_WEIGHT", 0.9, validate=check.Range(min=0, max=1, min_inclusive=False)
)
TRUST_EVIDENCE_WEIGHT: float = env.float("TRUST_EVIDENCE_WEIGHT", 0.05, validate=unit)
TRUST_MERGE_WEIGHT: float = env.float("TRUST_MERGE_WEIGHT", 0.0, validate=unit)
# s = w / (w + c) behind one seed: with a cap of c or more, farmed merges by one person alone reach s = .5.
TRUST_MERGE_CAP: float = env.float("TRUST_MERGE_CAP", 0.09, validate=unit)
if TRUST_MERGE_WEIGHT > 0 and TRUST_MERGE_CAP >= TRUST_TRANSFER:
    raise EnvError(
        f"TRUST_MERGE_CAP={TRUST_MERGE_CAP} must be below TRUST_TRANSFER={TRUST_TRANSFER}: "
        "else merges of trivial changes by one person alone reach s = .5."
    )
TRUST_FAST_LANE: float = env.float("TRUST_FAST_LANE", 0.50, validate=unit)
TRUST_TWO_WAYS: bool = env.bool("TRUST_TWO_WAYS", True)
# One vouch of a seed without evidence gives s = w / (w + c): the most reliable way in must not be too weak.
if TRUST_FAST_LANE * (TRUST_VOUCH_WEIGHT + TRUST_TRANSFER) > TRUST_VOUCH_WEIGHT:
    raise EnvError(
        f"TRUST_FAST_LANE={TRUST_FAST_LANE} is above {TRUST_VOUCH_WEIGHT / (TRUST_VOUCH_WEIGHT + TRUST_TRANSFER):.3f}, "
        "what a seed's own vouch gives: a maintainer could vouch nobody into the fast lane."
    )
LABEL_WINDOW_DAYS: int = env.int("LABEL_WINDOW_DAYS", 14, validate=check.Range(min=0, max=365))
# 4,540 people's first pull requests to 11 public projects: 53.4 % were merged.
PRIOR_CLEAN_RATE: float = env.float("PRIOR_CLEAN_RATE", 0.53, validate=inside_unit)
PRIOR_STRENGTH: float = env.float("PRIOR_STRENGTH", 5.0, validate=check.Range(min=0.1))
T_LOW: float = env.float("T_LOW", 0.30, validate=unit)
T_HIGH: float | None = env.float("T_HIGH", None, validate=unit) if env.str("T_HIGH", "") else None
if T_HIGH is not None and T_HIGH < T_LOW:
    raise EnvError(f"T_HIGH={T_HIGH} is below T_LOW={T_LOW}: a pull request would belong to both lanes.")
R_LOW: float = env.float("R_LOW", 0.20, validate=unit)
R_HIGH: float = env.float("R_HIGH", 0.60, validate=unit)
if R_HIGH <= R_LOW:
    raise EnvError(f"R_HIGH={R_HIGH} must be above R_LOW={R_LOW}: content would be clear and alarming at once.")
FALSE_APPROVAL_BUDGET: float = env.float("FALSE_APPROVAL_BUDGET", 0.05, validate=inside_unit)
FALSE_ALARM_BUDGET: float = env.float("FALSE_ALARM_BUDGET", 0.05, validate=inside_unit)
FALSE_APPROVAL_DELTA: float = env.float("FALSE_APPROVAL_DELTA", 0.05, validate=inside_unit)
CERTIFICATE_DAYS: int = env.int("CERTIFICATE_DAYS", 90, validate=check.Range(min=1, max=90))
TRAIN_DAYS: int = env.int("TRAIN_DAYS", 7, validate=check.Range(min=0))
TRAIN_SECONDS: int = env.int("TRAIN_SECONDS", 3600, validate=check.Range(min=1))
TRAIN_MEMORY_MB: int = env.int("TRAIN_MEMORY_MB", 4000, validate=check.Range(min=500))
LANE_TRAFFIC: int = env.int("LANE_TRAFFIC", 50, validate=check.Range(min=0))
LANE_CONDITIONS: list[str] = env.list(
    "LANE_CONDITIONS",
    [
        *("verdict", "coverage", "newest_round", "account_changes", "silence", "signing"),
        *("never_fast_paths", "enrichment", "tier", "audit"),
    ],
    validate=conditions,
)
ACCOUNT_CHANGE_DAYS: int = env.int("ACCOUNT_CHANGE_DAYS", 14, validate=check.Range(min=0, max=365))
SILENT_DAYS: int = env.int("SILENT_DAYS", 90, validate=check.Range(min=1, max=3650))
NEVER_FAST_PATHS: list[str] = env.list("NEVER_FAST_PATHS", [], validate=read_by(check_patterns))
BORROW_ORDER: bool = env.bool("BORROW_ORDER", True)
SHOW_GRAPH_MODEL: bool = env.bool("SHOW_GRAPH_MODEL", False)
AUDIT_SHARE: float = env.float("AUDIT_SHARE", 0.05, validate=unit)
AUDIT_PER_DAY: float = env.float("AUDIT_PER_DAY", 5.0, validate=check.Range(min=0, max=1000))
AUDIT_FIRST: int = env.int("AUDIT_FIRST", 60, validate=check.Range(min=0))
ESTIMATED_AUDIT_SHARE: float = env.float("ESTIMATED_AUDIT_SHARE", 1 / 3, validate=check.Range(min=0.01, max=1))

# --- Content review by Claude. Without a key only the scanners review. ------------------
ANTHROPIC_API_KEY: str = env.str("ANTHROPIC_API_KEY", "")
ANTHROPIC_BASE_URL: str = env.str("ANTHROPIC_BASE_URL", "https://api.anthropic.com", validate=api)
CLAUDE_MODEL: str = env.str(
    "CLAUDE_MODEL",
    "claude-sonnet-4-6",
    validate=check.Length(min=1, error="it is empty; leave ANTHROPIC_API_KEY empty for no review by Claude"),
)
CLAUDE_HARD_MODEL: str = env.str("CLAUDE_HARD_MODEL", "claude-opus-4-8")
CLAUDE_SCREEN_MODEL: str = env.str("CLAUDE_SCREEN_MODEL", "claude-haiku-4-5-20251001")
CLAUDE_SCREEN: bool = env.bool("CLAUDE_SCREEN", False)
# As of 2026-11-20: dollars for a million tokens of input, output, cache written (for five minutes) and cache read.
CLAUDE_PRICES: list[str] = env.list(
    "CLAUDE_PRICES",
    ["claude-sonnet-4-6=3/15/3.75/0.3", "claude-haiku-4-5-20251001=1/5/1.25/0.1", "claude-opus-4-8=5/25/6.25/0.5"],
    validate=read_by(parse_prices),
)
for _model in (CLAUDE_MODEL, CLAUDE_HARD_MODEL, CLAUDE_SCREEN_MODEL):
    if _model and _model not in parse_prices(CLAUDE_PRICES):
        raise EnvError(f"The model {_model} has no price: add it to CLAUDE_PRICES, else its cost has no bound.")
REVIEW_DOLLARS_A_DAY: float = env.float("REVIEW_DOLLARS_A_DAY", 5.0, validate=check.Range(min=0, max=100_000))
REVIEW_DOLLARS_A_DAY_PER_REPOSITORY: float = env.float(
    "REVIEW_DOLLARS_A_DAY_PER_REPOSITORY", 2.5, validate=check.Range(min=0, max=100_000)
)
REVIEW_DOLLARS_A_DAY_BY_HAND: float = env.float(
    "REVIEW_DOLLARS_A_DAY_BY_HAND", 2.0, validate=check.Range(min=0, max=100_000)
)
SECRET_RULES: Path | None = None
if env.str("SECRET_RULES", ""):
    SECRET_RULES = env.path("SECRET_RULES", validate=check.Predicate("is_file", error="{input} is not a file"))
SENSITIVE_PATHS: list[str] = env.list("SENSITIVE_PATHS", [])
REVIEW_INPUT_TOKENS: int = env.int("REVIEW_INPUT_TOKENS", 60_000, validate=check.Range(min=4_000, max=900_000))
REVIEW_WAIT_SECONDS: float = env.float("REVIEW_WAIT_SECONDS", 5.0, validate=check.Range(min=0, max=60))
REVIEW_SECONDS: float = env.float("REVIEW_SECONDS", 120.0, validate=check.Range(min=1, max=600))
REVIEW_ATTEMPTS: int = env.int("REVIEW_ATTEMPTS", 3, validate=check.Range(min=1, max=5))

# --- The web process. ------------------------------------------------------------------------------------------------
BIND: str = env.str("BIND", "127.0.0.1:8000")
TRUSTED_PROXY: str = env.str("TRUSTED_PROXY", "", validate=address)
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", [])
PUBLIC_ORIGIN: str = env.str("PUBLIC_ORIGIN", "", validate=public_origin) if PLACE.mode == "drive" else ""
SECURE_COOKIES: bool = env.bool("SECURE_COOKIES", bool(PUBLIC_ORIGIN))
if PUBLIC_ORIGIN and not validate_host(PUBLIC_ORIGIN.removeprefix("https://"), ALLOWED_HOSTS):
    raise EnvError(f"PUBLIC_ORIGIN={PUBLIC_ORIGIN} names a host that ALLOWED_HOSTS does not allow: add it there.")
LABELER_BIND: str = env.str("LABELER_BIND", "", validate=bind) if PLACE.mode == "drive" else ""
if LABELER_BIND and not PUBLIC_ORIGIN:
    raise EnvError("LABELER_BIND needs PUBLIC_ORIGIN, whose name signs the labels: set both, or neither.")
LANE_LABEL: bool = env.bool("LANE_LABEL", False)
MERGE_ON_FORGE: bool = env.bool("MERGE_ON_FORGE", False)
API_REQUESTS_A_MINUTE: int = env.int("API_REQUESTS_A_MINUTE", 1200, validate=check.Range(min=1))
API_ANONYMOUS_A_MINUTE: int = env.int("API_ANONYMOUS_A_MINUTE", 120, validate=check.Range(min=1))
REVIEWS_AN_HOUR: int = env.int("REVIEWS_AN_HOUR", 60, validate=check.Range(min=1))
CORS_ORIGINS: list[str] = env.list("CORS_ORIGINS", [], validate=each(cors))
PUBLIC_READ: bool = env.bool("PUBLIC_READ", False) or PLACE.mode in ("demo", "replay")
SIGN_IN: str = env.str("SIGN_IN", "anyone", validate=check.OneOf(("anyone", "invited")))
FIRST_ADMIN: str = env.str("FIRST_ADMIN", "", validate=account)
ACCEPT_PUSH_HOLDERS: bool = env.bool("ACCEPT_PUSH_HOLDERS", False)
# The operator, shown at the foot of every page. A demo or a replay has none, and its pages say what they are.
_STAGED = {"demo": "a demo with made-up people on this machine", "replay": "a replay of a recording on this machine"}
STAGED = _STAGED.get(PLACE.mode, "")
FORGE_PAGES = "" if STAGED else APPVIEW_URL  # nothing of a demo or a replay is on the forge, so no link leads there
OPERATOR_NAME: str = env.str("OPERATOR_NAME", "", validate=operator)
OPERATOR_CONTACT: str = env.str("OPERATOR_CONTACT", "", validate=contact)
# As PUBLIC_ORIGIN, never in a demo or a replay: both are invented. After a kill a webhook-id may be sent twice.
WEBHOOK_URL: str = env.str("WEBHOOK_URL", "", validate=receiver) if PLACE.mode == "drive" else ""
# The briefing. A demo or a replay sends nothing anywhere.
BRIEFING_HOUR: int = env.int("BRIEFING_HOUR", 5, validate=check.Range(min=0, max=23))
ELEVENLABS_API_KEY: str = env.str("ELEVENLABS_API_KEY", "") if PLACE.mode == "drive" else ""
ELEVENLABS_VOICE: str = env.str("ELEVENLABS_VOICE", "", validate=spoken_voice)
if ELEVENLABS_API_KEY and not ELEVENLABS_VOICE:
    raise EnvError("ELEVENLABS_API_KEY needs ELEVENLABS_VOICE, the id of the voice that speaks: set both, or neither.")
DEBUG = False
ROOT_URLCONF = "trustsite.urls"
WSGI_APPLICATION = "trustsite.wsgi.application"
AUTH_USER_MODEL = "triage.Person"
LOGIN_URL = "sign_in"
_VALIDATORS = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_VALIDATORS}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": f"{_VALIDATORS}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATORS}.NumericPasswordValidator"},
    {"NAME": f"{_VALIDATORS}.UserAttributeSimilarityValidator", "OPTIONS": {"user_attributes": ("handle", "did")}},
]
LANGUAGE_CODE = "en"
USE_I18N, USE_TZ = False, True
TIME_ZONE = "UTC"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Changed bytes get a new address, so a browser may cache them for a year. No file is collected before a start.
_FILES = b"".join(path.read_bytes() for path in sorted(STATICFILES_DIRS[0].rglob("*.*")))
STATIC_URL = f"static/{blake2b(_FILES + version('django-htmx').encode(), digest_size=6).hexdigest()}/"
WHITENOISE_USE_FINDERS = True  # from the source folders
WHITENOISE_AUTOREFRESH = False
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True  # no script of ours reads them
CSRF_FAILURE_VIEW = "triage.views.inbox.actions.refused_form"
SESSION_ENGINE = "triage.access.requests"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000  # bytes of a body: a diff that is sent for review
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "corsheaders",
    "csp",
    "trustsite",
    "ingest",
    "scoring",
    "triage",
]
MIDDLEWARE = [
    "triage.measured.MeasuredMiddleware",  # first, so that it also counts and times requests that others refuse
    "triage.middleware.CompressMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "triage.middleware.OperationCorsMiddleware",
    "triage.middleware.StaticMiddleware",
    "triage.middleware.PolicyMiddleware",
    "triage.middleware.PrivateMiddleware",
    "triage.middleware.DriveMiddleware",
    "triage.middleware.SecureCookiesMiddleware",
    "triage.middleware.KeptSessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "triage.middleware.NotAllowedMiddleware",
    "triage.middleware.SnapshotMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "triage.context.frame",
            ],
            "builtins": ["triage.templatetags.ui"],
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ROOT / "web.sqlite3",
        "CONN_MAX_AGE": None,  # one open connection for each thread: reopening took a quarter of a request
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 10,
            # FULL: an action that was confirmed to a person survives a power cut. It costs 1 ms a commit.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }
}
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
    }
}

# --- Watching over it (docs/monitoring.md). --------------------------------------------------------------------------
OPS_BIND: str = env.str("OPS_BIND", "127.0.0.1:8001", validate=bind)
LOG_FILE_BYTES: int = env.int("LOG_FILE_BYTES", 10_000_000, validate=check.Range(min=10_000))
LOG_FILES: int = env.int("LOG_FILES", 5, validate=check.Range(min=2, max=100))
OTLP_ENDPOINT: str = env.str("OTLP_ENDPOINT", "", validate=collector)
OTLP_HEADERS: dict[str, str] = env.dict("OTLP_HEADERS", {})
# Other sites read JSON with a token in the header, never with cookies; pages stay closed to them.
CORS_ALLOWED_ORIGINS = CORS_ORIGINS
CORS_URLS_REGEX = (
    r"/(?:(?:score|trust)/.*|(?:score|pulls?|inbox|queue|lanes|leaderboard|metrics|digest|briefing|thresholds|health)"
    r"|(?:approved|openapi)\.json|review/pr(?:/.*)?)\Z"
)
CORS_ALLOW_METHODS, CORS_ALLOW_HEADERS = ["GET", "POST"], ["authorization", "content-type", "if-none-match"]
CORS_EXPOSE_HEADERS = ["etag", "retry-after"]
CACHES = {  # counts of throttles: with Django's 300 entries a visitor with as many addresses would reset them
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", "WARNING", validate=check.OneOf(LEVELS))},
    "loggers": {
        # Anybody can send any Host header; the answer gives the remedy, and a traceback for each would fill the log.
        "django.security.DisallowedHost": {"level": "CRITICAL", "propagate": True},
        # One line for each waiting request: at a thousand a second they are most of the log.
        "waitress.queue": {"level": "ERROR", "propagate": True},
    },
}
