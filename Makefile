# Tidegate needs Python 3.11 or later and make. `make demo` and `make test` do all the set-up they need, once.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PYTHON ?= python3 python3.13 python3.12 python3.11
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

PYTEST := $(BIN)/pytest -n 2 --dist loadgroup
CORE := "not (spark or services or thorough)"
# In one process, before tests in several would compile the same kernels at once.
KERNELS := $(BIN)/python -c "from tidegate.cli.kernel_compilation import compile_kernels; compile_kernels()"

.PHONY: help demo test static core spark services fast thorough laws long coverage bench jar lock clean
.NOTPARALLEL:
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # pytest keeps the tests as it has rewritten them, numba its kernels

# $(call timed,name,commands): run them, say how long that took, and fail if they fail.
timed = @echo "== $(1)"; began=$$(date +%s); ($(2)); status=$$?; echo "== $@ took $$(($$(date +%s) - began)) s"; exit $$status

help:
	@echo "make demo      an alpine sensor network, a hundred subscriptions, notifications as they happen"
	@echo "make test      what every change must pass: static checks, core, Spark, services (each is a target, too)"
	@echo "make fast      the core in short: no Spark, no servers, few examples"
	@echo "make thorough  everything at length, on every database; make laws and make long are its two parts"
	@echo "make coverage  the tests of make test, and which branches they leave out"
	@echo "make bench     all benches, or one: make bench NAME=boolean-intervals"
	@echo "make jar       compile the one Java file that we have"
	@echo "make lock      choose the newest versions of all dependencies and pin them in requirements.lock"
	@echo "make clean     remove the virtual environment and everything else that was made here"

demo: $(READY)
	@$(BIN)/tidegate demo $(ARGS)

# What every change must pass, part by part; CONTRIBUTING.md has the minutes that each may take.
test: static core spark services

static: $(READY)
	$(call timed,static: style and likely mistakes; types; imports that point one way; and the kernels are compiled,\
	  $(KERNELS) & kernels=$$!; \
	  $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports; checks=$$?; \
	  wait $$kernels && [ $$checks -eq 0 ])

core: $(READY)
	$(call timed,core: neither Spark nor servers,$(PYTEST) --hypothesis-profile=test -m $(CORE) --durations=8)

spark: $(READY)
	$(call timed,Spark,$(PYTEST) --hypothesis-profile=test -m "spark and not (services or thorough)" --durations=8)

services: $(READY)
	$(call timed,services: database servers and Kafka,$(PYTEST) --hypothesis-profile=test -m "services and not thorough")

fast: $(READY)
	@$(KERNELS)
	@$(PYTEST) --hypothesis-profile=fast -m $(CORE)

# Everything at length, in two parts, so that what was interrupted need not begin again: the tests of make test with four
# times the examples, and the tests that make test leaves out.
thorough: static laws long

laws: $(READY)
	$(call timed,laws: the tests of make test with four times the examples,$(PYTEST) \
	  --hypothesis-profile=thorough -m "not thorough" --durations=20)

long: $(READY)
	$(call timed,long: what make test leaves out,TIDEGATE_CHAOS=full $(PYTEST) \
	  --hypothesis-profile=thorough -m thorough --durations=20)

coverage: $(READY)
	$(call timed,the tests of make test with branch coverage,$(PYTEST) --hypothesis-profile=test -m "not thorough" \
	  --cov --cov-report=term-missing:skip-covered --cov-fail-under=90)

bench: $(READY)
	@for name in $${NAME:-$$($(BIN)/python -m bench | cut -d ' ' -f 1)}; do $(BIN)/python -m bench $$name || exit 1; done

# The environment. The stamp says with which project file and which lock it was made; nothing happens while it is newer.
# The lock is whole, so that nothing is resolved again: pip 23 asks for the newest release where one is wanted with an extra.
$(READY): pyproject.toml requirements.lock | $(BIN)/python
	@echo "Installing the pinned dependencies into $(VENV) (once, a minute or two)…"
	@$(PIP) install --no-deps --require-hashes -r requirements.lock
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
