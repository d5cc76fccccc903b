"""Finds the strings that identify a pull request's people, anywhere in a text, and puts placeholders in their place.

A handle or name that is also a word of code or plain English is not replaced everywhere: an account named
"subprocess.run" would else remove that call from every diff for the reviewer. Equal texts get the same placeholder,
such as <email-1>, and none reveals its text.
"""

import builtins
import keyword
import re
import sys
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

import re2

from scoring.scanners.submission import Account

_PLACEHOLDER = re.compile(
    r"<(?:at-uri|avatar|badge|change-id|did|email|handle|host|name|person|pgp|ssh-key|standing|time|url|user)-[0-9]{1,9}>"
)
_BESIDE = " \t\r,;.:-/()[]{}\"'*&"  # may be between or after placeholders in a value that holds nothing else


class Placeholders:
    """Assigns placeholders, numbered per kind in order of appearance; one object a submission."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._kinds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()  # replacements per kind

    def put(self, kind: str, text: str) -> str:
        """Return the placeholder of a text; a text of placeholders alone stays as it is."""
        if not _PLACEHOLDER.sub("", text).strip(_BESIDE):
            return text
        key = kind, " ".join(text.casefold().split())
        if key not in self._numbers:
            self._kinds[kind] += 1
            self._numbers[key] = self._kinds[kind]
        self.counts[kind] += 1
        return f"<{kind}-{self._numbers[key]}>"


_CODE = """
    abstract access account accept action actions active add admin agent alert alias alloc allow amount and any api app
    append apply archive args array asset assert async atom auth await backup base bash batch begin binary bind block
    body bool boolean boot bot branch break bridge browser buffer build builder bundle button byte cache call callback
    cancel case catch cargo cell cert chain change channel char check child child_process chmod chown class clean clear
    cli click client clone close cloud cluster code color column command commit component compose config connect console
    const constructor container content context cookie copy core count crate create cron crypto curl current cursor data
    database date db debug default define delete demo deploy deps design dest detail dev device dict diff digest dir
    disable disk dispatch display dist dns docker docs document domain done download draft drive driver drop dummy echo
    edge edit editor element email emit empty enable encode encrypt end engine entry enum env error escape eval event
    example exec execute exit expand export express extend extension extern fail false fetch field file filter final
    find fire fix flag float flow flush folder font for force fork form format frame free from func function future
    game gate general get git global graph grep group guard guest handle handler hash head header heap hello help helper
    hidden home hook host html http https icon id idle image impl implements import include index info init inject
    inline inner input insert install instance int integer interface internal invoke io item iter java javascript job
    join json jump kernel key kill kind label lambda language large last launch layer layout left length let level lib
    library limit line link linux list listen load loader local lock log login logout long loop mac machine mail main
    make manage manager manifest map mark mask master match max member memory menu merge message meta method min mirror
    mock mode model module monitor mount move mut mutable name namespace native net network new next node none not note
    null number object offset open operator option order origin output override owner pack package page panic parent
    parse parser part pass passwd password patch path pattern pause payload peer ping pip pipe pixel plan platform play
    plugin point policy pool port post power prefix print private process prod product profile program project prompt
    proof prop property protected protocol proxy pub public publish pull push put query queue quit random range rate raw
    read reader ready receive record recover redirect reduce ref refresh region register release reload remote remove
    render replace reply repo report request require reset resolve resource response rest restore result return revert
    right robot role rollback root route router rule run runner runtime rust safe sample save scale scan schema scope
    score script search secret section secure security select self send sender sequence serial server service session
    set setup shadow share shell shift show shutdown sign signal signature simple site size skip slice sleep slot small
    snapshot socket sort source space spawn split sql stack stage standard start startup state static status step stop
    storage store stream string strict strip struct style submit sudo sum super support swap switch symbol sync syntax
    system table tag tail target task team temp template term test text theme thread throw time timer title todo token
    tool top total touch trace track trait transfer transform tree trigger trim true trunk trust try tuple type ui
    undefined undo union unique unit unknown unlock unsafe update upgrade upload uri url usage use user username util
    utils validate value var vector verify version view virtual void volume vote wait walk wallet watch web webhook
    wget while widget window with word work worker world wrap write writer xml yaml yield zero zone
