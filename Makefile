# Sunstead: `make` lists the targets. Set-up runs by itself, speaks on stderr, and repeats only when the pins change.
# Everything lives below DATA_ROOT; without it `make demo` and `make test` use .sunstead/ in the clone.

SHELL := /bin/sh
.SILENT:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help setup demo run replay peers test prove lint house behaviour bench screenshots overlay licences pins

# The first interpreter that is a working 3.11: a version manager's shim can be on the PATH and not work.
PYTHON := $(shell for name in python3.11 python3 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo "$$name" && break; done)

# $(call into,base|dev[,--own]) leaves the folder in use in $$root and its interpreter in $$python, or ends the recipe.
define into
test -n "$(PYTHON)" || { echo "Sunstead needs Python 3.11 on the PATH (python3.11, python3 or python)." >&2; exit 2; }; \
root=$$($(PYTHON) -m trustsite.setup $(1) $(2)) || exit 2; python="$$root/venv/bin/python"
endef

# Tests and benchmarks take only the interpreter from DATA_ROOT: their state is made in a temporary folder.
# The order of files is that of tests/conftest.py: pytest-xdist would begin the longest last, those of fewest tests.
PYTEST = unset DJANGO_SETTINGS_MODULE; PEERS_DIR="$$root/peers" "$$python" -m pytest $(if $(ARGS),,-n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0) $(ARGS)

help: ## list the targets
	grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1	/' | expand -t 18

setup: ## make the virtual environment with the packages that serve; `make test` adds those of the tests
	$(call into,base,--own); echo "$$root/venv is ready." >&2

demo: ## a simulated network on http://127.0.0.1:8000 or BIND=host:port; CHECK=1 prints its story and ends
	$(call into,base,--own); export DATA_ROOT="$$root"; exec "$$python" manage.py demo $(if $(CHECK),--check)

run: ## worker and web on the drive at DATA_ROOT, until Ctrl-C
	$(call into,base); exec "$$python" manage.py dev

replay: ## a recorded stream, DIR=folder; one line of JSON on stdout; SERVE=1 then serves the pages
	test -n "$$DIR" || { echo "Name the folder of the recording: make replay DIR=folder." >&2; exit 2; }; \
	$(call into,base); exec "$$python" manage.py replay "$$DIR" $(if $(SERVE),--serve)

# The compiler takes Node's own headers from beside the program: nothing but packages is fetched.
peers: ## a real data server, PLC directory and web-ext for the tests (Node 20 or later and npm)
	$(call into,dev,--own); mkdir -p "$$root/peers" && cp tests/peers/*.json "$$root/peers" && \
	cd "$$root/peers" && prefix=$$(dirname "$$(dirname "$$(readlink -f "$$(command -v node)")")") && \
	{ npm_config_nodedir="$$prefix" npm ci --no-audit --no-fund --loglevel=error --cache="$$root/cache/npm" >&2 || \
	  { echo "npm could not install the test peers: see above." >&2; exit 2; }; }

test: ## every test; ARGS="-k name" for some
	$(call into,dev,--own); $(PYTEST)

prove: ## the same tests with the full counts (an hour or more); figures go to docs/measurements.md
	$(call into,dev,--own); export PROVE=1 PYTEST_ADDOPTS="-o faulthandler_timeout=7200"; $(PYTEST)

lint: ## style, format and types
	$(call into,dev,--own); export RUFF_CACHE_DIR="$$root/cache/ruff"; \
	"$$python" -m ruff check . && "$$python" -m ruff format --check . && \
	"$$python" -m ty check --python "$$root/venv" .

house: ## the size and shape of the code, each figure beside its limit
	$(call into,dev,--own); "$$python" -m tests.house

behaviour: ## what differs between the code and that of BEFORE=commit: pages, demo, API, the replay of DIR=folder
	test -n "$$BEFORE" && test -n "$$DIR" || { echo "Name both: make behaviour BEFORE=commit DIR=folder." >&2; exit 2; }; \
	$(call into,dev,--own); "$$python" -m tests.behaviour "$$BEFORE" "$$DIR"

bench: ## the benchmarks in tests/bench, or one with NAME=name
	$(call into,dev,--own); scratch=$$(mktemp -d "$$root/bench-XXXXXX") && trap 'rm -rf "$$scratch"' EXIT && \
	export DATA_ROOT="$$scratch" DJANGO_SETTINGS_MODULE=trustsite.settings && "$$python" manage.py init_drive >&2 && \
	for file in $(or $(NAME),$(basename $(notdir $(wildcard tests/bench/[a-z]*.py)))); do \
		"$$python" -m "tests.bench.$$file" || exit 1; done

screenshots: ## every page and state in six looks, checked with axe, below LOG_DIR; needs Chromium
	$(call into,dev,--own); SCREENSHOTS="$${LOG_DIR:-$$root/logs}/screenshots" "$$python" -m tests.screenshots

overlay: ## the browser extension as a zip, OUT=file or below DATA_ROOT; the same sources give the same bytes
	$(call into,base,--own); exec "$$python" manage.py overlay "$${OUT:-$$root/sunstead-overlay.zip}"

licences: ## write docs/licences.md anew, after `make pins`
	$(call into,dev,--own); "$$python" -m tests.licences

# torch declares the CUDA packages of its platform itself; pinned here they would bind every machine to one CUDA.
pins: ## write requirements/*.txt anew from pyproject.toml (needs uv)
	set -e; compile() { uv pip compile pyproject.toml --quiet --python-version 3.11 --no-emit-index-url --no-header "$$@"; }; \
	compile -o requirements/base.txt >/dev/null; \
	compile --extra dev -o requirements/dev.txt >/dev/null; \
	{ echo "# On top of base.txt, for training with torch. The CUDA packages (cuda, nvidia, triton) are left to torch's own"; \
	  echo "# metadata: pinned here they would bind every machine, also one without a GPU, to one CUDA release."; \
	  compile --extra gnn -c requirements/base.txt --no-annotate | grep -vE '^(cuda-|nvidia-|triton)'; \
	} > requirements/gnn.txt; \
	{ echo "# On top of base.txt, for jobs on a cluster (docs/scale.md). It and pyspark write the same folder: never both."; \
	  compile --extra cluster -c requirements/base.txt --no-annotate; } > requirements/cluster.txt
