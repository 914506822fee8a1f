# What a newcomer needs is python3 and make; everything else goes into .venv, pinned with hashes.

PYTHON ?= python3
BIN := .venv/bin
ONCE ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-node serve test check mutants model bench bench-setup bench-quick bench-grow bench-speech bench-parts lock clean

help:
	@echo "make demo       see it work: starts the service, chats, speaks, then keeps serving (ONCE=1: ends)"
	@echo "make demo-node  a compute node beside it: it joins, does an order, clones a voice (ONCE=1: ends)"
	@echo "make test       lint, types, import contracts and all tests, on SQLite and a real PostgreSQL"
	@echo "make mutants    each guard of units, tasks and voices taken away: a test must miss it (slow)"
	@echo "make model      any order of events against the model of the queue (slow)"
	@echo "make setup      what running needs, in .venv"
	@echo "make serve      serve from ./data"
	@echo "make check      the quick half of make test: lint, types, import contracts, tidy"
	@echo "make bench      calls a second beside the floor of the same parts and beside peers"
	@echo "                first: make bench-setup; also: bench-quick, bench-grow, bench-speech, bench-parts"
	@echo "make lock       pin the dependencies anew"

setup: .venv/run.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements.lock pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: requirements-dev.lock .venv/run.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

demo: .venv/run.stamp
	@ONCE=$(ONCE) $(BIN)/python -m demo

# Makes a model of its own, so it wants what the tests want.
demo-node: .venv/dev.stamp
	@ONCE=$(ONCE) $(BIN)/python -m demo.node

serve: .venv/run.stamp
	$(BIN)/myna serve

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_tidy.py

# A quarter of their time the tests wait for the disk and for clocks: three of them keep two cores busy.
test: check
	$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup --ignore tests/mutations

# Takes each guard of units, tasks and voices away in turn and wants a test to miss it.
mutants: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 2 tests/mutations

# Any order of events against the model of the queue: MODEL=2000 looks at so many.
model: .venv/dev.stamp
	MYNA_TEST_EXAMPLES=$(or $(MODEL),1000) $(BIN)/python -m pytest --numprocesses 2 --timeout 7200 tests/tasks/test_model.py

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

bench-parts: .venv/dev.stamp
	$(BIN)/python -m bench parts

# Wants `uv`, which only whoever changes a dependency needs. The files name no registry host.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --group demo pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-annotate --extra neural --extra m4a --group dev pyproject.toml -o requirements-dev.lock

clean:
	rm -rf .venv .dev
