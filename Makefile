# Needs python3 and make; everything else is installed into .venv, pinned with hashes.

PYTHON ?= python3
BIN := .venv/bin
ONCE ?=
EXTRAS ?=
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-annotate

# The tests start hundreds of processes, which load compiled modules where Python may write them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup setup-extras wheel install demo demo-month demo-node serve test test-slow test-browser test-release test-clients test-pythons check check-types check-others quick mutants campaigns model model-kokoro bench bench-setup bench-quick bench-grow bench-speech bench-stream bench-parts bench-calls listen docs pictures screenshots lock clean

help:
	@echo "make demo       starts the service, chats, speaks, then keeps serving (ONCE=1: exits)"
	@echo "make demo-month a site after a month of use, to look around in"
	@echo "make demo-node  a compute node joins, runs a task, clones a voice (ONCE=1: exits)"
	@echo "make test       lint, types, import contracts and tests, on SQLite and a real PostgreSQL"
	@echo "make test-slow  the other tests: faults, pages in a browser, real models, the demo"
	@echo "make test-browser  of these, the pages in Chromium"
	@echo "make test-release  before a release: real clients, long random sequences on both databases"
	@echo "make test-clients  of these, the real clients"
	@echo "make test-pythons  tests without processes on every Python from 3.11 on that is installed"
	@echo "make quick      the tests near to what changed since main (DEPTH=0: all that import it)"
	@echo "make mutants    changes the code of units, limits, tasks and sign-in: a test must fail (hours;"
	@echo "                one module: MODULE=myna/accounts/caps.py)"
	@echo "make campaigns  kill, freeze and disconnect under load, on both databases (slow)"
	@echo "make model      any order of events against the model of the queue (slow)"
	@echo "make model-kokoro  fetches the neural voices that the demo and the tests speak with, 118 MB"
	@echo "make setup      what running needs, in .venv"
	@echo "make setup-extras  also the extras: neural voices, Whisper, samples as m4a and webm, OpenID Connect, buckets"
	@echo "make wheel      the package, in dist; then as root: make install, into /opt/myna (PREFIX=…, EXTRAS=1)"
	@echo "make serve      serve from ./data"
	@echo "make check      the quick half of make test: lint, types, import contracts, tidy"
	@echo "make bench      calls per second, compared with the floor and with other gateways"
	@echo "                first: make bench-setup; also: bench-quick, bench-grow, bench-speech, bench-stream, bench-parts, bench-calls"
	@echo "make listen     how well the voices are understood: Whisper hears what a service speaks"
	@echo "make docs       writes the tables of settings and keys and the usage lines into docs"
	@echo "make pictures   draw the pictures of docs/architecture.md"
	@echo "make screenshots  take the pictures of the back office in docs/office, and of the demo"
	@echo "make lock       pin the dependencies again"

setup: .venv/run.stamp

setup-extras: .venv/extras.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements.lock pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/extras.stamp: requirements-extras.lock .venv/run.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-extras.lock
	@touch $@

wheel: .venv/run.stamp
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# Each version has an environment of its own, so the one before can be current again.
PREFIX := /opt/myna
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' myna/__init__.py)
INSTALLED := $(PREFIX)/$(VERSION)

install:
	@test -f dist/myna-$(VERSION)-py3-none-any.whl || { echo "There is no package of $(VERSION): first 'make wheel'."; exit 1; }
	$(PYTHON) -m venv --clear $(INSTALLED)
	$(INSTALLED)/bin/python -m pip install --quiet --require-hashes -r requirements$(if $(EXTRAS),-extras).lock
	$(INSTALLED)/bin/python -m pip install --quiet --no-deps dist/myna-$(VERSION)-py3-none-any.whl
	ln -sfn $(VERSION) $(PREFIX)/current

.venv/demo.stamp: requirements-demo.lock .venv/run.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-demo.lock
	@touch $@

.venv/dev.stamp: requirements-dev.lock .venv/run.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

.venv/listen.stamp: requirements-listen.lock .venv/dev.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-listen.lock
	@touch $@

.venv/mutants.stamp: requirements-mutants.lock .venv/dev.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-mutants.lock
	@touch $@

demo: .venv/demo.stamp
	@ONCE=$(ONCE) $(BIN)/python -m demo

demo-month: .venv/run.stamp
	@ONCE=$(ONCE) $(BIN)/python -m demo.month

# Makes a small model, so it needs the packages of the tests.
demo-node: .venv/dev.stamp
	@ONCE=$(ONCE) $(BIN)/python -m demo.node

serve: .venv/run.stamp
	$(BIN)/myna serve

# For the tests of the back office: the browser of the system, or a new one.
.venv/chromium.stamp: tests/rig/browser.py .venv/dev.stamp
	$(BIN)/python -m tests.rig.browser
	@touch $@

