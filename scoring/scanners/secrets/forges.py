"""Tokens of forges, registries and build services, and keys of language models."""

from scoring.scanners.secrets.checks import base62_crc32
from scoring.scanners.secrets.rule_file import HEX, named, rule, shape
from scoring.types import Severity

FORGES = (
    rule(
        "github-token",
        "a token of GitHub",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        shape(r"gh[pousr]_[0-9A-Za-z]{36}"),
        base62_crc32,
        proves=True,
    ),
    rule(
        "github-fine-grained",
        "a fine-grained token of GitHub",
        "github_pat_",
        shape(r"github_pat_[0-9A-Za-z]{22}_[0-9A-Za-z]{59}"),
    ),
    rule(
        "gitlab-token",
        "a token of GitLab",
        "glpat- gldt- glrt- glptt- glsoat- glcbt- glft- glimt- glagent- gloas-",
        shape(r"gl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent|oas)-[\w-]{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?"),
    ),
    rule("gitlab-runner", "a runner's registration token of GitLab", "gr1348941", shape(r"GR1348941[\w-]{20}")),
    rule("bitbucket-password", "an app password of Bitbucket", "atbb", shape(r"ATBB[0-9A-Za-z]{32}")),
    rule(
        "atlassian-token",
        "an API token of Atlassian",
        "atatt3 atctt3",
        r"(?<![\w-])(AT[AC]TT3[\w=-]{60,250})",
    ),
    rule("npm-token", "a token of npm", "npm_", shape(r"npm_[0-9A-Za-z]{36}"), base62_crc32, proves=True),
    rule(
        "npm-auth-token",
        "a token of npm",
        "_authtoken",
        r"_authToken\s{0,2}=\s{0,2}[\"']?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
        bits=HEX,
    ),
    rule(
        "pypi-token",
        "a token of PyPI",
        "pypi-ag",
        shape(r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)[\w-]{50,1000}"),
    ),
    rule("rubygems-key", "an API key of RubyGems", "rubygems_", shape(r"rubygems_[0-9a-f]{48}"), bits=HEX),
    rule("crates-token", "a token of crates.io", "cio", shape(r"cio[0-9A-Za-z]{32}"), bits=3.8),
    rule("nuget-key", "an API key of NuGet", "oy2", shape(r"oy2[a-z0-9]{43}"), bits=3.5),
    rule("dockerhub-token", "an access token of Docker Hub", "dckr_", shape(r"dckr_(?:pat_[\w-]{27}|oat_[\w-]{32})")),
    rule("artifactory-token", "an API key of Artifactory", "akcp", shape(r"AKCp[0-9A-Za-z]{69}")),
    rule(
        "circleci-token",
        "a token of CircleCI",
        "ccipat_ cciprj_",
        shape(r"CCI(?:PAT|PRJ)_[0-9A-Za-z]{22}_[0-9a-f]{40}"),
    ),
    rule("buildkite-token", "a token of Buildkite", "bkua_", shape(r"bkua_[0-9a-f]{40}"), bits=HEX),
    rule("sonar-token", "a token of SonarQube", "sqp_ squ_ sqa_", shape(r"sq[pua]_[0-9a-f]{40}"), bits=HEX),
    rule(
        "codecov-token",
        "an upload token of Codecov",
        "codecov",
        named("codecov", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "token"),
        bits=HEX,
        severity=Severity.MED,
    ),
)

MODELS = (
    rule(
        "openai-key",
        "an API key of OpenAI",
        "t3blbkfj",
        shape(r"sk-(?:[a-z]{2,10}-)?[\w-]{20,100}T3BlbkFJ[\w-]{20,100}"),
    ),
    rule("anthropic-key", "an API key of Anthropic", "sk-ant-", shape(r"sk-ant-[a-z]{2,6}\d{2}-[\w-]{60,120}")),
    rule(
        "huggingface-token",
        "a token of Hugging Face",
        "hf_ api_org_",
        shape(r"(?:hf|api_org)_[0-9A-Za-z]{34}"),
        bits=3.8,
    ),
    rule("groq-key", "an API key of Groq", "gsk_", shape(r"gsk_[0-9A-Za-z]{52}")),
    rule("replicate-token", "a token of Replicate", "r8_", shape(r"r8_[0-9A-Za-z]{37}"), bits=3.8),
    rule("openrouter-key", "an API key of OpenRouter", "sk-or-", shape(r"sk-or-v1-[0-9a-f]{64}"), bits=HEX),
    rule("perplexity-key", "an API key of Perplexity", "pplx-", shape(r"pplx-[0-9A-Za-z]{48,56}")),
    rule("xai-key", "an API key of xAI", "xai-", shape(r"xai-[0-9A-Za-z]{80}")),
    rule(
        "langsmith-key",
        "an API key of LangSmith",
        "lsv2_",
        shape(r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
        bits=HEX,
    ),
)
