# Every target that needs Python packages makes .venv first. `make` alone lists the targets.

PY := .venv/bin/python
STAMP := .venv/.requirements-installed
DEV_STAMP := .venv/.requirements-dev-installed
DOCS_STAMP := .venv/.requirements-docs-installed
PYTEST_ARGS ?=
DEMO_ARGS ?=
STEPS ?=
EXAMPLES ?=
SOAK_SECONDS ?=
SOAK_SEED ?=
EVALUATE_ARGS ?=
BENCH_ARGS ?=

# Those that are tested first. To choose another: make setup PYTHON=/path/to/python
PYTHON ?=
PYTHONS := $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3 python3.14 python)

.DEFAULT_GOAL := help
.PHONY: help setup develop lock demo test collected test-all test-sqlite test-postgres test-prepared test-newest-django test-model test-frameworks lint format messages types migrations-check wheel-check size fuzz fuzz-sqlite fuzz-postgres schema soak bench bench-all bench-setup evaluate docs screenshots clean FORCE

help:
	@echo "make setup             create .venv and install requirements.lock, for the demo"
	@echo "make develop           also install requirements-dev.lock, for the tests"
	@echo "make lock              write the locks again, after a change of a requirements file"
	@echo "make demo              run the demo (DEMO_ARGS='--help' for its options)"
	@echo "make test              the tests, in a few minutes (PYTEST_ARGS='-k word')"
	@echo "make test-all          all tests, on SQLite, PostgreSQL and the newest Django, with a real model and frameworks"
	@echo "make test-sqlite       all tests on SQLite"
	@echo "make test-postgres     all tests on PostgreSQL"
	@echo "make test-prepared     the tests of make test on PostgreSQL, with prepared statements"
	@echo "make test-model        the tests with a real model behind llama.cpp's server"
	@echo "make test-frameworks   the tests with agent frameworks, in an environment of their own"
	@echo "make lint              check rules and format with ruff"
	@echo "make format            fix rules and format with ruff"
	@echo "make messages          collect texts for translation, and compile the translations"
	@echo "make types             check types with mypy, strict"
	@echo "make migrations-check  fail if a migration is missing"
	@echo "make wheel-check       build the wheel and test it in an empty project"
	@echo "make size              count lines and functions of each room, and figures beside their aims"
	@echo "make fuzz STEPS=1000   run random operations against a reference model"
	@echo "make schema            test the JSON API against its OpenAPI document, on PostgreSQL"
	@echo "make soak              clients, workers and faults at once; then every row is checked (SOAK_SECONDS=60, SOAK_SEED)"
	@echo "make bench             time a turn beside the bare database and other systems, into docs/proofs.md"
	@echo "make bench-all         also long conversations, a table of a million messages, and workers"
	@echo "make evaluate          what summaries keep and whether they mislead, into docs/proofs.md"
	@echo "make docs              build the documentation site into var/docs, strictly"
	@echo "make screenshots       take the pictures of the documentation into docs/ (needs Chromium)"
	@echo "make clean             remove .venv, caches and the local database"

setup: $(STAMP)
	@:

# The stamp does not show whether the interpreter behind .venv still exists.
$(STAMP): requirements.lock $(if $(wildcard $(PY)),,FORCE)
	@found=; seen=; \
	for python in $(PYTHONS); do \
	  version=$$("$$python" -c 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))' 2>/dev/null) \
	    && { found=$$python; break; }; \
	  seen="$$seen $$python$${version:+ ($$version)}"; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "This needs Python 3.11 or newer with its venv module; none of these is:$$seen." >&2; \
	  echo "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	echo "Making .venv with $$found ($$version) and installing requirements.lock; the first time takes a minute."; \
	"$$found" -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

develop: $(DEV_STAMP)
	@:

$(DEV_STAMP): requirements-dev.lock $(STAMP)
	@echo "Installing requirements-dev.lock for the tests; the first time takes a minute."
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@touch $@

FORCE:

# Every version and its hashes, for each Python that is supported. uv reads them from the package index that pip is set up with.
LOCK := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-config --quiet
lock:
	@test -x var/lock/bin/uv || { python3 -m venv var/lock && var/lock/bin/python -m pip install --quiet uv; }
	var/lock/bin/uv pip compile $(LOCK) $(LOCK_ARGS) --output-file requirements.lock requirements.txt
	var/lock/bin/uv pip compile $(LOCK) $(LOCK_ARGS) --output-file requirements-dev.lock requirements-dev.txt
	var/lock/bin/uv pip compile $(LOCK) $(LOCK_ARGS) --no-deps --output-file tests/real_model/requirements.lock \
	  tests/real_model/requirements.txt

# exec: the shell gives way to Python, so Ctrl-C finds only Python there, and its exit code is the recipe's.
demo: setup
	@exec $(PY) manage.py demo $(DEMO_ARGS)

