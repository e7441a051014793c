# One way to do each task. A machine needs Python 3.11 or newer (with venv) and make; everything else is locked.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of processes, each of which would compile all of the code anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PY := $(BIN)/python
CODE = $(patsubst %/,%,$(sort $(dir $(wildcard streamproc/*.py tests/*.py bench/*.py experiments/*.py)))) $(wildcard deploy/*/*.py)
ARGS ?=
# Processes that share the tests; each starts a broker of its own. `WORKERS=0` runs them one after the other, for a debugger.
WORKERS ?= 2
SEEDS ?= 10000
FIRST_SEED ?= 1
SEED ?= 1
INPUTS ?= 1000000
SHARED = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Each is tried, not just looked up: a version manager leaves names on the path that do not run.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is passed on, as in: make test ARGS="-k padding".  PYTHON=... chooses the interpreter.'

.PHONY: run
run: .venv/installed ## stream a study of simulated people, and see what comes out
	$(BIN)/streamproc demo $(ARGS)

.PHONY: test
test: .venv/installed ## run the tests that are quick, and print the branch coverage
	$(PY) -m pytest $(if $(ARGS),,--cov --cov-branch --cov-report=term) $(SHARED) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: .venv/installed ## run every test, slow ones too
	$(PY) -m pytest --cov --cov-branch --cov-report=term $(SHARED) $(ARGS)

.PHONY: simulate
simulate: .venv/installed ## run the whole system SEEDS times with seeded faults, from FIRST_SEED on
	$(PY) -m tests.simulation --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

.PHONY: crashes
crashes: .venv/installed ## crash at every point of a short study, and at every pair of points
	$(PY) -m tests.simulation.crashes $(ARGS)

.PHONY: mutants
mutants: .venv/installed ## break the stream on purpose, and see how many seeds the simulation needs to notice
	$(PY) -m tests.simulation.mutants $(ARGS)

.PHONY: chaos
chaos: .venv/installed ## kill, stop and restart real processes and a real broker, then check the topics
	$(PY) -m tests.chaos --seed $(SEED) --report chaos.json $(ARGS)

.PHONY: fuzz
fuzz: .venv/installed ## feed every decoder INPUTS hostile inputs, guided by coverage
	$(PY) -m tests.fuzz --inputs $(INPUTS) $(ARGS)

.PHONY: mutation
mutation: .venv/installed ## break the code on purpose, and see that a test notices each time
	$(PY) -m tests.mutation.run $(ARGS)

.PHONY: screenshots
screenshots: .venv/installed ## take the picture of the status page for the README
	$(PY) -m tests.status_page.screenshots $(ARGS)

.PHONY: images
images: ## make every image where no image registry is reached (as root)
	deploy/airgap/with-engine deploy/airgap/make-images

.PHONY: lint
lint: .venv/installed ## check style, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: .venv/installed ## put the code into its format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: .venv/installed ## measure speed and memory
	$(PY) -m bench $(ARGS)

.PHONY: experiments
experiments: .venv/installed ## recompute the tables and figures of the documentation
	$(PY) -m experiments $(ARGS)

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" pyproject.toml --all-extras

.PHONY: lock
lock: ## choose dependencies anew from pyproject.toml (ARGS=--upgrade for the newest)
	@test -x $(BIN)/uv || { $(MAKE) --no-print-directory .venv/locked; }
	$(LOCK) --group build $(ARGS) --output-file requirements.lock
	$(LOCK) --group dev --constraints requirements.lock $(ARGS) --output-file requirements-dev.lock

.PHONY: clean
clean: ## remove everything that can be made again
	rm -rf .venv .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything in the lock, the build backend too, is checked against its hash; so the project itself needs no isolated build.
# The lock is complete, which is checked at the end: pip is to choose nothing. Asked to, it takes the newest release of what is
# needed with an extra (coverage[toml]) whatever the lock says, and refuses that for want of a hash.
.venv/installed: .venv/locked pyproject.toml
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@said=$$($(PY) -m pip check) || { echo "$$said" >&2; exit 1; }
	@touch $@

.venv/locked: requirements-dev.lock
	@python=; for candidate in $(CANDIDATES); do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo 'No Python 3.11 or newer found (tried: $(CANDIDATES)): install one, or say which: make PYTHON=/path/to/python3' >&2; exit 1; fi; \
	if ! $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then echo "$$python has no venv: install it (Debian: apt-get install python3-venv)" >&2; exit 1; fi; \
	echo "Installing locked dependencies into .venv with $$($$python --version); about a minute."; \
	$$python -m venv --clear .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements-dev.lock
	@touch $@
