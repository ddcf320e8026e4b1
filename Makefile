# veilstream: everything a developer or a newcomer runs. `make help` lists it.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
LOGS ?= ../shared/logs

# Containers often set it. Each test process would then read and rewrite the assertions of every test file again, which
# is half of the time of a collection.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(BIN)/veilstream: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@# As pip does with packages: where PYTHONDONTWRITEBYTECODE is set, every command would compile all of this again.
	$(BIN)/python -m compileall -q models stream connectors veilstream
	@touch $@

$(VENV)/.checked: pyproject.toml constraints.txt $(BIN)/veilstream
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[check]'
	@touch $@

.PHONY: demo
demo: $(BIN)/veilstream ## install, replay the bundled log, print where releases and report are
	rm -rf demo-out
	$(BIN)/veilstream demo -o demo-out

.PHONY: test
test: $(VENV)/.checked ## run the tests, in four processes with a broker each; a failure is shown as it happens
	PYTHONUTF8=1 $(BIN)/pytest --verbose --instafail --durations 40 --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "not night"

.PHONY: setup
setup: $(VENV)/.checked ## once after cloning: libraries, and commands that compile most kernels into numba's cache
	$(BIN)/python -m tests.kernels

.PHONY: fast
fast: $(VENV)/.checked ## unit, property and golden tests: no broker, Java, browser or public logs (while you work)
	PYTHONUTF8=1 $(BIN)/pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder \
	  --hypothesis-profile fast -m "not kafka and not prometheus and not chromium and not logs and not slow and not night" tests/property tests/golden tests/unit

.PHONY: night
night: variants crash chaos soak mutants runbooks ## what needs hours: variants, crash matrix, chaos, soak, mutants, runbooks (not in CI)

.PHONY: variants
variants: $(VENV)/.checked ## the tests of tests/night.toml: further variants of what `make test` covers (not in CI)
	PYTHONUTF8=1 $(BIN)/pytest --verbose --instafail --numprocesses 2 --dist loadfile -m night

.PHONY: coverage
coverage: $(VENV)/.checked ## branch coverage of models and stream by every test; fails below 90 % (not in CI)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[coverage]'
	$(BIN)/pytest --cov --cov-report= --numprocesses 2 --dist loadfile
	$(BIN)/coverage report

.PHONY: mutants
mutants: $(VENV)/.checked ## mutation testing of models/dp, gate, ledger, triggers, pipeline (FILES=models/dp/strict.py; not in CI)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/python -m tests.mutants $(FILES)

.PHONY: check
check: $(VENV)/.checked ## ruff, mypy, import-linter, deptry; API pages and documentation site build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(MAKE) --no-print-directory api site

.PHONY: api
api: $(VENV)/.checked ## the API pages of models, connectors and veilstream, from their docstrings, into out/api
	$(BIN)/pdoc --docformat markdown --output-directory out/api models connectors veilstream

.PHONY: site
site: $(VENV)/.checked ## the documentation as a site, into out/site; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: prose
prose: ## the English of the documentation, by vale (a program of its own: https://vale.sh)
	vale README.md CONTRIBUTING.md docs

.PHONY: changelog
changelog: $(VENV)/.checked ## CHANGELOG.md as the next version would have it, from changelog.d
	$(BIN)/towncrier build --draft --version next

.PHONY: release-prepare
release-prepare: $(VENV)/.checked ## write VERSION=1.2.3 everywhere and its section of the changelog, to be committed and tagged
	$(BIN)/python deploy/release/release.py prepare $(VERSION)

$(VENV)/.released: $(VENV)/.checked
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[release]'
	@touch $@

.PHONY: dist
dist: $(VENV)/.released ## wheel and sdist of the last commit into out/release, built twice and equal
	$(BIN)/python deploy/release/release.py build

.PHONY: release
release: $(VENV)/.released ## check, build, smoke test, image (BASE=python:3.11-slim-bookworm@sha256:...), SBOM, signature
	BASE='$(BASE)' $(BIN)/python deploy/release/release.py check build smoke image sbom sign

.PHONY: test-oldest
test-oldest: ## the tests that need no broker with the oldest library versions that pyproject.toml allows (not in CI)
	$(PYTHON) deploy/release/libraries.py oldest $(TESTS)

.PHONY: test-newest
test-newest: ## the same with the newest versions there are (not in CI)
	$(PYTHON) deploy/release/libraries.py newest $(TESTS)

.PHONY: crash
crash: $(VENV)/.checked ## the long crash matrix on a real broker, planted bugs included (not in CI)
	$(BIN)/pytest tests/kafka/crash_matrix.py

.PHONY: runbooks
runbooks: $(VENV)/.checked ## walk the runbooks that need minutes, with the alert rules as they are shipped (90 minutes; not in CI)
	$(BIN)/python -m tests.kafka.walk_runbooks

.PHONY: chaos
chaos: $(VENV)/.checked ## random faults on a running daemon (HOURS=1 SEED=.. MORE='--only KIND'; not in CI)
	$(BIN)/python -m tests.kafka.chaos --hours $(or $(HOURS),1) $(if $(SEED),--seed $(SEED)) $(MORE)

.PHONY: codecs
codecs: $(VENV)/.checked ## the broker tests with every topic compressed, in one codec after the other (hours; not in CI)
	@for codec in gzip snappy lz4 zstd; do TEST_CODEC=$$codec $(BIN)/pytest tests/kafka || exit 1; done

.PHONY: soak
soak: $(VENV)/.checked ## ten minutes under a steady stream, memory and descriptors flat (MINUTES=10; not in CI)
	$(BIN)/python -m tests.kafka.soak --minutes $(or $(MINUTES),10)

.PHONY: screenshots
screenshots: $(VENV)/.checked ## report and console in Chromium: light, dark, tablet, phone, paper; pictures in out/
	SCREENSHOTS=$(CURDIR)/out $(BIN)/pytest tests/deploy/test_report_browser.py tests/deploy/test_console_browser.py -q

CHART ?= deploy/helm/veilstream
.PHONY: chart
chart: ## the alert rules and dashboards of deploy/ into the Helm chart, which reads no file outside itself
	mkdir -p $(CHART)/files
	cp -r deploy/prometheus/rules deploy/grafana/dashboards $(CHART)/files/

.PHONY: bench
bench: $(VENV)/.checked ## every benchmark, as JSON (not in CI)
	@for file in benchmarks/[a-z]*.py; do name=$$(basename $$file .py); \
	  echo "{\"benchmark\": \"$$name\"}"; $(BIN)/python -m benchmarks.$$name --json || exit 1; done

.PHONY: bench-keep
bench-keep: $(VENV)/.checked ## one benchmark into benchmarks/history (NAME=attacks), with commit, machine and load
	$(BIN)/python -m benchmarks._history keep $(NAME)

.PHONY: bench-compare
bench-compare: $(VENV)/.checked ## the last two kept runs of each benchmark side by side
	$(BIN)/python -m benchmarks._history compare

.PHONY: grid
grid: $(VENV)/.checked ## the 200 settings of the TLKC paper and its figures, into grid-out/
	$(BIN)/python -m benchmarks.tlkc_grid -o grid-out

.PHONY: papers
papers: $(VENV)/.checked ## recompute the papers' tables, and the field's, into docs/papers
	$(BIN)/python -m benchmarks.papers
	$(PYTHON) -m venv $(VENV)-field
	$(VENV)-field/bin/pip install --quiet --constraint constraints.txt --editable '.[field]'
	VEILSTREAM_FIELD_PYTHON=$(VENV)-field/bin/python $(BIN)/python -m benchmarks.field
