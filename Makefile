# Everything sets itself up: `make demo` and `make test` need Python 3.11, make and git, and a way to PyPI.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Where this is set, every start of vLLM would compile torch and vLLM anew, for half a minute and more.
unexport PYTHONDONTWRITEBYTECODE
INSTALL_OPTIONS := --quiet --quiet --constraint constraints.txt

# One stamp for each set of packages, named after what decides on it: when that changes, it is installed anew.
KEY  := $(shell cat pyproject.toml constraints.txt omnicfg/serve/install_cpu.py | cksum | cut -d' ' -f1)
BASE := $(VENV)/.installed-base-$(KEY)
CPU  := $(VENV)/.installed-cpu-$(KEY)
DEV  := $(VENV)/.installed-dev-$(KEY)

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint format docs venv-cpu venv-dev build constraints clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CPU) ## compile, check and serve the embedded default on the CPU: a prefix-cache hit, and speech
	$(BIN)/python -m omnicfg.demo

test: $(CPU) $(DEV) ## all tests, those that start vLLM among them
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

test-fast: $(DEV) ## the tests that need no vLLM
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_OPTIONS)

lint: $(DEV) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV) ## put the source into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV) ## the documentation as a site, in build/docs; warnings and links that lead nowhere are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs -d build/doctrees . build/docs

venv-cpu: $(CPU) ## only install: omnicfg and vLLM's CPU build
venv-dev: $(DEV) ## only install: omnicfg and the tools for working on it

build: $(DEV) ## the wheel, in dist/
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

# torch and its companions are left to install_cpu, which takes whatever build fits the machine.
constraints: $(CPU) $(DEV) ## pin the versions that are installed now
	$(PIP) freeze --exclude-editable \
	  | grep -vE '^(torch|torchvision|torchaudio|torchcodec|triton|setuptools|omnicfg)(==| @)' > constraints.txt.new
	(sed -n '/^#/p' constraints.txt; cat constraints.txt.new) > constraints.txt.pinned
	mv constraints.txt.pinned constraints.txt && rm constraints.txt.new

clean: ## remove what was set up and made
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BASE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "omnicfg needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(INSTALL_OPTIONS) --editable .
	$(BIN)/python -m compileall -q omnicfg
	rm -f $(VENV)/.installed-*
	touch $@

$(CPU): $(BASE)
	@# Python compiles the few modules that are imported; pip would compile all of torch, transformers and vLLM
	$(BIN)/python -m omnicfg.serve.install_cpu $(INSTALL_OPTIONS) --no-compile
	touch $@

$(DEV): $(BASE)
	$(PIP) install $(INSTALL_OPTIONS) --editable '.[dev]'
	touch $@
