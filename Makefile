# Everything runs in .venv, made on first use; only Python 3.10+ and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run tests side by side: one more than two cores, for while one waits for another program.
WORKERS ?= 3
# Compiled modules are kept, also where Python is told not to: every process of the tests would make them anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: install test lint check integrations dist docs browser demo bench soak fuzz clean

install: $(VENV)/installed-dev

# Side by side: while one waits, the other works.
test: $(VENV)/installed-dev
	@$(MAKE) --no-print-directory -j2 lint check

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# One process runs a whole file, whose tests share expensive fixtures; the doctests, which are quick, come last.
check: $(VENV)/installed-dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# With the packages themselves, which are large: Transformers, sentence-transformers, Ray, MLflow, ...
integrations: $(VENV)/installed-integrations
	$(BIN)/pytest tests/integrations/with_*.py

# Wheel and source distribution in dist, their metadata checked; the wheel is installed into empty environments,
# without extras and with each extra alone (or those of EXTRAS), where the code of its page is run. Half an hour.
dist: $(BIN)/pip
	$(PIP) 'build>=1.2' 'twine>=6'
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist/*.whl $(EXTRAS)

# The site, in build/docs; its notebooks are run. Any warning, and any link that leads nowhere, is an error.
docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -q -W --keep-going docs build/docs
	$(BIN)/python docs/check_site.py build/docs

# For the tests of the report page. Does nothing where $CHROMIUM or a browser on PATH is there already.
browser:
	@if [ -n "$$CHROMIUM" ]; then exit 0; fi; \
	for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  if command -v $$name > /dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then \
	  echo "make browser: no Chromium found, and only root on Debian can install one here:" \
	    "install it yourself, or set CHROMIUM to its path" >&2; exit 1; \
	fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium > /dev/null

demo: $(VENV)/installed-demo
	$(BIN)/python examples/demo.py

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

# Ten minutes on two cores.
soak: $(VENV)/installed-dev
	$(BIN)/python tests/soak/kill_and_resume.py --kills 50

# All targets of tests/fuzz in turn; failures are saved in tests/fuzz/corpus.
MINUTES ?= 60
fuzz: $(VENV)/installed-dev
	$(BIN)/python tests/fuzz/run.py --minutes $(MINUTES)

clean:
	rm -rf $(VENV)

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-dev: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/installed-demo

$(VENV)/installed-integrations: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[dev,integrations]'
	touch $@

$(VENV)/installed-docs: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[docs]'
	touch $@ $(VENV)/installed-demo

$(VENV)/installed-demo: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e '.[demo]'
	touch $@
