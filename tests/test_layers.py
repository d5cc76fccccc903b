"""Imports point one way (DESIGN.md §5): every rule is read from the sources, and the reader itself is tested."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from tests.modules import PACKAGES, Module, dotted, modules
from tests.sources import PROJECT

FROM_INGEST = tuple(
    f"ingest.{name}"
    for name in ("dids", "posting", "preparing", "queue", "runtime", "snapshot", "status", "store", "tasks")
)
MAY_IMPORT = {
    "ingest": {"ingest"},
    "scoring": {"scoring", "ingest"},
    # Its middleware pins the snapshot that every call of scoring.read takes; it reads no row itself. The heartbeat is
    # no row either: it tells how the worker is when nothing can be published. Tasks are what it has the worker do,
    # posting is how the worker reaches the webhook's receiver, dids the syntax of a DID,
    # preparing the thread that reads a new snapshot ahead.
    "triage": {
        "triage",
        "scoring",
        *FROM_INGEST,
    },
    "trustsite": {*PACKAGES},
}
# Who may import a library: a package, or a folder below one.
ONLY_IN = {
    "duckdb": ("ingest",),
    "websockets": ("ingest", "trustsite/standins"),
    "ninja": ("triage",),
    "django_htmx": ("triage",),
}
LEARNING = {
    "anthropic",
    "joblib",
    "lightgbm",
    "sentence_transformers",
    "shap",
    "sklearn",
    "torch",
    "torch_geometric",
    "transformers",
}
PICKLES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
# Modules that are given all they judge: by the folder they lie in.
PURE_IN = {
    "ingest": "dids",
    "scoring": """
        assessment attestations audit briefing calibration catalogue certified claude_answers claude_models
        conditions cost_gate denounces deterministic dominators drift edge_files eigentrust explain
        explain_certificate explain_conditions explain_content explain_ways figures gate graph incremental
        inputs labels lane_offer licences low_threshold named_graph need own_rules paths placing promotion prompt
        queue_order readings rendering repository_settings returns round_difference rules sealing threshold tightened
        transfers trust verdict worth
    """,
    "scoring/content": "touched",
    "scoring/learning": """
        arrivals backtest_words blended boosted budgets card cases certificate certify counterfactual design
        figures lane_statistics lanes low_budgets lowered measures paired queue_orders recompute report rolling
        self_lift simple trees waved weighed widths
    """,
    "scoring/packages": "comparison likeness matching",
    "scoring/redteam": """
        attack bombing farming fitting limits measures ratings report rewiring rivals shapes table words
    """,
    "triage": """
        about_words approval_charts attacked backlog_charts charts contributor_page diff_forms diff_notes diff_places
        diff_words forge_links gauges help_words incident_words lane_charts lane_words learned_charts missing pills
        plots rows settings_form setup_words spoken state syntax trust_words webhook_events webhook_signing
    """,
}
PURE = {f"{folder}/{name}.py" for folder, names in PURE_IN.items() for name in names.split()}
STORE = {"duckdb", "ingest.store", "ingest.transaction", "ingest.snapshot"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "timezone.now"}
TASKS = {"task", "periodic_task", "db_task", "db_periodic_task"}
SPELL_NSID = ("ingest/records.py", "ingest/forge.py", "ingest/lexicons/", "trustsite/standins/", "trustsite/world")
NSID = "sh." + "tangled."


def _is_or_below(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def wrong_directions(module: Module) -> Iterator[str]:
    """Imports between packages point one way."""
    allowed = MAY_IMPORT[module.package]
    for name, _ in module.imports():
        if name.split(".")[0] in (*PACKAGES, "tests") and not _is_or_below(name, allowed):
            yield f"{module.path} imports {name}; {module.package} may import only {', '.join(sorted(allowed))}"


def misplaced_libraries(module: Module) -> Iterator[str]:
    """Some libraries have one home; the learning ones are imported where used, so that web and worker start fast."""
    for name, at_start in module.imports():
        library = name.split(".")[0]
        homes = ONLY_IN.get(library, ("scoring",) if library in LEARNING else None)
        if homes and not any(module.path.startswith(f"{home}/") for home in homes):
            yield f"{module.path} imports {library}, which belongs in {' and '.join(homes)}"
        elif library in LEARNING and at_start:
            yield f"{module.path} imports {library} at its start; import it in the function that uses it"
        if library in PICKLES:
            yield f"{module.path} imports {library}; what is kept is text, never a pickle"


def impure_modules(module: Module) -> Iterator[str]:
    """Pure modules import neither Django nor the store and take the clock as an argument."""
    if module.path not in PURE:
        return
    for name, _ in module.imports():
        if _is_or_below(name, STORE | {"django", "huey"}):
            yield f"{module.path} is pure and imports {name}"
    for node, _ in module.nodes:
        if isinstance(node, ast.Call) and ".".join(dotted(node.func).split(".")[-2:]) in CLOCKS:
            yield f"{module.path}:{node.lineno} is pure and reads the clock; take it as an argument"


def stray_tasks(module: Module) -> Iterator[str]:
    """Huey tasks stand only in a package's tasks.py."""
    if PurePosixPath(module.path).name == "tasks.py":
        return
    for node, _ in module.nodes:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        for decorator in decorators:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if dotted(called).split(".")[-1] in TASKS:
                yield f"{module.path}:{called.lineno} declares a task; tasks stand in tasks.py"