# mypy without its cache takes as long as all others together.
check: .venv/dev.stamp
	@$(MAKE) --no-print-directory --jobs 2 check-types check-others

check-types: .venv/dev.stamp
	$(BIN)/mypy

check-others: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_tidy.py

# The tests wait part of their time: WORKERS processes keep two cores busy.
WORKERS := 4
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 10

test: check
	$(PYTEST) -m "not slow and not release" --ignore tests/test_tidy.py

test-slow: .venv/listen.stamp .venv/chromium.stamp
	$(PYTEST) -m "slow and not release"

test-browser: .venv/dev.stamp .venv/chromium.stamp
	$(PYTEST) -m "browser and not release"

test-release: .venv/listen.stamp .venv/chromium.stamp
	$(PYTEST) -m release

test-clients: .venv/dev.stamp .venv/chromium.stamp
	$(PYTEST) -m clients

# The tests that start neither PostgreSQL nor a service, on each interpreter, each in a separate environment.
PYTHONS := 3.11 3.12 3.13 3.14
IN_PROCESS := tests/wire tests/chat tests/http_client tests/audio tests/store tests/ledger tests/tasks \
  tests/engines/test_recordings.py \
  -m "not slow and not release" -k "wire or chat or http_client or audio or sqlite or (recordings and not amr and not extra)"

test-python%: export PYENV_VERSION := $(shell pyenv versions --bare 2>/dev/null | paste -s -d : -)
test-pythons: .venv/dev.stamp $(PYTHONS:%=test-python%)

test-python%:
	@if test -e $(BIN)/python$*; then echo "python$*: make test runs on it, skipped"; \
	elif ! python$* --version >/dev/null 2>&1; then echo "python$*: not installed, skipped"; \
	else $(MAKE) --no-print-directory .dev/python$*/dev.stamp \
	&& .dev/python$*/bin/python -m pytest --numprocesses 2 $(IN_PROCESS); fi

.dev/python%/dev.stamp: requirements-dev.lock
	python$* -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

quick: .venv/dev.stamp
	@$(BIN)/python -m tests.quick

# Changes the code that handles units, limits, tasks and sign-in, one expression at a time: a test must fail.
mutants: .venv/mutants.stamp
	$(BIN)/python -m tests.mutants $(MODULE)

# Kill, stop, freeze, cut and mute under load, ROUNDS times for each database and seed.
campaigns: .venv/dev.stamp
	MYNA_TEST_ROUNDS=$(or $(ROUNDS),50) $(BIN)/python -m pytest tests/faults/test_campaigns.py

# Any order of events against the model of the queue: MODEL=2000 looks at so many.
model: .venv/dev.stamp
	MYNA_TEST_EXAMPLES=$(or $(MODEL),1000) $(BIN)/python -m pytest --numprocesses 2 -m release tests/tasks/test_model.py

# Into the user's cache, which `make clean` does not remove.
model-kokoro: .venv/run.stamp
	$(BIN)/python -m demo.kokoro_model

bench-setup: .venv/dev.stamp
	$(BIN)/python -m bench.install

bench: .venv/dev.stamp
	$(BIN)/python -m bench table

bench-quick: .venv/dev.stamp
	$(BIN)/python -m bench quick

bench-grow: .venv/dev.stamp
	$(BIN)/python -m bench grow --full --minutes 10

bench-speech: .venv/dev.stamp
	$(BIN)/python -m bench speech

bench-stream: .venv/dev.stamp
	$(BIN)/python -m bench stream

bench-calls: .venv/dev.stamp
	$(BIN)/python -m bench calls

bench-parts: .venv/dev.stamp
	$(BIN)/python -m bench parts

listen: .venv/listen.stamp
	$(BIN)/python -m listen

docs: .venv/dev.stamp
	$(BIN)/python -m tests.docs.generated

pictures: .venv/dev.stamp
	$(BIN)/python -m pictures

# Screenshots of the back office, into docs/office, and the first minute of the demo.
screenshots: .venv/chromium.stamp
	$(BIN)/python -m pictures.office
	$(BIN)/python -m pictures.first_minute

# Needs `uv`. Only a change of a dependency needs this. The files name no registry host.
lock:
	$(LOCK) --group build pyproject.toml -o requirements.lock
	$(LOCK) --group build --extra hear --extra neural --extra m4a --extra oidc --extra keys --extra otel --extra storage pyproject.toml -o requirements-extras.lock
	$(LOCK) --group demo pyproject.toml -o requirements-demo.lock
	$(LOCK) --group dev --extra neural --extra m4a --extra oidc --extra keys --extra otel --extra storage pyproject.toml -o requirements-dev.lock
	$(LOCK) --group listen --extra neural --extra m4a --extra oidc --extra keys --extra otel --extra storage pyproject.toml -o requirements-listen.lock
	$(LOCK) --group mutants --constraint requirements-dev.lock -o requirements-mutants.lock

clean:
	rm -rf .venv .dev mutants
