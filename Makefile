# Tidegate needs Python 3.11 or later and make. `make demo` and `make test` do all the set-up they need, once.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PYTHON ?= python3 python3.13 python3.12 python3.11
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test fast thorough bench jar lock clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      an alpine sensor network, a hundred subscriptions, notifications as they happen"
	@echo "make test      every check and every test, with coverage"
	@echo "make fast      the tests that take seconds"
	@echo "make thorough  what takes too long for every change, such as installing the package anew"
	@echo "make bench     all benches, or one: make bench NAME=boolean-intervals"
	@echo "make jar       compile the one Java file that we have"
	@echo "make lock      choose the newest versions of all dependencies and pin them in requirements.lock"
	@echo "make clean     remove the virtual environment and everything else that was made here"

demo: $(READY)
	@$(BIN)/tidegate demo $(ARGS)

test: $(READY)
	@echo "== ruff: style and likely mistakes"
	@$(BIN)/ruff check .
	@echo "== mypy: types"
	@$(BIN)/mypy
	@echo "== import-linter: imports point one way"
	@$(BIN)/lint-imports
	@echo "== pytest: the tests that take seconds, with branch coverage"
	@$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not thorough" --cov --cov-report=term-missing:skip-covered --cov-fail-under=90 --durations=12
	@echo "== pytest: the tests that take minutes"
	@$(BIN)/pytest -n 2 --dist worksteal -m slow --durations=8

fast: $(READY)
	@$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not thorough"

thorough: $(READY)
	@$(BIN)/pytest -m thorough --durations=8

bench: $(READY)
	@for name in $${NAME:-$$($(BIN)/python -m bench | cut -d ' ' -f 1)}; do $(BIN)/python -m bench $$name || exit 1; done

# The environment. The stamp says with which project file and which lock it was made; nothing happens while it is newer.
$(READY): pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing the pinned dependencies into $(VENV) (once, a minute or two)…"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(BIN)/python:
	@found=; bare=; \
	for python in $(PYTHON); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  if $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then found=$$python; break; fi; \
	  bare=$${bare:-$$python}; \
	done; \
	if [ -z "$$found$$bare" ]; then \
	  echo "Tidegate needs Python 3.11 or later, and none of these is: $(PYTHON). Name one: make PYTHON=/path/to/python3 …" >&2; exit 1; \
	elif [ -z "$$found" ]; then \
	  echo "$$bare cannot make a virtual environment (its module ensurepip is missing); on Debian and Ubuntu, apt install python3-venv adds it." >&2; exit 1; \
	fi; \
	echo "Making a virtual environment in $(VENV) with $$($$found --version)…"; \
	$$found -m venv --clear $(VENV)

jar: $(READY)
	@$(BIN)/python -m tests.parts.jar

lock: | $(BIN)/python
	@$(PIP) install uv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate --generate-hashes \
	  --all-extras --group dev --group build --output-file requirements.lock pyproject.toml
	@echo "requirements.lock pins $$(grep -c '==' requirements.lock) packages"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