def environment_reads(module: Module) -> Iterator[str]:
    """The environment is read in settings only; what starts things may hand it to its children."""
    if module.package == "trustsite":
        return
    for node, _ in module.nodes:
        if isinstance(node, ast.Attribute) and dotted(node) in {"os.environ", "os.getenv", "environ.get"}:
            yield f"{module.path}:{node.lineno} reads the environment; settings.py does"


RULES: tuple[Callable[[Module], Iterator[str]], ...] = (
    wrong_directions,
    misplaced_libraries,
    impure_modules,
    stray_tasks,
    environment_reads,
)


def violations(project: Path) -> list[str]:
    """One readable sentence for each import or call that breaks a rule."""
    return [sentence for module in modules(project) for rule in RULES for sentence in rule(module)]


def stray_spellings(project: Path) -> list[str]:
    """The forge's record names are spelled in few places, so that a new shape changes few."""
    kinds = {".py", ".sql", ".html", ".js"}
    folders = (*PACKAGES, "templates", "static")
    files = [path for folder in folders for path in sorted((project / folder).rglob("*")) if path.suffix in kinds]
    found = []
    for path in files:
        name = path.relative_to(project).as_posix()
        if not name.startswith(SPELL_NSID) and NSID in path.read_text():
            found.append(f"{name} spells {NSID}; only {', '.join(SPELL_NSID)} do")
    return found


def test_every_import_points_one_way() -> None:
    assert violations(PROJECT) == []


def test_record_names_are_spelled_where_they_belong() -> None:
    assert stray_spellings(PROJECT) == []


def test_every_package_is_read() -> None:
    """A renamed package would otherwise leave nothing to check and a green test."""
    assert {module.package for module in modules(PROJECT)} == set(PACKAGES)


def test_every_module_that_has_to_be_pure_exists() -> None:
    """A renamed one would otherwise be free to read the clock and the store."""
    assert PURE - {module.path for module in modules(PROJECT)} == set()


PLANTED = {
    "ingest/a.py": ("import scoring.trust", "ingest/a.py imports scoring.trust; ingest may import only ingest"),
    "scoring/b.py": (
        "def later():\n    from triage import rows",
        "scoring/b.py imports triage.rows; scoring may import only ingest, scoring",
    ),
    "triage/c.py": (
        "from trustsite import drive",
        f"triage/c.py imports trustsite.drive; triage may import only {', '.join(FROM_INGEST)}, scoring, triage",
    ),
    "triage/m.py": (
        "from ingest import snapshot, derive",
        f"triage/m.py imports ingest.derive; triage may import only {', '.join(FROM_INGEST)}, scoring, triage",
    ),
    "triage/d.py": ("import duckdb", "triage/d.py imports duckdb, which belongs in ingest"),
    "trustsite/e.py": (
        "from websockets.sync import client",
        "trustsite/e.py imports websockets, which belongs in ingest and trustsite/standins",
    ),
    "scoring/f.py": ("import ninja", "scoring/f.py imports ninja, which belongs in triage"),
    "ingest/g.py": ("import anthropic", "ingest/g.py imports anthropic, which belongs in scoring"),
    "scoring/h.py": (
        "import lightgbm",
        "scoring/h.py imports lightgbm at its start; import it in the function that uses it",
    ),
    "scoring/i.py": ("import pickle", "scoring/i.py imports pickle; what is kept is text, never a pickle"),
    "scoring/gate.py": ("from django.conf import settings", "scoring/gate.py is pure and imports django.conf.settings"),
    "scoring/trust.py": ("from ingest import store", "scoring/trust.py is pure and imports ingest.store"),
    "triage/rows.py": (
        "import datetime\nx = datetime.datetime.now()",
        "triage/rows.py:2 is pure and reads the clock; take it as an argument",
    ),
    "ingest/j.py": (
        "@huey.periodic_task(every())\ndef sweep(): ...",
        "ingest/j.py:1 declares a task; tasks stand in tasks.py",
    ),
    "ingest/k.py": ("import os\nx = os.environ['X']", "ingest/k.py:2 reads the environment; settings.py does"),
    "scoring/l.py": (
        "from ..triage import rows",
        "scoring/l.py imports triage.rows; scoring may import only ingest, scoring",
    ),
}
HONEST = {
    "ingest/store.py": "import duckdb\nfrom ingest import clock",
    "ingest/tasks.py": "@huey.task()\ndef sweep(): ...",
    "scoring/claude.py": "if TYPE_CHECKING:\n    from anthropic import Anthropic",
    "scoring/estimators.py": "def fit():\n    import lightgbm\n    from ingest.store import Rows",
    "trustsite/standins/stream.py": "import websockets",
    "triage/views.py": "from scoring.read import queue\nfrom datetime import datetime\nx = datetime.now()",
    "manage.py": "from trustsite import drive",
}


def _plant(project: Path, sources: dict[str, str]) -> None:
    for name, text in sources.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


def test_each_planted_violation_is_found_and_nothing_else(tmp_path: Path) -> None:
    _plant(tmp_path, HONEST)
    assert violations(tmp_path) == []
    _plant(tmp_path, {name: text for name, (text, _) in PLANTED.items()})
    assert sorted(violations(tmp_path)) == sorted(sentence for _, sentence in PLANTED.values())


def test_a_planted_record_name_is_found(tmp_path: Path) -> None:
    _plant(
        tmp_path, {"ingest/records.py": NSID, "scoring/features.sql": f"-- {NSID}repo", "templates/a.html": "tangled"}
    )
    assert [sentence.split(" ")[0] for sentence in stray_spellings(tmp_path)] == ["scoring/features.sql"]
