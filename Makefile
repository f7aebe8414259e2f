# Every target does its own set-up: a virtual environment in .venv from the pinned hashes in locks/.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$p; break; }; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV := $(shell command -v uv 2>/dev/null)
ARGS ?=
# One more than processors: tests wait for child processes a fifth of their time. Unit tests wait for nothing.
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)
test-fast: WORKERS = $(CORES)
# In memory, if it has 4 GB: ext4 looks at each file that was just deleted before it makes one, for a tenth of the CPU time.
MEMORY := $(shell test "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 2>/dev/null && echo /dev/shm)
test-fast test test-slow: export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)
# A test run starts hundreds of processes: without kept bytecode, each that loads TensorFlow compiles it again, for 7 s.
unexport PYTHONDONTWRITEBYTECODE
# A module stays with one worker, so its fixtures are made once; tests/conftest.py puts the expensive modules first.
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# $(call install,FILE,OPTION OF PIP): the pinned hashes, by uv if it is installed and finds all files, else by pip. uv runs in /, because
# it would refuse the constraint in pyproject.toml, which is for making the locks. The hashes say what may come from where.
install = $(if $(UV),( cd / && $(UV) pip install -q --index-strategy unsafe-best-match --python "$(CURDIR)/$(BIN)/python" \
	--no-deps --require-hashes -r "$(CURDIR)/$(1)" ) || { echo "uv could not install $(1); trying pip" >&2; false; } ||) \
	$(PIP) install -qq $(2) --no-deps --require-hashes -r $(1)

.PHONY: help demo search .data test-fast test test-slow swift lint format bench docs clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.runtime ## Show an answer on drawn images, without yours: three to five minutes with the set-up
	@$(BIN)/advisor search --demo $(ARGS)

search: .data $(VENV)/.runtime ## Find the model to ship: make search ARGS="--budget 50ms --data photos"
	@$(BIN)/advisor search $(if $(findstring --budget,$(ARGS))$(findstring --resume,$(ARGS))$(findstring --request,$(ARGS)),,--budget 50ms) $(ARGS)

.data: # a wrong folder is said at once, and not after the set-up; a command of the shell parses quotes
	@set -- $(ARGS); while [ $$# -gt 0 ]; do case "$$1" in --data) data=$${2-};; --data=*) data=$${1#--data=};; esac; shift; done; \
		case "$${data-}" in "" | s3://* | gs://*) ;; *) test -e "$${data}" ;; esac || { echo "error: --data: '$$data' does not exist" >&2; \
		echo "hint:  name a folder with one sub-folder for each class, or a manifest" >&2; exit 2; }

test-fast: $(VENV)/.dev ## Run the unit tests (under a minute)
	@EXAMPLES=$${EXAMPLES:-10} $(PYTEST) -m unit $(ARGS)

test: $(VENV)/.dev ## Run the unit and integration tests (minutes)
	@$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(VENV)/.dev ## Run every test, the slow ones too (three quarters of an hour)
	@EXAMPLES=$${EXAMPLES:-200} $(PYTEST) $(ARGS)

swift: ## Install Swift for the tests of code for iOS (2.6 GB, as root), and say what to export: ROOT=FOLDER
	@tools/swift.sh "$(or $(ROOT),$(HOME)/.cache/advisor-tests/swift)"

lint: $(VENV)/.dev ## Check style, types, the direction of imports and generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -n auto
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tools.checks
	@$(BIN)/python -m tools.audit

format: $(VENV)/.dev ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## Measure the figures of benchmarks/README.md and keep them under benchmarks/results/
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.dev ## Build the site of docs/ into build/site, without a warning
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)
	@echo "build/site/index.html"

clean: ## Remove the virtual environment, the site and the tools' caches
	rm -rf $(VENV) build/site build/schemas .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11, 3.12 or 3.13 with the venv module is needed and was not found" >&2; \
		echo "hint:  install it, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	@echo "setting up $(VENV) with $(PYTHON)$(if $(UV), and uv) (one to two minutes; three on a busy machine)"
	@$(PYTHON) -m venv $(VENV)
	@# The pip that comes with Python takes twice as long for all that follows as the one of the lock.
	@$(if $(UV),,sed -n '/^pip==/,/[^\\]$$/p' locks/dev.txt >$(VENV)/pip.txt && $(PIP) install -qq --no-deps --require-hashes -r $(VENV)/pip.txt)

$(VENV)/.runtime: locks/runtime.txt pyproject.toml | $(BIN)/python
	@test -f $(VENV)/.dev || $(call install,locks/runtime.txt)
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: locks/dev.txt pyproject.toml | $(BIN)/python
	@echo "installing what locks/dev.txt names"
	@$(call install,locks/dev.txt,--no-compile)
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime
