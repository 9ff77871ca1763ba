# Every target makes the environment it needs: Python 3.11 or newer, make and a network the first time.

# The first Python that is new enough; `make PYTHON=/path/to/python …` overrides.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
WITH_JAVA = JAVA_HOME="$$($(BIN)/python -m sase.runtime.java)"
DEMO := examples/shoplifters.sase --catalog examples/retail.toml

# A machine may be told to keep no compiled modules. Hundreds of processes would then compile the libraries, each anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup environment kernels test check sparkless lint types archive pytest golden notebooks demo bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: environment kernels  ## create .venv with the locked dependencies, and a Java if there is none

environment:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" tools/environment.py

kernels: environment
	@test -e .venv/kernels || { $(BIN)/python tools/kernels.py; touch .venv/kernels; }

test: environment  ## everything that must pass: lint, types, tests; about a quarter of an hour
	@$(MAKE) --no-print-directory --jobs lint types kernels archive
	@$(MAKE) --no-print-directory pytest

check: environment  ## lint, types and the tests that need no Spark: an answer in a minute or two
	@$(MAKE) --no-print-directory --jobs lint types sparkless

sparkless: kernels
	@$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not spark"

lint: environment  ## ruff: rules and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: environment  ## mypy, strict
	@$(BIN)/python tools/typecheck.py

archive: environment  ## an archive of Spark's classes, with which the tests start faster
	@test -e .venv/spark.jsa || { echo "[setup] Spark: archiving its classes for the tests"; \
	$(WITH_JAVA) $(BIN)/python -m sase.archive .venv/spark.jsa; }

pytest: kernels archive  ## the tests alone, in three processes: a test waits for Spark more than it computes
	@$(WITH_JAVA) $(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder

golden: setup  ## write the golden files anew; review the diff
	@$(WITH_JAVA) $(BIN)/python -m pytest tests/golden --regenerate-golden

notebooks: setup  ## run the notebooks and save what they show; review the diff
	@$(WITH_JAVA) $(BIN)/python tools/notebooks.py

demo: setup  ## find the shoplifters: query, plan and matches
	@cat examples/shoplifters.sase
	@echo
	@$(BIN)/sase explain $(DEMO)
	@echo
	@$(WITH_JAVA) $(BIN)/sase run $(DEMO) --events examples/data/retail.parquet

bench: setup  ## benchmarks and their report: an hour or two; stop it and start it again as you like
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	@$(WITH_JAVA) $(BIN)/python -m benchmarks

clean:  ## remove the environment and every cache
	@rm -rf .venv .venv.lock build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
