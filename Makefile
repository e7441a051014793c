# A machine needs Python 3.11 or newer (with venv) and make. Everything else is locked and installed into .venv.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Two rules below write to the same .venv.
.NOTPARALLEL:
# Tests start hundreds of processes. Without byte code each of them would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PY := $(BIN)/python
CODE = $(patsubst %/,%,$(sort $(dir $(wildcard streamproc/*.py tests/*.py bench/*.py experiments/*.py)))) $(wildcard deploy/*/*.py)
ARGS ?=
# Number of processes that share the tests; each starts a broker of its own. `WORKERS=0` runs the tests in one process, for a debugger.
WORKERS ?= 2
SEEDS ?= 10000
FIRST_SEED ?= 1
SEED ?= 1
INPUTS ?= 1000000
SHARED = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Each candidate is run and not only looked up, because version managers put names on the path that do not run.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)

# A target with `##` is in `make help`; `make help-all` also lists those with `#:`.
.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  ARGS="..." is passed on, as in: make test ARGS="-k padding".  PYTHON=... chooses the interpreter.'

.PHONY: help-all
help-all: ## list every target
	@awk -F ':.*(##|#:) ' '/^[a-z-]+:.*(##|#:) / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: .venv/runtime ## stream a study of simulated people (installs runtime dependencies only)
	$(BIN)/streamproc demo $(ARGS)

.PHONY: test
test: .venv/installed ## run the quick tests and print branch coverage (installs development tools)
	$(PY) -m pytest $(if $(ARGS),,--cov --cov-branch --cov-report=term) $(SHARED) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: .venv/installed ## run every test, including the slow ones
	$(PY) -m pytest --cov --cov-branch --cov-report=term $(SHARED) $(ARGS)

.PHONY: simulate
simulate: .venv/installed #: run the whole system SEEDS times with seeded faults, starting at FIRST_SEED
	$(PY) -m tests.simulation --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

.PHONY: crashes
crashes: .venv/installed #: crash at every point of a short study, and at every pair of points
	$(PY) -m tests.simulation.crashes $(ARGS)

.PHONY: mutants
mutants: .venv/installed #: inject faults into the stream and count the seeds until the simulation notices
	$(PY) -m tests.simulation.mutants $(ARGS)

.PHONY: chaos
chaos: .venv/installed #: kill, stop and restart real processes and a real broker, then check the topics
	$(PY) -m tests.chaos --seed $(SEED) --report chaos.json $(ARGS)

.PHONY: fuzz
fuzz: .venv/installed #: feed every decoder INPUTS hostile inputs, guided by coverage
	$(PY) -m tests.fuzz --inputs $(INPUTS) $(ARGS)

.PHONY: mutation
mutation: .venv/installed #: inject faults into the code and check that a test notices each one
	$(PY) -m tests.mutation.run $(ARGS)

.PHONY: screenshots
screenshots: .venv/installed #: take the picture of the status page for the README
	$(PY) -m tests.status_page.screenshots $(ARGS)

.PHONY: images
images: #: build every image without an image registry (as root)
	deploy/airgap/with-engine deploy/airgap/make-images

.PHONY: lint
lint: .venv/installed ## check style, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: .venv/installed ## format the code and apply automatic fixes
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
lock: ## resolve pyproject.toml into the lock files (ARGS=--upgrade for the newest versions)
	@test -x $(BIN)/uv || { $(MAKE) --no-print-directory .venv/locked-dev; }
	$(LOCK) --group build $(ARGS) --output-file requirements.lock
	$(LOCK) --group dev --constraints requirements.lock $(ARGS) --output-file requirements-dev.lock

.PHONY: clean
clean: ## remove .venv, caches and build output
	rm -rf .venv .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is built in two steps, so that the demo does not wait for the development tools:
#   .venv/runtime    the packages of requirements.lock and this project
#   .venv/installed  also those of requirements-dev.lock
# pip checks every package against its hash, the build backend included, so the project is built without isolation. The locks are
# complete (`pip check`), hence --no-deps: asked to resolve, pip takes the newest release of a package that is needed with an extra
# (coverage[toml]), whatever the lock says, and then refuses it because it has no hash.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-deps
CHECK := @problems=$$($(PY) -m pip check) || { echo "$$problems" >&2; exit 1; }

.venv/installed: .venv/runtime .venv/locked-dev
	$(CHECK)
	@touch $@

.venv/runtime: .venv/locked pyproject.toml
	@$(INSTALL) --no-build-isolation --editable .
	$(CHECK)
	@touch $@

.venv/locked-dev: .venv/locked requirements-dev.lock
	@echo "Installing the development tools of requirements-dev.lock into .venv; about a minute."
	@$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@touch $@

.venv/locked: requirements.lock
	@python=; for candidate in $(CANDIDATES); do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo 'No Python 3.11 or newer found (tried: $(CANDIDATES)). Install one, or name it: make PYTHON=/path/to/python3' >&2; exit 1; fi; \
	if ! $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then echo "$$python has no venv. Install it (Debian: apt-get install python3-venv)." >&2; exit 1; fi; \
	echo "Installing the packages of requirements.lock into .venv with $$($$python --version)."; \
	$$python -m venv --clear .venv
	@$(INSTALL) --require-hashes --requirement requirements.lock
	@touch $@
