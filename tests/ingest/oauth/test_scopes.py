"""Scopes are understood as the permission specification says, whatever their spelling."""

import pytest

from ingest.oauth.scopes import (
    Act,
    Permission,
    act_scope,
    every_scope,
    missing_scopes,
    parse_scope,
    scope_to_ask,
    service_scope,
)

OWN = "org.sunstead"
VOUCH, COMMENT = "sh.tangled.graph.vouch", "sh.tangled.feed.comment"


def repo(collection: str, *actions: str) -> tuple[Permission, ...]:
    return tuple(Permission("repo", collection, action) for action in actions or ("create", "update", "delete"))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("repo:app.bsky.feed.post", repo("app.bsky.feed.post")),
        ("repo?collection=app.bsky.feed.post", repo("app.bsky.feed.post")),
        ("repo:*", repo("*")),
        ("repo:app.bsky.feed.post?action=create", repo("app.bsky.feed.post", "create")),
        ("repo:app.bsky.feed.post?action=delete&action=create", repo("app.bsky.feed.post", "delete", "create")),
        (
            "repo?collection=app.bsky.feed.post&collection=app.bsky.feed.like&action=create",
            (*repo("app.bsky.feed.post", "create"), *repo("app.bsky.feed.like", "create")),
        ),
        ("rpc:app.bsky.feed.getFeed?aud=*", (Permission("rpc", "app.bsky.feed.getFeed", "*"),)),
        (
            "rpc:app.bsky.feed.getFeed?aud=did:web:api.example.com%23bsky",
            (Permission("rpc", "app.bsky.feed.getFeed", "did:web:api.example.com#bsky"),),
        ),
        (
            "rpc?lxm=app.bsky.feed.getFeed&lxm=app.bsky.feed.getPosts&aud=*",
            (Permission("rpc", "app.bsky.feed.getFeed", "*"), Permission("rpc", "app.bsky.feed.getPosts", "*")),
        ),
        ("rpc:*?aud=did:web:api.example.com%23bsky", (Permission("rpc", "*", "did:web:api.example.com#bsky"),)),
    ],
)
def test_a_scope_becomes_its_permissions(text: str, parsed: tuple[Permission, ...]) -> None:
    assert parse_scope(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "atproto",
        "transition:generic",
        "blob:*/*",
        "include:org.sunstead.authMaintainer",
        "repo",
        "repo:",
        "repo:?collection=*",
        "repo:sh.tangled.*",
        "repo:post",
        "repo:app.bsky.feed.post?action=read",
        "repo:app.bsky.feed.post?action=",
        "repo:app.bsky.feed.post?aud=*",
        "repo:app.bsky.feed.post?collection=app.bsky.feed.like",
        "rpc:app.bsky.feed.getFeed",
        "rpc:app.bsky.feed.getFeed?aud=did:web:knot.example",
        "rpc:app.bsky.feed.getFeed?aud=*&aud=*",
        "rpc:*?aud=*",
        "rpc?aud=*",
        "rpc:app.bsky.feed.getFeed?aud=https://x.example.com",
        f"repo:{'a.' * 3_000}post",
        "REPO:app.bsky.feed.post",
    ],
)
def test_what_grants_nothing_here_is_read_as_nothing(text: str) -> None:
    assert parse_scope(text) == ()


@pytest.mark.parametrize(
    ("granted", "needed", "missing"),
    [
        ("atproto", "atproto", []),
        ("", "atproto", ["atproto"]),
        ("repo:*", "atproto", ["atproto"]),
        ("atproto repo:*", f"atproto repo:{VOUCH}?action=create", []),
        (f"repo:{VOUCH}?action=update&action=create", f"repo:{VOUCH}?action=create&action=update", []),
        (f"repo:{VOUCH}?action=update repo:{VOUCH}?action=create", f"repo:{VOUCH}?action=create&action=update", []),
        (f"repo:{VOUCH}?action=create", f"repo:{VOUCH}?action=create&action=update", ["same"]),
        (f"repo:{VOUCH}?action=create", f"repo:{VOUCH}", ["same"]),
        (f"repo?collection={VOUCH}&collection={COMMENT}", f"repo:{COMMENT}?action=delete", []),
        (f"repo:{COMMENT}", f"repo:{VOUCH}", ["same"]),
        (f"repo:{VOUCH}x", f"repo:{VOUCH}", ["same"]),
        (f"repo:{VOUCH}", "repo:*", ["same"]),
        ("rpc:a.b.c?aud=*", "rpc:a.b.c?aud=did:web:x.example.com%23y", []),
        ("rpc:a.b.c?aud=did:web:x.example.com%23y", "rpc:a.b.c?aud=*", ["same"]),
        ("rpc:*?aud=did:web:x.example.com%23y", "rpc:a.b.c?aud=did:web:x.example.com%23y", []),
        ("rpc:a.b.c?aud=*", "rpc:a.b.d?aud=*", ["same"]),
        ("repo:*", "rpc:a.b.c?aud=*", ["same"]),
        ("atproto transition:generic", "transition:generic", ["same"]),
        ("repo:a.b.c", "include:org.sunstead.authMaintainer", ["same"]),
    ],
)
def test_a_grant_covers_what_its_permissions_cover(granted: str, needed: str, missing: list[str]) -> None:
    assert missing_scopes(granted, needed) == ([needed] if missing == ["same"] else missing)


@pytest.mark.parametrize("act", Act)
def test_an_act_asks_for_no_more_than_it_needs(act: Act) -> None:
    scopes = act_scope(act, OWN).split()
    assert scopes[0] == "atproto"
    for text in scopes[1:]:
        permissions = parse_scope(text)
        assert permissions, text
        assert all(permission.target != "*" for permission in permissions)
    refused = (
        "transition:",
        "blob:",
        "identity:",
        "account:",
        "mergeCheck",
        "repo:sh.tangled.repo?",
        "repo:sh.tangled.repo ",
    )
    assert not any(part in f"{act_scope(act, OWN)} " for part in refused)


def test_the_metadata_names_letter_for_letter_whatever_may_be_asked() -> None:
    every = every_scope(OWN).split()
    assert len(every) == len(set(every)), "a server refuses a scope that is named twice"
    asked = {scope for act in Act for other in Act for scope in scope_to_ask(act_scope(act, OWN), other, OWN).split()}
    asked |= {scope for more in (False, True) for scope in service_scope(OWN, more, more).split()}
    assert asked == set(every)


def test_what_was_granted_is_asked_for_again_in_the_sites_own_spelling() -> None:
    granted = f"repo:{VOUCH}?action=update&action=create atproto repo:{COMMENT}"
    asked = scope_to_ask(granted, Act.CLOSE, OWN)
    assert not missing_scopes(asked, act_scope(Act.CLOSE, OWN))
    kept = [act for act in Act if not missing_scopes(asked, act_scope(act, OWN))]
    assert kept == [Act.CLOSE, Act.VOUCH, Act.COMMENT, Act.TAKE_BACK_COMMENT]
    assert set(asked.split()) <= set(every_scope(OWN).split())