"""
_PACKAGES = """
    actix aiohttp angular anyhow axios axum babel bcrypt beautifulsoup boto boto3 botocore celery chalk clap click
    commander cryptography django dotenv electron eslint express fastapi flask gin golang gorilla gunicorn hibernate
    httpx hyper jest jinja jinja2 jquery jsonwebtoken junit keras kubernetes libc lodash matplotlib mocha moment mongo
    mongodb mongoose mysql next nginx node npm numpy nuxt openssl pandas paramiko passport pillow pip postgres prisma
    psycopg psycopg2 puppeteer pydantic pyjwt pytest python pytorch rails rayon react redis redux reqwest requests
    rubygems scipy selenium sequelize serde setuptools shelljs sinatra sklearn spring sqlalchemy sqlite starlette
    struts svelte tensorflow terraform tokio torch typescript underscore urllib urllib3 uvicorn vite webpack werkzeug
    wheel yarn zlib
"""
_ENGLISH = """
    about also anna angel april archer april august bailey baker barber been belle bell best bill bishop black blue
    bond both brook brown buck butler carol carpenter carter chance charity chase chip christian christmas church clay
    cliff colt cook cooper crystal daisy dale dash dawn dean dick dove drew duke earl east ever faith fisher ford
    forest forrest fox frank gardener gale gene ginger glen gold good grace grant gray green grey hall hardy have
    hazel heath high hill hope hunter iris ivory jack jade james jean jewel john joy june just king lance lane laurel
    lily long love luck mason mercy merit miles miller more most much nick noble north olive only other over paige
    parker paul pearl penny pepper peter piper poppy porter price prince queen rain ralph ray reed rich river robin
    rock rose rosemary ruby rusty sage sandy sawyer scarlet scott sharp shepherd short sierra silver sky smith some
    south spencer spring star stephen stone storm such summer taylor than that them then they thing this thomas thorn
    turner victor violet wade walker ward warren wave weaver west when white wild will wolf wood young your
