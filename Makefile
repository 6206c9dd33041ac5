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

# Programs that look at the project from outside, apart from what it runs with.
TOOLS  := .venv-tools
MATRIX ?= 3.11 3.12 3.13

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-matrix lint format docs venv-cpu venv-dev build sbom audit constraints constraints-cuda clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CPU) ## compile, check and serve the embedded default on the CPU: a prefix-cache hit, and speech
	$(BIN)/python -m omnicfg.demo

test: $(CPU) $(DEV) ## all tests, those that start vLLM among them
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

test-fast: $(DEV) ## the tests that need no vLLM
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_OPTIONS)

test-matrix: $(MATRIX:%=test-python%) ## those, on every Python that is supported: python3.11, python3.12, python3.13

test-python%:
	$(MAKE) test-fast VENV=.venv-$* PYTHON=python$*

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

build: $(DEV) ## sdist and wheel, in dist/
	$(BIN)/python -m build --outdir dist .

sbom: $(BASE) $(TOOLS)/.installed ## what an installed omnicfg consists of, as CycloneDX, in dist/
	mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/omnicfg.cdx.json $(BIN)/python

# Strict: a registry that has no advisories to tell must not pass for one that knows of none.
audit: $(TOOLS)/.installed ## known vulnerabilities in what is pinned, as PyPI tells them
	for pins in constraints.txt constraints-cuda.txt; do \
	  $(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps --vulnerability-service pypi --requirement $$pins || exit 1; \
	done

# torch and its companions are left to install_cpu, which takes whatever build fits the machine.
constraints: $(CPU) $(DEV) ## pin the versions that are installed now
	$(PIP) freeze --exclude-editable \
	  | grep -vE '^(torch|torchvision|torchaudio|torchcodec|triton|setuptools|omnicfg)(==| @)' > constraints.txt.new
	(sed -n '/^#/p' constraints.txt; cat constraints.txt.new) > constraints.txt.pinned
	mv constraints.txt.pinned constraints.txt && rm constraints.txt.new

# What a GPU needs is not installed here; what fits together is told by the packages' metadata.
constraints-cuda: $(TOOLS)/.installed ## pin what a server on NVIDIA GPUs is installed with
	(sed -n '/^#/p' constraints-cuda.txt; $(TOOLS)/bin/uv pip compile --quiet --no-header --no-annotate --only-binary :all: \
	  --python-version 3.12 --python-platform x86_64-manylinux_2_36 --extra cuda --extra audio pyproject.toml) \
	  > constraints-cuda.txt.new
	mv constraints-cuda.txt.new constraints-cuda.txt

clean: ## remove what was set up and made
	rm -rf $(VENV) $(MATRIX:%=.venv-%) $(TOOLS) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

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

$(TOOLS)/.installed: Makefile
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  pip-audit==2.10.1 cyclonedx-bom==7.5.0 uv==0.13.9
	touch $@
