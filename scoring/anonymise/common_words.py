"""Words that are code or plain English; such a name is not replaced everywhere.

Else an account named "subprocess.run" would remove that call from every diff for the reviewer.
"""

import builtins
import keyword
import sys

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
