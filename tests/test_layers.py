"""Imports point one way (DESIGN.md §5): every rule is read from the sources, and the reader itself is tested."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.sources import PROJECT

PACKAGES = ("ingest", "scoring", "triage", "trustsite")
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
PURE = {
    *(
        f"scoring/{name}.py"
        for name in ("verdict", "graph", "transfers", "returns", "trust", "denounces", "incremental", "inputs")
    ),
    *(
        f"scoring/{name}.py"
        for name in (
            "eigentrust",
            "paths",
            "labels",
            "calibration",
            "threshold",
            "gate",
            "explain",
            "explain_content",
            "figures",
        )
    ),
    *(f"triage/{name}.py" for name in ("rows", "charts", "state", "gauges", "trust_words")),
    *(
        f"scoring/{name}.py"
        for name in ("explain_content", "figures", "dominators", "worth", "edge_files", "named_graph")
    ),
}
REVIEW = ("assessment", "deterministic", "cost_gate", "placing", "rendering", "prompt", "readings")
PURE |= {f"scoring/{name}.py" for name in (*REVIEW, "claude_models", "claude_answers")}
PURE |= {f"scoring/{name}.py" for name in ("rules", "conditions", "explain_conditions", "audit", "content/touched")}
PURE |= {
    "scoring/briefing.py",
    "scoring/catalogue.py",
    "scoring/explain_ways.py",
    "triage/pills.py",
    "triage/spoken.py",
    "triage/toggling.py",
}
PURE |= {"scoring/sealing.py", "scoring/tightened.py", "triage/incident_words.py"}
RED_TEAM = ("attack", "shapes", "rewiring", "rivals", "measures", "table", "ratings")
RED_TEAM += ("bombing", "farming", "fitting", "report", "words")
PURE |= {"triage/attacked.py", *(f"scoring/redteam/{name}.py" for name in RED_TEAM)}
PURE |= {f"scoring/{name}.py" for name in ("repository_settings", "own_rules", "attestations")}
PURE |= {"triage/settings_form.py", "ingest/dids.py"}
PURE |= {f"triage/{name}.py" for name in ("about_words", "help_words", "setup_words")}
PURE |= {f"scoring/learning/{name}.py" for name in ("cases", "arrivals")}
PURE |= {"scoring/licences.py", *(f"scoring/packages/{name}.py" for name in ("likeness", "matching", "comparison"))}
PURE |= {f"scoring/{name}.py" for name in ("need", "drift", "certified", "explain_certificate", "low_threshold")}
PURE |= {
    f"scoring/learning/{name}.py"
    for name in ("cases", "lanes", "certificate", "certify", "recompute", "lane_statistics")
}
LEARNED = (
    "boosted",
    "budgets",
    "card",
    "counterfactual",
    "weighed",
    "widths",
    "backtest_words",
    "low_budgets",
    "design",
    "figures",
    "lowered",
    "measures",
    "report",
    "rolling",
)
PURE |= {
    f"scoring/learning/{name}.py" for name in (*LEARNED, "self_lift", "simple", "trees", "waved", "blended", "paired")
} | {"scoring/promotion.py"}
PURE |= {f"triage/{name}.py" for name in ("plots", "approval_charts", "learned_charts", "vouch_drawing", "missing")}
PURE |= {"scoring/redteam/limits.py"}
PURE |= {
    f"triage/{name}.py" for name in ("diff_words", "diff_places", "diff_notes", "diff_forms", "forge_links", "syntax")
}
PURE |= {"scoring/round_difference.py"}
PURE |= {"triage/webhook_events.py", "triage/webhook_signing.py"}
STORE = {"duckdb", "ingest.store", "ingest.transaction", "ingest.snapshot"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "timezone.now"}
TASKS = {"task", "periodic_task", "db_task", "db_periodic_task"}
SPELL_NSID = ("ingest/records.py", "ingest/forge.py", "ingest/lexicons/", "trustsite/standins/", "trustsite/world")
NSID = "sh." + "tangled."


@dataclass(frozen=True)
class Module:
    """One source file of the project."""

    path: str  # relative, with slashes
    text: str

    @cached_property
    def nodes(self) -> list[tuple[ast.AST, bool]]:
        """Every node, and whether it runs when the module is imported."""
        return list(_walk(ast.parse(self.text)))

    @property
    def package(self) -> str:
        """The package, or "trustsite" for manage.py: both start things."""
        first = PurePosixPath(self.path).parts[0]
        return first if first in PACKAGES else "trustsite"

    def imports(self) -> Iterator[tuple[str, bool]]:
        """Every imported dotted name (`from a import b` is a.b), and whether it runs when the module is imported."""
        for node, at_start in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, at_start) for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from ((f"{base}.{alias.name}", at_start) for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        folder = PurePosixPath(self.path).parts[: -node.level]
        return ".".join([*folder, *([node.module] if node.module else [])])


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    left: list[tuple[ast.AST, bool]] = [(tree, True)]
    while left:
        node, at_start = left.pop()
        yield node, at_start
        runs_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_for_types(node)
        left += ((child, at_start and not runs_later) for child in ast.iter_child_nodes(node))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _dotted(node.test) == "TYPE_CHECKING"


def _is_or_below(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


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
        if isinstance(node, ast.Call) and ".".join(_dotted(node.func).split(".")[-2:]) in CLOCKS:
            yield f"{module.path}:{node.lineno} is pure and reads the clock; take it as an argument"


def stray_tasks(module: Module) -> Iterator[str]:
    """Huey tasks stand only in a package's tasks.py."""
    if PurePosixPath(module.path).name == "tasks.py":
        return
    for node, _ in module.nodes:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        for decorator in decorators:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if _dotted(called).split(".")[-1] in TASKS:
                yield f"{module.path}:{called.lineno} declares a task; tasks stand in tasks.py"


def environment_reads(module: Module) -> Iterator[str]:
    """The environment is read in settings only; what starts things may hand it to its children."""
    if module.package == "trustsite":
        return
    for node, _ in module.nodes:
        if isinstance(node, ast.Attribute) and _dotted(node) in {"os.environ", "os.getenv", "environ.get"}:
            yield f"{module.path}:{node.lineno} reads the environment; settings.py does"


RULES: tuple[Callable[[Module], Iterator[str]], ...] = (
    wrong_directions,
    misplaced_libraries,
    impure_modules,
    stray_tasks,
    environment_reads,
)


def modules(project: Path) -> Iterator[Module]:
    """Every Python file of the packages, and manage.py."""
    files = [path for package in PACKAGES for path in sorted((project / package).rglob("*.py"))]
    for path in [*files, *project.glob("manage.py")]:
        yield Module(path.relative_to(project).as_posix(), path.read_text())


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
