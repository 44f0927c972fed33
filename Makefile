# Everything happens in .venv, which the first target makes: nothing needs to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two marks: the program is installed; so is what tests and checks need.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST_FLAGS ?=
# For instance CRASH_FLAGS="--minutes 60"
CRASH_FLAGS ?=
# For instance EVAL_FLAGS=--short
EVAL_FLAGS ?=

.PHONY: demo test check format bench crash mutants eval clean

demo: $(INSTALLED)
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

eval: $(READY)
	$(BIN)/python -m evals $(EVAL_FLAGS)

mutants: $(READY)
	$(BIN)/python -m tests.mutants

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "holdfast needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --editable .
	@touch $(INSTALLED)

# Only newer versions of pip know groups.
$(READY): $(INSTALLED)
	$(PIP) "pip>=25.1"
	$(PIP) --group dev
	@touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