"""
_SHORTEST = 4

CODE_WORDS = frozenset(
    {*_CODE.split(), *_PACKAGES.split(), *keyword.kwlist, *dir(builtins), *sys.stdlib_module_names}
    | {word.lower() for word in dir(builtins)}
)
_COMMON = CODE_WORDS | frozenset(_ENGLISH.split())


def is_common(word: str) -> bool:
    """Return whether a lower-case word is too short or too common to be replaced everywhere."""
    return len(word) < _SHORTEST or word.isdigit() or word in _COMMON


_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_DROPPED = {"Cf", "Mn", "Me"}


class Skeleton:
    """`text` is the original in lower case without accents and invisible characters; `origin` maps positions back."""

    def __init__(self, original: str) -> None:
        self._length = len(original)
        self._begins, self._origins = [0], [0]  # positions from which both run in parallel
        pieces, begin, length = [], 0, 0
        for run in _FOREIGN.finditer(original):
            length += self._keep(pieces, original[begin : run.start()].lower())
            for index in range(run.start(), run.end()):
                self._begins.append(length)
                self._origins.append(index)
                length += self._keep(pieces, fold_text(original[index]))
            begin = run.end()
            self._begins.append(length)
            self._origins.append(begin)
        self._keep(pieces, original[begin:].lower())
        self.text = "".join(pieces)

    @staticmethod
    def _keep(pieces: list[str], piece: str) -> int:
        pieces.append(piece)
        return len(piece)

    def origin(self, position: int) -> int:
        """Return the position in the original of a position in the text; the end for the end."""
        if position >= len(self.text):
            return self._length
        run = bisect_right(self._begins, position) - 1
        return self._origins[run] + position - self._begins[run]


def fold_text(text: str) -> str:
    """Return a text in lower case with compatible forms unified, without accents and invisible characters."""
    if text.isascii():
        return text.lower()
    text = text.encode("utf-8", "replace").decode()  # RE2 takes no lone surrogate
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(mark for mark in plain if unicodedata.category(mark) not in _DROPPED)


_WORD = re.compile(r"[^\W_]+")
_NAME_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_JOINT = r"[ \t._,-]{0,2}"  # between the words of a name: Jane Doe, jane.doe, JaneDoe
_BLANK = r",?[ \t]{1,3}"
_KNOWN_LIMIT = 3_000  # distinct strings, about five a person; a series has at most 500 mails
_LONGEST = 100  # characters of a string
_MOST_WORDS = 8  # of a name


class KnownPeople:
    """Finds known strings in texts."""

    def __init__(self, accounts: Iterable[Account], other_names: Iterable[str] = ()) -> None:
        strings = [string for account in accounts for string in _strings(account)]
        strings += [string for name in other_names for string in _strings_of_text(name)]
        unique = dict.fromkeys((kind, " ".join(text.split())) for kind, text in strings if _letters_only(text))
        known = list(unique)[:_KNOWN_LIMIT]
        longest = sorted(known, key=lambda string: (-len(string[1]), string))
        self._strings = {_letters_only(text): (kind, text) for kind, text in reversed(longest)}
        patterns = "|".join(_pattern(kind, text) for kind, text in longest)
        # RE2, so that names chosen by strangers cannot make the search slow.
        self._pattern = re2.compile(rf"(?:^|[^\pL\pN])({patterns})(?:[^\pL\pN]|$)") if longest else None

    def scrub(self, text: str, places: Placeholders) -> str:
        """Return the text with every known string replaced, line by line."""
        if self._pattern is None:
            return text
        return "\n".join(self._line(line, places) for line in text.split("\n"))

    def _line(self, line: str, places: Placeholders) -> str:
        skeleton = Skeleton(line)
        data = skeleton.text.encode()  # encoded once: each search on text would encode the rest of the line again
        pieces, begin, position, last = [], 0, 0, 0
        while self._pattern is not None and (match := self._pattern.search(data, position)):
            first = last + len(data[position : match.start(1)].decode())
            last = first + len(match[1].decode())
            position = match.end(1)
            start, end = skeleton.origin(first), skeleton.origin(last - 1) + 1
            pieces += [line[begin:start], places.put(*self._strings[_letters_only(match[1].decode())])]
            begin = end
        return "".join([*pieces, line[begin:]])


def _strings(account: Account) -> Iterator[tuple[str, str]]:
    """Yield (kind, folded text) of every string that identifies an account."""
    yield "did", fold_text(account.did)[:_LONGEST]
    yield from _handle_strings(account.handle or "")
    for email in account.emails:
        yield from _email_strings(email)
    for name in account.names:
        yield from _name_strings(name)


def _strings_of_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, folded text) for one string of a person; its form decides the kind."""
    text = text.strip()
    if text.startswith("did:"):
        yield "did", fold_text(text)[:_LONGEST]
    elif "@" in text.lstrip("@"):
        yield from _email_strings(text)
    elif "." in text and " " not in text:
        yield from _handle_strings(text)
    else:
        yield from _name_strings(text)


def _handle_strings(handle: str) -> Iterator[tuple[str, str]]:
    text = fold_text(handle).strip("@ ")[:_LONGEST]
    labels = text.split(".")
    if len(labels) > 1 and not CODE_WORDS.issuperset(labels[:-1]):
        yield "handle", text
    yield from _word_string("handle", labels[0])


def _email_strings(email: str) -> Iterator[tuple[str, str]]:
    text = fold_text(email).strip()[:_LONGEST]
    if "@" in text:
        yield "email", text
        for piece in text.partition("@")[0].split("+"):  # 12345+name@users.noreply.…
            yield from _word_string("handle", piece)


def _name_strings(name: str) -> Iterator[tuple[str, str]]:
    words = _NAME_WORD.findall(fold_text(name)[:_LONGEST])[:_MOST_WORDS]
    if len(words) > 1 and not CODE_WORDS.issuperset(words):
        yield "name", " ".join(words)
        yield "name", " ".join([*words[1:], words[0]])
    for word in words:
        yield from _word_string("name", word)


def _word_string(kind: str, word: str) -> Iterator[tuple[str, str]]:
    parts = _WORD.findall(word)
    if parts and not (is_common(word) or CODE_WORDS.issuperset(parts)):
        yield kind, word


def _pattern(kind: str, text: str) -> str:
    words = text.split(" ")
    if kind != "name":
        return re2.escape(text)
    # "Requests Get" must not hide requests.get, nor "An Li" an.li.
    joint = _BLANK if CODE_WORDS.intersection(words) or all(map(is_common, words)) else _JOINT
    return joint.join("['\u2019]?".join(map(re2.escape, re.split("['\u2019]", word))) for word in words)


def _letters_only(text: str) -> str:
    return "".join(_WORD.findall(text))
