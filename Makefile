# make demo: build, install into .venv, run the main job on real games.
# make test: the same environment, lint, and the tests.
# Needs Python >= 3.10 with venv, and a C++17 compiler; CMake and Ninja come as Python packages.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -q -c constraints.txt
BUILD_TOOLS := scikit-build-core pybind11 cmake ninja
CXX_FILES := $(shell find csrc tests \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' \) -print | sort)
NATIVE := pyproject.toml CMakeLists.txt cmake/cuda.cmake constraints.txt \
	$(shell find csrc \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' \) -print | sort)

.PHONY: demo test lint types clean

demo: $(VENV)/installed
	$(BIN)/python benchmarks/demo.py

test: lint
	$(BIN)/python -m pytest -n 2 --require ale
	$(BIN)/python -m pytest -n 2 -m gpu --fake-cuda tests/gpu

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

types: $(VENV)/installed-dev
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.version_info < (3, 10) and sys.exit("cule needs Python >= 3.10")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/build-tools: $(VENV)/created constraints.txt
	$(INSTALL) $(BUILD_TOOLS)
	touch $@

# Editable: the package is read from cule/, only the native module is built and copied.
$(VENV)/installed: $(VENV)/build-tools $(NATIVE)
	$(INSTALL) --no-build-isolation -e '.[roms]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(INSTALL) --no-build-isolation -e '.[dev]'
	touch $@
