# Everything runs in .venv, made from constraints.txt. The two you need: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test check lint types tests browser-tests coverage bench env clean

help:
	@echo "make demo      install, run examples/demo.toml, say where the report is"
	@echo "make test      install, then make check"
	@echo "make check     ruff, mypy --strict, all tests"
	@echo "make bench     the speed of the engine against a plain-Python reference"
	@echo "make coverage  the tests without real logs, with compilation off and line coverage (minutes)"
	@echo "make clean     remove the environment and what the tools left"

env: $(VENV)/.made

$(VENV)/.made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: env
	$(BIN)/unrack run examples/demo.toml --out out/demo

test: env
	$(MAKE) check

check: lint types tests

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: env
	$(BIN)/mypy

tests: env
	$(BIN)/python -m pytest -n 2

coverage: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt coverage
	NUMBA_DISABLE_JIT=1 UNRACK_DATA=none $(BIN)/python -m coverage run --source=src/unrack -m pytest -p no:xdist
	$(BIN)/python -m coverage report --skip-covered

bench: env
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
