# Two commands on a fresh machine (Python 3.11 to 3.13 with venv and pip, make): `make demo` and `make test`.
# Each makes .venv and installs into it first; a second call finds the stamps and starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test test-hosts bench check clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 12
	@echo "PYTHON=python3.12 (any target) makes .venv with that interpreter; 3.11, 3.12 and 3.13 are supported."

setup: $(VENV)/.tools ## make .venv and install the package, torch and the development tools

demo: $(VENV)/.package ## verify the published page, audit torch and shardproof, write build/demo/report.html and .json
	@$(BIN)/python -m shardproof.cli.demo

test: check ## check, then every test: the quick ones first, then those that start processes
	@echo "tests, quick ones:"
	@$(BIN)/python -m pytest -q -m "not processes"
	@echo "tests that start ranks and child processes (a few minutes):"
	@$(BIN)/python -m pytest -q -m processes

test-hosts: $(VENV)/.tools ## the clip across four hosts in network namespaces; needs root and iproute2 (two minutes)
	@$(BIN)/python -m pytest -q -rs tests/hosts/four_hosts.py

bench: $(VENV)/.tools ## norms and clips beside torch's, as ratios in one run, and a plot; needs an idle machine (some minutes)
	@$(BIN)/python -m benchmarks.norm
	@$(BIN)/python -m benchmarks.scale

check: $(VENV)/.tools ## ruff, ruff format, mypy --strict on src, import contracts
	@echo "check: ruff, ruff format, mypy, import contracts"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check . ; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

clean: ## remove .venv, build/ and every cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is touched last: a set-up that was interrupted is done again, one that stands is left alone.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "Expected Python 3.11, 3.12 or 3.13, got PYTHON=$(PYTHON) ($$($(PYTHON) --version 2>&1))."; \
	  echo "Name another interpreter, for example: make $(or $(firstword $(MAKECMDGOALS)),demo) PYTHON=python3.12"; \
	  exit 2; }
	@echo "[1/3] making $(VENV) with $(PYTHON) ($$($(PYTHON) --version))"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.package: $(VENV)/.made pyproject.toml constraints.txt
	@echo "[2/3] installing shardproof and torch into $(VENV): one to five minutes, most of it downloading torch"
	@$(PIP) --editable '.[torch,audit]'
	@touch $@

# pip learned --group in 25.1; the pip that came with the interpreter may be older.
$(VENV)/.tools: $(VENV)/.package
	@echo "[3/3] installing the development tools into $(VENV): about a minute"
	@$(PIP) pip
	@$(PIP) --group dev
	@touch $@
