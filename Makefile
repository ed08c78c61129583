# Everything a person or a build machine runs; `make` alone lists it.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-fast fuzz test-vllm test-vllm-smoke test-unleash bench lint wheel packages clean

PYTHON ?= python3
VENV ?= .venv
VLLM ?= 0.32.0
CASES ?= 1000000
export VLLM_TEST_ENV ?= $(HOME)/.cache/specgauge/vllm-$(VLLM)
export UNLEASH_TEST_ENV ?= $(HOME)/.cache/specgauge/unleash

BIN := $(VENV)/bin
PURE := */specgauge/model/*,*/specgauge/engines/*,*/specgauge/derive/*,*/specgauge/baseline/*,*/specgauge/guard/*,*/specgauge/render/*,*/specgauge/routing/*,*/specgauge/report/*,*/specgauge/serve/classes/document.py,*/specgauge/serve/classes/line.py,*/specgauge/serve/classes/totals.py,*/specgauge/units.py
RECORDING := brake exchange files level load prompts record trial twin
comma := ,
empty :=
GUARDING := annotate audit chronicle freeze lock store flags/*
RIM := $(subst $(empty) $(empty),$(comma),$(foreach room,$(RECORDING),*/specgauge/baseline/$(room).py) $(foreach room,$(GUARDING),*/specgauge/guard/$(room).py))

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) VLLM=$(VLLM) CASES=$(CASES)"

run: $(VENV)/.installed  ## Start the demo: a recorded engine and the sidecar beside it
	$(BIN)/specgauge demo

test: packages lint  ## Lint, types, every test but the real engine's, coverage (15 minutes)
	$(BIN)/coverage erase
	$(BIN)/coverage run $(BIN)/pytest -n 2 --dist loadfile -m "not vllm and not unleash" --durations=10
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --include='$(PURE)' --omit='$(RIM)' --fail-under=100

test-fast: $(VENV)/.installed-dev  ## The working loop: no slow test, no coverage
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not vllm and not unleash"

fuzz: $(VENV)/.installed-dev  ## Feed broken pages to the reader; CASES says how many
	$(BIN)/python tests/fuzz.py --cases $(CASES)

test-vllm: $(VENV)/.installed-dev  ## Tests against a real vLLM; VLLM says which release
	tests/vllm/install.sh $(VLLM)
	$(BIN)/pytest tests/vllm -m vllm

test-vllm-smoke: $(VENV)/.installed-dev  ## The short form of test-vllm
	tests/vllm/install.sh $(VLLM)
	$(BIN)/pytest tests/vllm -m "vllm and smoke"

test-unleash: $(VENV)/.installed-dev  ## Tests against a real Unleash (npm, PostgreSQL)
	tests/real/install-unleash.sh
	$(BIN)/pytest tests/real -m unleash

bench: $(VENV)/.installed-dev  ## Time one scrape cycle
	$(BIN)/python benchmarks/scrape_cycle.py

lint: $(VENV)/.installed-dev  ## Style, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.installed-dev  ## Build sdist and wheel into dist/ and try the wheel without the source
	VENV="$(VENV)" .ci/wheel

packages:  ## Install the Debian packages that tests need (as root; elsewhere it only names them)
	@.ci/packages test

clean:  ## Remove the environment and everything built or cached
	rm -rf "$(VENV)" dist build htmlcov .coverage .coverage.* \
	  .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find exporter tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A changed pyproject.toml means a fresh environment: an upgrade in place would keep what was dropped.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: $(PYTHON) is no Python 3.11 or newer with venv: install one (on Debian python3 and python3-venv) or name it, as in make PYTHON=python3.13" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear "$(VENV)"
	$(BIN)/python -m pip install -qq --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install -qq --editable '.[dev]'
	@touch $@
