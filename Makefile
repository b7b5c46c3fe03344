# Everything runs in .venv, made on first use; only Python 3.10+ and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: install test lint check demo bench soak clean

install: $(VENV)/installed-dev

test: lint check

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: $(VENV)/installed-dev
	$(BIN)/pytest

demo: $(VENV)/installed-demo
	$(BIN)/python examples/digits.py

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

soak: $(VENV)/installed-dev
	$(BIN)/python tests/soak/kill_and_resume.py --kills 20

clean:
	rm -rf $(VENV)

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-dev: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/installed-demo

$(VENV)/installed-demo: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[demo]'
	touch $@
