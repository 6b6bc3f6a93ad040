# `make demo`: a light install, then what tdsim shows in one minute.
# `make test`: everything that needs no GPU. PYTHON=python3.12 names another Python.
.PHONY: demo test clean
export PYTHON ?= python3

demo:
	@scripts/venv .venv .
	@scripts/demo .venv out

test:
	@scripts/venv .venv-test '.[dev]'
	@PATH="$(CURDIR)/.venv-test/bin:$$PATH" scripts/check

clean:
	rm -rf .venv .venv-test out build *.egg-info
