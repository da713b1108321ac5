# Every target runs from a fresh clone: it first installs its dependencies into .venv.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
AUDIT := .venv/audit

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(INSTALLED) ## install the dependencies into .venv

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Threadline needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Say which with: make PYTHON=python3.12 …"; exit 1; }
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --allow-existing --python "$(PYTHON)" .venv && \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

.PHONY: demo
demo: setup ## play the whole story against real parts, and leave nothing running
	@$(BIN)/threadline demo

.PHONY: up
up: setup ## start everything and run until Ctrl-C; the next start keeps the data (FRESH=1 starts over)
	@exec $(BIN)/threadline up $(if $(FRESH),--fresh)

.PHONY: check
check: test ## the same as test

# Only values and rules: no server, no process.
PURE := $(wildcard tests/*/test_*_rules.py) tests/docs
PARALLEL := -n $(or $(JOBS),4) --dist loadfile
# Each process of the slow tests runs a whole stack, which keeps a core busy.
PARALLEL_STACKS := -n $(or $(JOBS),2) --dist loadfile

.PHONY: quick
quick: setup ## format, lint, import rules, types and pure tests: at most 90 s
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types pure

.PHONY: lint types pure
lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
types:
	$(BIN)/mypy
pure:
	$(BIN)/pytest -q $(PURE)

.PHONY: test
test: quick ## before each commit: quick, and all tests except the slow ones (some tests: PYTEST=tests/slack)
	$(BIN)/pytest -q -m "not slow" $(PARALLEL) $(or $(PYTEST),$(addprefix --ignore=,$(PURE)))

.PHONY: test-rest
# pytest keeps the order of the folders: the journeys' sandboxes answer only while one of their tests runs.
test-rest: setup ## the slow tests: crashes, chaos, journeys, limits, canary, benchmark smoke
	$(BIN)/pytest -q -m "slow$(if $(PYTEST),, and not alone)" $(PARALLEL_STACKS) --no-loadscope-reorder $(PYTEST)
	$(if $(PYTEST),,$(BIN)/pytest -q -m alone)

.PHONY: coverage
coverage: setup ## measure the branches that `make test` covers, in the tests' own process (some: PYTEST=tests/slack)
	$(BIN)/pytest -q -m "not slow" $(PARALLEL) --cov --cov-report=term:skip-covered $(PYTEST)

.PHONY: test-all
test-all: test test-rest ## all tests that CI runs

.PHONY: histories
histories: setup ## record the workflows of the tests marked `records` again, for tests/replay (some: PYTEST=tests/jobs)
	rm -f $(if $(PYTEST),,tests/replay/histories/*.json)
	$(BIN)/pytest -q -m records --record $(PYTEST)

.PHONY: mutants
mutants: setup ## plant 114 faults in copies of the product, and check that each one's tests fail (some: NAME=inbox)
	@$(BIN)/python -m tests.mutants $(NAME)

.PHONY: fuzz
fuzz: setup ## test the properties with other and more examples than `make test` (some: PYTEST=tests/properties)
	$(BIN)/pytest --hypothesis-profile=explore -m hypothesis $(PYTEST)

.PHONY: limits
limits: setup ## run the floods of tests/limits at full size: 10,000 messages, 1,000 threads
	THREADLINE_LIMITS=full $(BIN)/pytest tests/limits $(PYTEST)

.PHONY: chaos
chaos: setup ## kill, cut off and overload every process, and check that no message is lost: RUNS=200 JOBS=2, or SEED=7 for one
	@$(BIN)/python -m tests.chaos --jobs $(or $(JOBS),1) $(if $(SEED),--seed $(SEED),--runs $(or $(RUNS),10))

.PHONY: scale
scale: setup ## open 10,000 threads, write 20 messages/s in them, restart every worker (FORM=short: 1,000; PAGE=docs/performance.md)
	@$(BIN)/python -m tests.scale --form $(or $(FORM),full) $(if $(JSON),--json $(JSON)) $(if $(PAGE),--page $(PAGE))

.PHONY: bench
bench: setup ## measure each figure and its floor (some: ROWS=gateway,replay; a quick run: SCALE=quick)
	@$(BIN)/python -m bench --rows "$(ROWS)" --scale "$(or $(SCALE),full)" --json "$(or $(JSON),bench.json)" $(if $(PAGE),--page $(PAGE))

.PHONY: cost
cost: setup ## count the activities, transactions and statements of each kind of turn (PAGE=docs/performance.md writes them)
	@$(BIN)/python -m bench.cost $(if $(PAGE),--page $(PAGE))

.PHONY: evals
evals: setup ## measure retrieval, decisions and silence on labelled sets; with OPENAI_API_KEY a gate for the model (FLOOR=0.85)
	@$(BIN)/python -m tests.evals $(if $(FLOOR),--floor $(FLOOR))

.PHONY: format
format: setup ## format the code, and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: setup ## write docs/settings.md, docs/cli.md, .env.example from the code
	@$(BIN)/python -m tests.docs.generate

.PHONY: audit
audit: setup $(AUDIT)/.installed ## check the dependencies for known vulnerabilities (needs the network) and for their licences
	@$(AUDIT)/bin/python deploy/audit.py $(BIN)/python

$(AUDIT)/.installed: requirements-audit.lock
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --allow-existing --python "$(PYTHON)" $(AUDIT) && \
	  uv pip install --quiet --python $(AUDIT)/bin/python --require-hashes -r requirements-audit.lock; \
	else \
	  $(PYTHON) -m venv $(AUDIT) && \
	  $(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.lock; \
	fi
	@touch $@

.PHONY: lock
lock: ## renew requirements.lock and requirements-audit.lock (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 --quiet --upgrade -o requirements.lock
	uv pip compile --group audit --universal --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 --quiet --upgrade -o requirements-audit.lock

.PHONY: clean
clean: ## remove the installed dependencies and the devstack's data
	rm -rf .venv .threadline
