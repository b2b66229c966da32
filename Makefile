# The two commands of the README are `make demo` and `make test`; each installs what it needs into .venv.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# For what is installed, and for what builds it.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

.PHONY: demo test test-slow test-gpu check format docs bench bench-copying bench-history bench-audit bench-lint clean

demo: .venv/.demo
	$(BIN)/python examples/digits.py

test: .venv/.test
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m "not slow"

test-slow: .venv/.test
	$(BIN)/python -m pytest -m slow

test-gpu: .venv/.test
	$(BIN)/python -m pytest -m gpu

check: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

format: .venv/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/.demo .venv/.dev
	$(BIN)/torchcopy claims --markdown > docs/what-the-articles-say.md.part
	mv docs/what-the-articles-say.md.part docs/what-the-articles-say.md
	$(BIN)/python -c 'from torchcopy.reporters.explain_pages import write_pages; write_pages("docs/codes")'
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: .venv/.demo
	$(BIN)/python benchmarks/copy_methods.py

bench-copying: .venv/.demo
	$(BIN)/python benchmarks/copying.py

bench-history: .venv/.demo
	$(BIN)/python benchmarks/history.py

bench-audit: .venv/.demo .venv/.bench
	$(BIN)/python benchmarks/audit.py

bench-lint: .venv/.bench .venv/.test
	$(BIN)/python benchmarks/lint.py

clean:
	rm -rf .venv docs/_build demo-output bench-output .pytest_cache .mypy_cache .ruff_cache

# One stamp for each set of extras: pip runs again when what it would install has changed.
.venv/.demo .venv/.bench .venv/.test .venv/.dev: .venv/.%: pyproject.toml constraints.txt | .venv
	$(PIP) --editable '.[$*]'
	touch $@

.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "torchcopy needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
