"""Tokens of messengers, payment and other services."""

from scoring.scanners.secrets import checks
from scoring.scanners.secrets.rule_file import HEX, WORD, named, rule, shape
from scoring.types import Severity

SERVICES = (
    rule(
        "slack-token",
        "a token of Slack",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxe. xapp- xoxc- xoxd-",
        shape(r"xox(?:[abprs]|e\.xox[bp]|e)-\d[\w-]{14,250}|xapp-\d-[A-Z0-9]{9,13}-\d{10,15}-[0-9a-f]{64}"),
    ),
    rule(
        "slack-webhook",
        "an incoming webhook of Slack",
        "hooks.slack.com",
        (
            r"hooks\.slack\.com/((?:services/T\w{8,12}/B\w{8,12}/[0-9A-Za-z]{24}"
            r"|(?:workflows|triggers)/T\w{8,12}/[\w/]{20,100}))"
        ),
    ),
    rule("stripe-key", "a live key of Stripe", "sk_live_ rk_live_", shape(r"[rs]k_live_[0-9A-Za-z]{16,200}")),
    rule(
        "stripe-test-key",
        "a test key of Stripe",
        "sk_test_ rk_test_",
        shape(r"[rs]k_test_[0-9A-Za-z]{24,200}"),
        severity=Severity.LOW,
    ),
    rule(
        "stripe-webhook",
        "a webhook secret of Stripe",
        "whsec_",
        shape(r"whsec_[0-9A-Za-z+/]{32,64}=?"),
        severity=Severity.MED,
    ),
    rule("twilio-key", "an API key of Twilio", "sk", shape(r"SK[0-9a-f]{32}"), bits=HEX),
    rule("twilio-auth-token", "an auth token of Twilio", "twilio", named("twilio", r"[0-9a-f]{32}"), bits=HEX),
    rule("sendgrid-key", "an API key of SendGrid", "sg.", shape(r"SG\.[\w-]{22}\.[\w-]{43}", WORD + ".")),
    rule("mailgun-key", "an API key of Mailgun", "key-", shape(r"key-[0-9a-f]{32}"), bits=HEX),
    rule(
        "mailgun-named",
        "an API key of Mailgun",
        "mailgun",
        named("mailgun", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}"),
        bits=HEX,
    ),
    rule("mailchimp-key", "an API key of Mailchimp", "-us", shape(r"[0-9a-f]{32}-us\d{1,2}"), bits=HEX),
    rule("brevo-key", "an API key of Brevo", "xkeysib-", shape(r"xkeysib-[0-9a-f]{64}-[0-9A-Za-z]{16}"), bits=HEX),
    rule("resend-key", "an API key of Resend", "re_", shape(r"re_[0-9A-Za-z]{8}_[0-9A-Za-z]{24}"), bits=3.8),
    rule(
        "discord-bot",
        "a bot's token of Discord",
        "m n o",
        shape(r"[MNO][0-9A-Za-z]{22,27}\.[\w-]{6}\.[\w-]{27,38}", WORD + "."),
        checks.discord_bot,
    ),
    rule(
        "discord-webhook",
        "a webhook of Discord",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?(webhooks/\d{17,20}/[\w-]{60,80})",
    ),
    rule("telegram-bot", "a bot's token of Telegram", ":aa", shape(r"\d{8,10}:AA[\w-]{33}"), bits=3.5),
    rule("facebook-token", "an access token of Facebook", "eaa", shape(r"EAA[0-9A-Za-z]{90,400}"), bits=3.8),
    rule(
        "facebook-secret",
        "an app secret of Facebook",
        "facebook fb_app",
        named("facebook|fb_app", r"[0-9a-f]{32}", "secret"),
        bits=HEX,
    ),
    rule(
        "shopify-token",
        "a token of Shopify",
        "shpat_ shpca_ shppa_ shpss_",
        shape(r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
        bits=HEX,
    ),
    rule(
        "square-token",
        "an access token of Square",
        "sq0atp- sq0csp- eaaa",
        shape(r"sq0atp-[\w-]{22}|sq0csp-[\w-]{43}|EAAA[\w-]{60}"),
        bits=3.5,
    ),
    rule(
        "braintree-token",
        "an access token of PayPal Braintree",
        "access_token$production$",
        r"(access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32})(?![0-9a-z])",
    ),
    rule("paypal-secret", "a client secret of PayPal", "paypal", named("paypal", r"E[\w-]{79}", "secret"), bits=4.0),
    rule(
        "datadog-key",
        "a key of Datadog",
        "datadog dd_api dd_app",
        named("datadog|dd_api|dd_app", r"(?:[0-9a-f]{40}|[0-9a-f]{32})", "key|token"),
        bits=HEX,
    ),
    rule(
        "newrelic-key",
        "a key of New Relic",
        "nrak- nrii- nrjs- nral nraa- nrra-",
        shape(r"NRAK-[0-9A-Z]{27}|NRII-[\w-]{32}|NRAA-[0-9a-f]{27}|NRRA-[0-9a-f]{42}|[0-9a-z]{36}NRAL"),
    ),
    rule(
        "sentry-token",
        "a token of Sentry",
        "sntrys_ sntryu_",
        r"(?<![\w-])(sntryu_[0-9a-f]{64}|sntrys_eyJ[\w+/=-]{60,400})",
        bits=HEX,
    ),
    rule(
        "sentry-dsn",
        "a project's DSN of Sentry with its key",
        "sentry",
        r"https://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[a-z0-9.-]{0,60}sentry[a-z0-9.-]{0,60}/\d{1,20}",
        bits=HEX,
        severity=Severity.LOW,
    ),
    rule(
        "linear-key",
        "a key of Linear",
        "lin_api_ lin_oauth_",
        shape(r"lin_api_[0-9A-Za-z]{40}|lin_oauth_[0-9a-f]{64}"),
    ),
    rule(
        "notion-token",
        "an integration token of Notion",
        "ntn_ secret_",
        shape(r"ntn_\d{11}[0-9A-Za-z]{35}|secret_[0-9A-Za-z]{43}"),
        bits=3.8,
    ),
    rule("postman-key", "an API key of Postman", "pmak-", shape(r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"), bits=HEX),
    rule(
        "grafana-token",
        "a token of Grafana",
        "glsa_ glc_ eyjrijoi",
        shape(
            r"glsa_[0-9A-Za-z]{32}_[0-9a-fA-F]{8}|glc_eyJ[0-9A-Za-z+/]{60,400}={0,2}|eyJrIjoi[0-9A-Za-z]{60,150}={0,2}"
        ),
        bits=3.2,
    ),
    rule(
        "airtable-token",
        "a token of Airtable",
        "pat",
        shape(r"pat[0-9A-Za-z]{14}\.[0-9a-f]{64}", WORD + "."),
        bits=HEX,
    ),
    rule("figma-token", "a token of Figma", "figd_", shape(r"figd_[\w-]{36,60}")),
    rule("dropbox-token", "a token of Dropbox", "sl.", shape(r"sl\.(?:u\.)?[\w-]{130,1400}", WORD + "."), bits=3.8),
    rule(
        "hubspot-token",
        "a token of HubSpot",
        "pat-na1- pat-eu1-",
        shape(r"pat-(?:na|eu)1-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        bits=HEX,
    ),
    rule("okta-token", "a token of Okta", "okta", named("okta", r"00[\w-]{40}", "token|key"), bits=3.8),
    rule(
        "atproto-app-password",
        "an app password of an AT Protocol account",
        "password",
        (
            r"(?i:app_?password|atproto|atp_|bluesky|bsky)[^\n]{0,40}[=:,(]\s{0,3}[\"'`]?"
            r"([a-z2-7]{4}(?:-[a-z2-7]{4}){3})(?:[^\w-]|$)"
        ),
        bits=2.8,
    ),
)
