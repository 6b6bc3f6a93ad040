# Two commands: `make demo` (light install, one minute) and `make test` (all that needs no GPU).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test clean

demo: $(VENV)/.light
	@$(BIN)/python examples/demo.py out

test: $(VENV)/.dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tdsim needs Python 3.11 or newer; run: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

# The stamps name what is installed; a changed pyproject.toml installs again.
$(VENV)/.light: pyproject.toml | $(BIN)/python
	@echo "installing tdsim (numpy, simpy, networkx, greenlet, rich; no torch, no triton)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing tdsim with its development tools (triton for compile-only tests; no torch)"
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.light

clean:
	rm -rf $(VENV) out build *.egg-info
