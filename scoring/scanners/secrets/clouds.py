"""Keys of clouds and of what runs in them, by the shapes that their makers document."""

from scoring.scanners.secrets.rule_file import HEX, WORD, named, rule, shape

CLOUD = (
    rule(
        "aws-access-key-id",
        "an access key id of AWS",
        "akia asia abia acca",
        shape(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ),
    rule(
        "aws-secret-access-key",
        "a secret access key of AWS",
        "aws secretaccesskey secret_access_key",
        named(r"aws|secret_?access_?key", r"[0-9A-Za-z/+]{40}", r"secret|key|sk"),
        bits=3.8,
    ),
    rule("aws-bedrock-key", "an API key of Amazon Bedrock", "absk", shape(r"ABSK[0-9A-Za-z+/]{109,269}={0,2}")),
    rule(
        "google-service-account",
        "a service account's key of Google Cloud",
        "private_key_id",
        r"private_key_id[\\]?[\"']?\s{0,3}[:=]\s{0,3}[\\]?[\"']?([0-9a-f]{40})(?![0-9a-f])",
        bits=HEX,
    ),
    rule("google-api-key", "an API key of Google", "aiza", shape(r"AIza[\w-]{35}"), bits=3.5),
    rule("google-oauth-secret", "an OAuth client secret of Google", "gocspx-", shape(r"GOCSPX-[\w-]{28}")),
    rule("google-oauth-token", "an OAuth access token of Google", "ya29.", shape(r"ya29\.[\w-]{40,1000}")),
    rule(
        "azure-storage-key",
        "an account key of Azure Storage",
        "accountkey=",
        r"AccountKey=([0-9A-Za-z+/]{86}==)",
        bits=4.0,
    ),
    rule(
        "azure-shared-key",
        "a shared access key of Azure",
        "sharedaccesskey=",
        r"SharedAccessKey=([0-9A-Za-z+/]{43}=)",
        bits=4.0,
    ),
    rule(
        "azure-client-secret",
        "a client secret of Microsoft Entra",
        "q~",
        shape(r"[0-9A-Za-z_~.]{3}[78]Q~[0-9A-Za-z_~.-]{31,34}", WORD + "~."),
        bits=3.8,
    ),
    rule(
        "digitalocean-token",
        "a token of DigitalOcean",
        "dop_v1_ doo_v1_ dor_v1_",
        shape(r"do[opr]_v1_[0-9a-f]{64}"),
        bits=HEX,
    ),
    rule("heroku-key", "an API key of Heroku", "hrku-", shape(r"HRKU-[\w-]{36,120}")),
    rule(
        "heroku-uuid",
        "an API key of Heroku",
        "heroku",
        named("heroku", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "api_?key|token|secret"),
        bits=HEX,
    ),
    rule("cloudflare-token", "a token of Cloudflare", "cfk_ cfut_ cfat_", shape(r"cf(?:k|ut|at)_[0-9A-Za-z]{40,48}")),
    rule(
        "cloudflare-named",
        "a key of Cloudflare",
        "cloudflare cf_api",
        named(r"cloudflare|cf_api", r"(?:[\w-]{40}|[0-9a-f]{37})", "api_?key|api_?token|token"),
        bits=HEX,
    ),
    rule(
        "cloudflare-origin-ca",
        "an origin CA key of Cloudflare",
        "v1.0-",
        shape(r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
        bits=HEX,
    ),
    rule("databricks-token", "a token of Databricks", "dapi", shape(r"dapi[0-9a-f]{32}(?:-\d)?"), bits=HEX),
    rule("fly-token", "a token of Fly.io", "fm2_ fo1_", shape(r"(?:fm2_[0-9A-Za-z+/]{100,500}={0,3}|fo1_[\w-]{43})")),
    rule(
        "supabase-token",
        "a token of Supabase",
        "sbp_ sb_secret_",
        shape(r"sbp_[0-9a-f]{40}|sb_secret_[\w-]{31}"),
        bits=HEX,
    ),
    rule("planetscale-token", "a credential of PlanetScale", "pscale_", shape(r"pscale_(?:tkn|pw|oauth)_[\w-]{32,64}")),
    rule(
        "terraform-token", "a token of Terraform Cloud", ".atlasv1.", shape(r"[0-9A-Za-z]{14}\.atlasv1\.[\w-]{60,70}")
    ),
    rule("pulumi-token", "a token of Pulumi", "pul-", shape(r"pul-[0-9a-f]{40}"), bits=HEX),
    rule(
        "tailscale-key",
        "a key of Tailscale",
        "tskey-",
        shape(r"tskey-[a-z]{2,10}-[0-9A-Za-z_]{10,24}-[0-9A-Za-z_]{20,64}"),
    ),
    rule("vault-token", "a token of HashiCorp Vault", "hvs. hvb. hvr.", shape(r"hv[sbr]\.[\w-]{24,300}"), bits=3.5),
    rule(
        "doppler-token",
        "a token of Doppler",
        "dp.",
        shape(r"dp\.(?:pt|ct|sa|scim|audit|st\.[a-z0-9_-]{2,35})\.[0-9A-Za-z]{40,44}"),
    ),
)
