"""Imports point one way: every rule is read from the sources, and the reader itself is tested."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from tests.modules import PACKAGES, Module, dotted, modules
from tests.sources import PROJECT

# Groups inside a package: each imports only what stands left of it, and the modules beside it.
ORDER = {
    "ingest": """
        clock+errors+files+json_decoding http atproto oauth labels push store records git lookups stream backfill
        history_import erasure backup+cluster worker tasks
    """,
    "scoring": """
        types+thresholds+formatting diff config trust dataset models graph certificates gate explain packages scanners
        anonymise review pipeline queries training cluster redteam handlers tasks
    """,
    "triage": """
        apps+models+migrations access middleware+measured services forms presenters+charts+diff_page
        context+http_cache api views tasks+urls+templatetags
    """,
    "trustsite": """
        settings+validation+drive+command_line+logs+hops+urls+wsgi+setup ops worker doctor publishing labels
        world+standins demo management
    """,
}
# Imports against that order, each with its reason.
AGAINST_THE_ORDER = {
    "ingest/git/mirror.py": "ingest.lookups.forge",  # where a repository is cloned from is the forge's knowledge
    "ingest/store/contributors.py": "ingest.records.registry",  # the type of the registry that the store is opened with
    "ingest/store/database.py": "ingest.records.registry",  # the registry that a store is opened with by default
    "scoring/queries/progress.py": "scoring.training",  # its limits are those of training
    "trustsite/demo/recorded.py": "trustsite.management.commands.web",  # serves the pages as `manage.py web` does
    "triage/models/outbox.py": "triage.tasks",  # wakes the worker once the message is committed
    "triage/services/own_name/own_records.py": "triage.tasks",  # the same
    "triage/services/publishing/records.py": "triage.tasks",  # the same
}
# Imports of our own modules inside a function, each with its reason.
LATE_IMPORTS = {
    "scoring/graph/estimator.py": "scoring.graph.net",  # needs PyTorch, which whatever serves does without
    "triage/models/outbox.py": "triage.tasks",  # tasks import the models; a committed message wakes the worker
    "triage/services/own_name/own_records.py": "triage.tasks",  # the same: a committed record wakes the worker
    "triage/services/publishing/records.py": "triage.tasks",  # the same
    "trustsite/management/commands/web.py": "trustsite.wsgi",  # importing it opens the log of the web process
}
MAY_IMPORT = {
    "ingest": {"ingest"},
    "scoring": {"scoring", "ingest"},
    # Its middleware pins the snapshot that every query takes; it reads no row itself. The heartbeat is not one either:
    # it tells how the worker is when nothing can be published. Tasks are what it has the worker do; by the fetcher the
    # worker reaches the receiver of webhooks.
    "triage": {
        "triage",
        "scoring",
        "ingest.atproto",  # who wants to know whether a published record is true waits for the answer
        "ingest.clock",
        "ingest.errors",
        "ingest.files",
        "ingest.http.fetcher",
        "ingest.http.sockets.end_within",
        "ingest.json_decoding",
        "ingest.labels",
        "ingest.lookups.forge",  # a maintainer's click merges at once
        "ingest.lookups.records",
        "ingest.oauth",
        "ingest.push",
        "ingest.records.assessment",
        "ingest.records.fields",
        "ingest.store",
        "ingest.tasks",
        "ingest.worker",
    },
    "trustsite": {*PACKAGES},
}
# Who may import a library: a package, or a folder below one.
ONLY_IN = {
    "duckdb": ("ingest",),
    "websockets": ("ingest", "trustsite/standins"),
    "joserfc": ("ingest/oauth", "ingest/push", "ingest/lookups/declared"),
    "ninja": ("triage",),
    "django_htmx": ("triage",),
    "pyspark": ("ingest/cluster", "scoring/cluster"),
}
LEARNING = {
    "anthropic",
    "joblib",
    "lightgbm",
    "safetensors",
    "sentence_transformers",
    "shap",
    "sklearn",
    "torch",
    "torch_geometric",
    "transformers",
}
LEARNS_AT_ITS_START = {"scoring/graph/net.py"}  # its classes are PyTorch's; only a fit imports it
PICKLES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
# Modules that are given all they judge: by the folder they lie in; "*" is every module of the folder.
PURE_IN = {
    "ingest/atproto": "*",
    "ingest/labels": "signing",
    "ingest/oauth": "client records scopes",
    "ingest/push": "message",
    "scoring": "formatting thresholds types",
    "scoring/anonymise": "*",
    "scoring/certificates": "certificate in_force issue lane_counts sample_size threshold threshold_queries",
    "scoring/cluster": "cut",
    "scoring/dataset": "cases catalogue labels track_record",
    "scoring/diff": "budget change compare file_part globs mailbox mails parser paths",
    "scoring/explain": "*",
    "scoring/gate": "*",
    "scoring/graph": "checkpoint estimator inputs neighbours net states",
    "scoring/models": "base calibration contributions estimators registry storage",
    "scoring/packages": "compare entry fragments manifests npm python typosquats",
    "scoring/queries": "audited queue_order types",
    "scoring/redteam": "attack attacks",
    "scoring/review": "costs deterministic payload prose_mask reviewer schema",
    "scoring/scanners": """
        _assignments _escaped_markup _finding_helpers _guards _holes _normalise _notebooks _prose
        _python_folding _python_names _renames _rules _statements _text _tree_matches _unconditional
        _unread_languages _widened_lists bandit_checks
        build_paths dangerous flipped hidden_text invisible licences misleading_title near_duplicates
        prompt_injection run sarif slop submission typosquats untested weakened whole_files
    """,
    "scoring/scanners/secrets": "*",
    "scoring/training": "backtest metrics promotion replays report rolling_origin train",
    "scoring/trust": "denounces files first_passage graph incremental paths what_if",
    "triage/charts": "*",
    "triage/diff_page": "facts highlight",
    "triage/forms": "*",
    "triage/presenters": "about contributor lane peers rights setup text",
    "triage/presenters/queue": "freshness pills review rows",
}
PURE = {f"{folder}/{name}.py" for folder, names in PURE_IN.items() for name in names.split()}
STORE = {"duckdb", "ingest.store.database", "ingest.store.transaction", "ingest.store.snapshots"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "timezone.now"}
TASKS = {"task", "periodic_task", "db_task", "db_periodic_task"}
SPELL_NSID = (
    "ingest/atproto/syntax.py",
    "ingest/records/registry.py",
    "ingest/lookups/forge.py",
    "ingest/records/lexicons/",
    "trustsite/standins/",
    "trustsite/world",
)
NSID = "sh." + "tangled."


def _is_or_below(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def wrong_directions(module: Module) -> Iterator[str]:
    """Imports between packages point one way."""
    allowed = MAY_IMPORT[module.package]
    for name, _ in module.imports():
        if name.split(".")[0] in (*PACKAGES, "tests") and not _is_or_below(name, allowed):
            yield f"{module.path} imports {name}; {module.package} may import only {', '.join(sorted(allowed))}"


def _ranks(package: str) -> dict[str, int]:
    """The place of each group of a package in its order."""
    return {name: place for place, group in enumerate(ORDER[package].split()) for name in group.split("+")}


def upward_imports(module: Module) -> Iterator[str]:
    """Groups inside a package import only what stands left of them in its order."""
    ranks, own = _ranks(module.package), PurePosixPath(module.path).with_suffix("").parts
    if len(own) < 2 or own[0] != module.package or own[1] == "__init__":
        return
    if own[1] not in ranks:
        yield f"{module.path} stands in no group of the order of {module.package}"
        return
    for name, _ in module.imports():
        package, *rest = name.split(".")
        if package != module.package or not rest or rest[0] not in ranks or ranks[rest[0]] <= ranks[own[1]]:
            continue
        excused = AGAINST_THE_ORDER.get(module.path)
        if excused is None or not _is_or_below(name, {excused}):
            yield f"{module.path} imports {name}, which stands above {own[1]} in the order of {module.package}"


def late_imports(module: Module) -> Iterator[str]:
    """Own modules are imported at the start of a file, so that its head tells all that it needs."""
    excused = LATE_IMPORTS.get(module.path)
    for function in (node for node, _ in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        for node in ast.walk(function):
            name = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if name.split(".")[0] in PACKAGES and name != excused and module.path != "manage.py":
                yield f"{module.path} imports {name} inside a function; import it at the start"


def misplaced_libraries(module: Module) -> Iterator[str]:
    """Some libraries have one home; the learning ones are imported where used, so that web and worker start fast."""
    for name, at_start in module.imports():
        library = name.split(".")[0]
        homes = ONLY_IN.get(library, ("scoring",) if library in LEARNING else None)
        if homes and not any(module.path.startswith(f"{home}/") for home in homes):
            yield f"{module.path} imports {library}, which belongs in {' and '.join(homes)}"
        elif library in LEARNING and at_start and module.path not in LEARNS_AT_ITS_START:
            yield f"{module.path} imports {library} at its start; import it in the function that uses it"
        if library in PICKLES:
            yield f"{module.path} imports {library}; what is kept is text, never a pickle"


def impure_modules(module: Module) -> Iterator[str]:
    """Pure modules import neither Django nor the store and take the clock as an argument."""
    if module.path not in PURE and f"{PurePosixPath(module.path).parent}/*.py" not in PURE:
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
    upward_imports,
    late_imports,
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
    paths = {module.path for module in modules(PROJECT)}
    folders = {f"{PurePosixPath(path).parent}/*.py" for path in paths}
    assert PURE - paths - folders == set()


def test_every_excuse_is_still_needed() -> None:
    """An import that went away must not leave a door open."""
    used = {
        module.path
        for module in modules(PROJECT)
        if module.path in AGAINST_THE_ORDER  # reading the imports of all takes 2 s
        for name, _ in module.imports()
        if _is_or_below(name, {AGAINST_THE_ORDER[module.path]})
    }
    assert used == set(AGAINST_THE_ORDER)


TRIAGE_MAY = ", ".join(sorted(MAY_IMPORT["triage"]))
PLANTED = {
    "ingest/http/a.py": (
        "import scoring.trust",
        "ingest/http/a.py imports scoring.trust; ingest may import only ingest",
    ),
    "scoring/gate/b.py": (
        "from triage import rows",
        "scoring/gate/b.py imports triage.rows; scoring may import only ingest, scoring",
    ),
    "triage/views/c.py": (
        "from trustsite import drive",
        f"triage/views/c.py imports trustsite.drive; triage may import only {TRIAGE_MAY}",
    ),
    "triage/middleware.py": (
        "from ingest.store import snapshots\nfrom ingest.records import derive",
        f"triage/middleware.py imports ingest.records.derive; triage may import only {TRIAGE_MAY}",
    ),
    "triage/views/d.py": ("import duckdb", "triage/views/d.py imports duckdb, which belongs in ingest"),
    "trustsite/ops/e.py": (
        "from websockets.sync import client",
        "trustsite/ops/e.py imports websockets, which belongs in ingest and trustsite/standins",
    ),
    "scoring/config/f.py": ("import ninja", "scoring/config/f.py imports ninja, which belongs in triage"),
    "ingest/git/g.py": ("import anthropic", "ingest/git/g.py imports anthropic, which belongs in scoring"),
    "scoring/training/h.py": (
        "import lightgbm",
        "scoring/training/h.py imports lightgbm at its start; import it in the function that uses it",
    ),
    "scoring/handlers/i.py": (
        "import pickle",
        "scoring/handlers/i.py imports pickle; what is kept is text, never a pickle",
    ),
    "scoring/gate/decide.py": (
        "from django.conf import settings",
        "scoring/gate/decide.py is pure and imports django.conf.settings",
    ),
    "scoring/trust/graph.py": (
        "from ingest.store import database",
        "scoring/trust/graph.py is pure and imports ingest.store.database",
    ),
    "triage/presenters/queue/rows.py": (
        "import datetime\nx = datetime.datetime.now()",
        "triage/presenters/queue/rows.py:2 is pure and reads the clock; take it as an argument",
    ),
    "ingest/stream/j.py": (
        "@huey.periodic_task(every())\ndef sweep(): ...",
        "ingest/stream/j.py:1 declares a task; tasks stand in tasks.py",
    ),
    "ingest/stream/k.py": (
        "import os\nx = os.environ['X']",
        "ingest/stream/k.py:2 reads the environment; settings.py does",
    ),
    "scoring/pipeline/l.py": (
        "from ...triage import rows",
        "scoring/pipeline/l.py imports triage.rows; scoring may import only ingest, scoring",
    ),
    "scoring/trust/m.py": (
        "from scoring.gate import decide",
        "scoring/trust/m.py imports scoring.gate.decide, which stands above trust in the order of scoring",
    ),
    "scoring/gate/o.py": (
        "def later():\n    from scoring.trust import graph",
        "scoring/gate/o.py imports scoring.trust inside a function; import it at the start",
    ),
    "scoring/rooms/n.py": ("", "scoring/rooms/n.py stands in no group of the order of scoring"),
}
HONEST = {
    "ingest/store/database.py": "import duckdb\nfrom ingest import clock",
    "ingest/tasks.py": "@huey.task()\ndef sweep(): ...",
    "scoring/review/anthropic_client.py": "if TYPE_CHECKING:\n    from anthropic import Anthropic",
    "scoring/models/registry.py": "from scoring.types import Estimate\n\ndef fit():\n    import lightgbm",
    "trustsite/standins/stream.py": "import websockets",
    "triage/views/inbox/queue.py": (
        "from scoring.queries.read import queue\nfrom datetime import datetime\nx = datetime.now()"
    ),
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
        tmp_path,
        {
            "ingest/records/registry.py": NSID,
            "scoring/dataset/features.sql": f"-- {NSID}repo",
            "templates/a.html": "tangled",
        },
    )
    assert [sentence.split(" ")[0] for sentence in stray_spellings(tmp_path)] == ["scoring/dataset/features.sql"]
