"""What names people in words between people and is something else in code: roles, dates, headers of mail, standing."""

import re

from scoring.identities.patterns import PEOPLE, rule

COLON = r"[ \t]{0,8}:[ \t]{0,8}"
CLOCK = "[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_QUOTE = r"^[ \t>]{0,8}"
_ROLES = "author|committer|tagger|sender|reviewer|assignee"
_MAIL_LINES = "message-id|in-reply-to|references|received|return-path|list-[a-z-]{1,20}|x-[a-z-]{1,40}"
# What somebody says of their own standing, or a forge beside their name: a reviewer is not to know that either.
_POST = (
    r"(?:maintainer|committer|(?:core|regular|long-?time|first-?time|top) (?:developer|contributor)|project lead|"
    r"(?:team|core|org(?:ani[sz]ation)?) member|collaborator|code ?owner)s?"
)
_STANDING = (
    rf"(?:as|i'?m|i\u2019m|i am|we are|we're|i've been|i have been|speaking as)"
    rf" (?:an? |the |one of the |your |also |now )?(?:[\w-]{{1,20}} ){{0,2}}{_POST}"
    r"(?: (?:of|at|for|on|since) (?:the )?[\w.@/-]{1,40}| here)?"
    r"|(?:i have |i've |with |my )(?:over |more than )?[0-9]{1,5}\+? (?:merged |accepted |previous )?"
    r"(?:years? of (?:\w{1,20} )?experience|prs?|pull requests|patches|commits|contributions)"
    r"|author_association[\"']?: ?[\"']?\w{1,30}"
)
# For words only: in code `Date:` is a header of HTTP, and `@name` a decorator.
BETWEEN_PEOPLE = (
    rule("person", ":", PEOPLE, f"{_QUOTE}(?:{_ROLES}){COLON}", flags=re.IGNORECASE),
    rule("time", "date", r"[^\n]{1,100}", f"{_QUOTE}(?:author|commit)?date{COLON}", flags=re.IGNORECASE),
    rule("email", ":", r"[^\n]{1,300}", f"{_QUOTE}(?:{_MAIL_LINES}){COLON}", flags=re.IGNORECASE),
    rule(
        "standing",
        rf"{_POST}|experience|[0-9]\+? (?:merged|accepted|previous|prs?|pull|patches|commits|contrib)|author_assoc",
        _STANDING,
        r"\b",
        r"\b",
        re.IGNORECASE,
    ),
    rule(
        "standing",
        rf"[\[(](?:{_POST}|owner|member)[\])]",
        rf"(?:{_POST}|owner|member)",
        r"[\[(]",
        r"[\])]",
        re.IGNORECASE,
    ),
    rule("time", "[0-9]{4}-[0-9]{2}-", f"{DATE}(?:[T ]{CLOCK}Z?)?", r"\b", r"\b(?!-)"),
)