# `make test` runs on PostgreSQL only what depends on the database: statements, locks, JSON and what is erased. `make
# test-all` runs everything there too, the rows of an earlier version included, which `make test` migrates on SQLite.
POSTGRES_TESTS := tests/models tests/tree tests/context/test_shared_extract.py tests/compaction tests/conversation tests/test_tasks.py \
  tests/test_state_machine.py tests/test_other_database.py tests/admin/test_constant_work.py tests/api/test_crowds.py tests/api/test_queries.py \
  $(addprefix --ignore=tests/conversation/test_,$(addsuffix .py,odd_replies endpoint strict_templates content_parts counting \
  complete stream smaller_windows undo)) $(addprefix --ignore=tests/compaction/test_,$(addsuffix .py,prices summarizing \
  code_of_the_hosts policies named_summarizers warm))
# One process more than there are cores, since some tests wait for workers and browsers. Each process runs its tests in
# order and takes over some of another's at the end.
PROCESSES := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN || echo 1) + 1 )))
PYTEST := $(PY) -m pytest -n $(PROCESSES) --dist worksteal

test: develop
	TEST_DATABASE=sqlite $(PYTEST) -m "not long" $(PYTEST_ARGS)
	TEST_DATABASE=postgres $(PYTEST) -m "not long" $(POSTGRES_TESTS) $(PYTEST_ARGS)

collected: develop
	@$(PY) -m pytest --collect-only -q > /dev/null

test-all: test-sqlite test-postgres test-prepared test-newest-django test-model test-frameworks docs

test-sqlite: develop
	TEST_DATABASE=sqlite $(PYTEST) $(PYTEST_ARGS)

test-postgres: develop
	TEST_DATABASE=postgres $(PYTEST) $(PYTEST_ARGS)

# With the options of docs/production.md.
test-prepared: develop
	TEST_POSTGRES_PREPARED=yes TEST_DATABASE=postgres $(PYTEST) -m "not long" $(POSTGRES_TESTS) $(PYTEST_ARGS)

test-newest-django: develop
	.ci/test-newest-django

test-model: develop
	.ci/test-model $(PYTEST_ARGS)

test-frameworks: develop
	.ci/test-frameworks $(PYTEST_ARGS)

lint: develop
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: develop
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# Collects new texts into the catalogs, and compiles them.
messages: develop
	$(PY) -m tests.catalog

types: develop
	$(PY) -m mypy

migrations-check: setup
	$(PY) manage.py makemigrations --check --dry-run

size:
	@python3 .ci/size

wheel-check: setup
	.ci/wheel-check $(PY)

fuzz: develop
	@$(MAKE) --no-print-directory --jobs=2 fuzz-sqlite fuzz-postgres

fuzz-sqlite fuzz-postgres:
	TEST_DATABASE=$(@:fuzz-%=%) FUZZ_STEPS=$(or $(STEPS),5000) FUZZ_SEED=$(SEED) $(PY) -m pytest tests/fuzz.py -q -s \
	  --tb=short -p no:cacheprovider

schema: develop
	TEST_DATABASE=postgres SCHEMA_EXAMPLES=$(or $(EXAMPLES),20000) SCHEMA_SEED=$$(date +%s) $(PY) -m pytest \
	  tests/api/test_schema.py -q -s --show-capture=no -p no:cacheprovider

soak: develop
	$(PY) -m tests.soak $(if $(SOAK_SECONDS),--seconds $(SOAK_SECONDS)) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# What is compared with is installed into environments of its own, under var/peers.
bench: bench-setup
	$(PY) -m benchmarks.speed $(BENCH_ARGS)

bench-all: bench-setup
	$(PY) -m benchmarks.speed $(BENCH_ARGS)
	$(PY) -m benchmarks.speed --more $(BENCH_ARGS)

bench-setup: develop
	@$(PY) -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt

# Without the library that it compares with, one line of the table is missing.
evaluate: setup
	@$(PY) -m pip install --quiet --disable-pip-version-check -r benchmarks/evaluate/requirements.txt || true
	$(PY) -m benchmarks.evaluate $(EVALUATE_ARGS)

# A warning is an error: a link without a target, a name that autodoc does not find, a page outside the navigation.
docs: $(DOCS_STAMP)
	$(PY) -m sphinx -W --keep-going --nitpicky --quiet --fresh-env -d var/docs-read -b html docs var/docs
	@echo "Open var/docs/index.html"

$(DOCS_STAMP): docs/requirements.txt $(STAMP)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@

# Named explicitly, since pytest collects only test_*.py.
screenshots: develop
	BROWSER_TESTS=required TEST_DATABASE=sqlite $(PY) -m pytest tests/browser/screenshots.py $(PYTEST_ARGS)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find var -mindepth 1 ! -name .gitignore -exec rm -rf {} +
