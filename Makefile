# make demo | test | lint: each sets up what it needs in .venv first; a second run finds it there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0

.PHONY: demo test lint format reference bench clean help

help:            ## what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per set of dependencies; pyproject.toml newer than the stamp means install again.
$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/dev.stamp  ## build a small graph, look at it, query it, serve it
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(VENV)/dev.stamp  ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/dev.stamp  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(VENV)/dev.stamp  ## what the docs read off the code: commands, the README's file tree
	$(BIN)/python docs/reference/make.py

bench: $(VENV)/dev.stamp  ## the README's figures, measured again here
	$(BIN)/kgwalk bench kg

clean:           ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
