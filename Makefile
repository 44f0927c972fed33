# Everything happens in .venv, which the first target makes: nothing needs to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST_FLAGS ?=
# For instance CRASH_FLAGS="--minutes 60"
CRASH_FLAGS ?=

.PHONY: demo test check format bench crash mutants clean

demo: $(READY)
	$(BIN)/holdfast demo

test: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal $(PYTEST_FLAGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crash: $(READY)
	$(BIN)/python -m tests.crash $(CRASH_FLAGS)

mutants: $(READY)
	$(BIN)/python -m tests.mutants

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "holdfast needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev --editable .
	@touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
