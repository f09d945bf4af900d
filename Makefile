# Everything a developer needs; `make help` lists it. Works with Python 3.11+ and make alone: the rest is fetched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
WORKERS ?= 2
PYTHONS ?= python3.12 python3.13

unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH
unexport VIRTUAL_ENV
export UV_NO_PROGRESS = 1

.DEFAULT_GOAL := help
.PHONY: help venv check format test test-matrix nightly fuzz bench demo demo-ui docs lock clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || \
	sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

venv: $(STAMP)  ## .venv with the locked dependencies and this package, editable

# uv is the one on the PATH if it runs, else one fetched through pip into a virtual environment of its own.
$(STAMP): requirements.lock pyproject.toml
	@set -eu; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed; PYTHON=... names another one." >&2; exit 1; }; \
	uv=uv; \
	if ! uv --version >/dev/null 2>&1; then \
		uv=.venv-tools/bin/uv; \
		test -x $$uv || { $(PYTHON) -m venv .venv-tools && .venv-tools/bin/python -m pip install --quiet uv; }; \
	fi; \
	test -x $(BIN)/python || $$uv venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV); \
	$$uv pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes requirements.lock; \
	$$uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; \
	touch $@

check: $(STAMP)  ## lint, format, types, import layers, provider information
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/provider_info.py

format: $(STAMP)  ## rewrite the files as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(STAMP)  ## all tests but the nightly ones; ARGS="-k name" for some of them
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not nightly" $(ARGS)

test-matrix: $(STAMP)  ## the core and engine tests under every other Python 3.12 and 3.13 at hand
	@set -eu; for python in $(PYTHONS); do \
		command -v $$python >/dev/null || { echo "$$python is not here: left out"; continue; }; \
		$(MAKE) --no-print-directory venv VENV=.venv-$$python PYTHON=$$python; \
		.venv-$$python/bin/pytest -n $(WORKERS) -m "not nightly" tests/core tests/engine $(ARGS); \
	done

nightly: $(STAMP)  ## the long suites
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m nightly $(ARGS)

docs: $(STAMP)  ## the documentation as a site in build/docs; a link that leads nowhere fails
	$(BIN)/python tests/docs/reference.py
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --builder html docs build/docs $(ARGS)

bench: $(STAMP)  ## the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

demo: $(STAMP)  ## the flights demo: two databases, a real Airflow run, a verified manifest
	$(BIN)/python -m airflow_delta_provider.demo $(ARGS)

demo-ui: $(STAMP)  ## the same under `airflow standalone`, with the page in the UI
	$(BIN)/python -m airflow_delta_provider.demo --ui $(ARGS)

fuzz: $(STAMP)  ## coverage-guided fuzzing of every parser; ARGS="manifest 600" for one target and its seconds
	@set -eu; uv=uv; uv --version >/dev/null 2>&1 || uv=.venv-tools/bin/uv; \
	test -d .venv-tools/atheris/atheris || \
	$$uv pip install --quiet --no-deps --python $(BIN)/python --target .venv-tools/atheris atheris==3.0.0
	PYTHONPATH=.venv-tools/atheris $(BIN)/python tests/fuzz $(ARGS)

lock:  ## resolve requirements.lock anew
	uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --group dev --generate-hashes \
		--no-header --upgrade --quiet -o requirements.lock

clean:  ## remove what the other targets made
	rm -rf .venv .venv-*  .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
