# The five commands of a contributor. `make` lists them; ARGS go to the tool: make test ARGS="-k tanh"
#
#   PYTHON=python3.12   which Python makes the environment
#   WEND_PURE=1         do without a C compiler: the hot core stays uncompiled

PYTHON ?= python3
VENV ?= .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)

.PHONY: help setup smoke test lint docs
help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

setup: ## make .venv with Wend in it, and the tools for tests, linters and docs
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint,docs]'
	if git rev-parse --git-dir >/dev/null 2>&1; then $(BIN)/pre-commit install; fi

smoke: ## the quickest check of each part: a few seconds
	bash scripts/smoke $(ARGS)

test: ## all tests, on all cores: many minutes; ARGS="tests/nn" takes a part
	WEND_VENV=$(VENV) bash scripts/test $(ARGS)

lint: ## format, lints, types
	ruff format --check .
	ruff check .
	mypy

docs: ## the site, in build/docs
	python -m sphinx -W --keep-going -n docs build/docs $(ARGS)
