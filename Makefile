# Two commands matter: `make run` and `make test`. Both need only Python 3.11 or later and make.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Many tests wait: use three times as many runners as cores.
RUNNERS ?= $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 2))')

# Without compiled files every runner would compile and rewrite all tests anew: a quarter of a minute for each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-all check style screenshots bench bench-peers faults abuse fuzz mcp-conformance lock clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

run: $(VENV)/.run ## Install the dependencies and serve the bundled analyses on http://127.0.0.1:8080
	@$(BIN)/langlauf serve

test: style $(VENV)/.compiled ## Check style and imports, then run types and tests: at most five minutes on two cores
	@$(BIN)/python -m tests.support.chromium
	@echo "== tests"   && $(BIN)/pytest -n $(RUNNERS) --dist worksteal

test-all: export LANGLAUF_TEST_ALL := 1
test-all: test ## The same with all long tests and a new seed; fails if the machine lacks a program

check: style ## Check style, imports and types, without the tests
	@echo "== types"   && $(BIN)/mypy

style: $(VENV)/.test
	@echo "== style"   && $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@echo "== imports" && $(BIN)/lint-imports --no-cache

# Two processes compile the tests for all runners, which would each do it for themselves: ten seconds of a core for each.
$(VENV)/.compiled: $(VENV)/.test $(shell find tests -name '*.py')
	@ls -d tests/*/ | xargs -P 2 -n 14 $(BIN)/pytest --collect-only -qq > /dev/null || true
	@touch $@

screenshots: $(VENV)/.test ## Take pictures of every page and state into runtime/screenshots
	@$(BIN)/python -m tests.support.chromium
	@$(BIN)/python -m tests.browser.screenshots runtime/screenshots

bench: $(VENV)/.run ## Measure this disk: jobs through the store and over HTTP (langlauf bench --store for PostgreSQL)
	@$(BIN)/langlauf bench

SECTIONS ?= all
ROUNDS   ?= 3
# Others, such as JOBS=500 SECONDS=2 SIZES=1000,100000, are flags of the same name.
BENCH_FLAGS = $(if $(JOBS),--jobs $(JOBS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SIZES),--sizes $(SIZES)) $(if $(JSON),--json $(JSON))
bench-peers: $(VENV)/.test ## Measure Langlauf beside its peers and write docs/benchmarks.md (SECTIONS=http,polls ROUNDS=1; hours for all)
	@$(BIN)/python -m bench --sections $(SECTIONS) --rounds $(ROUNDS) $(BENCH_FLAGS)

faults: $(VENV)/.test ## Kill, pause, race and cut off real processes, and report which guarantees held (a quarter of an hour; needs root)
	@$(BIN)/python -m tests.faults

abuse: $(VENV)/.test ## Slow, greedy and many clients against a real server, and their effect on an ordinary one (seven minutes)
	@$(BIN)/python -m tests.abuse

fuzz: $(VENV)/.test ## Call every operation with valid and invalid input, 10,000 times
	@$(BIN)/python -m tests.fuzz

mcp-conformance: $(VENV)/.test ## Run the conformance suite of the Model Context Protocol against /mcp (needs Node.js and npm; a minute)
	@$(BIN)/python -m tests.mcp.conformance

lock: $(VENV)/.test ## Select the newest versions and write both lock files
	@$(PIP) install uv
	@$(BIN)/uv pip compile pyproject.toml --extra all --group build $(LOCK_FLAGS) -o requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --extra all --group dev -c requirements.lock $(LOCK_FLAGS) -o requirements-dev.lock

LOCK_FLAGS := --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Langlauf needs Python 3.11 or later, this is %d.%d; run make PYTHON=python3.11 run" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "== creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "== installing the packages of requirements.lock"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.test: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "== installing the packages of requirements-dev.lock"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@
