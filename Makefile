# make demo: build, install into .venv, step real games.
# make test: the same environment, lint, types and the tests that find most faults.
# make test-all: the same, and the tests marked long.
# make test-integrations: the adapters, all examples and plots, with the libraries that they are for, and
# cule watch in Chromium, where there is one.
# make gpu-kit: what benchmarks/gpu_suite.sh takes along to a machine without a network, see docs/cuda.md.
# Needs Python >= 3.10 with venv, and a C++17 compiler; all other tools are Python packages.

PYTHON ?= python3
VENV ?= .venv
INTEGRATIONS ?= .venv-integrations
BIN := $(VENV)/bin
SITE_PACKAGES := $(BIN)/python -c 'import site; print(site.getsitepackages()[0])'
INSTALL := $(BIN)/python -m pip install -q -c constraints.txt
BUILD_TOOLS := scikit-build-core pybind11 cmake ninja
CMAKE := PATH=$(abspath $(BIN)):$$PATH cmake
CXX_FILES := $(shell find csrc tests benchmarks examples \
	\( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.[ch]' \) -print | sort)
NATIVE := pyproject.toml CMakeLists.txt cmake/cuda.cmake constraints.txt \
	$(shell find csrc \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' \) -print | sort)

# Versions of NVRTC and nvJitLink that compiled kernels are tested with, the oldest and the newest;
# elsewhere than on Linux these tests are skipped.
ifeq ($(shell uname -s),Linux)
NVRTC := 13.0.88 13.5.37
REQUIRED := ale,compilers
else
REQUIRED := ale
endif

# The Python of the machine that the kit of the GPU suite is for.
KIT_PYTHON ?= python3.12

# Time for each target of make fuzz.
FUZZ_SECONDS ?= 60

# A test that hangs ends its process and is named, after far longer than a busy machine takes for any.
PYTEST := python -m pytest -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true

# Tests that start Ray in their own process, one after another: Ray may end a process that it has
# lost, and takes both cores. Those of RLlib last: they start it with another token.
RAY := $(wildcard tests/integrations/test_ray_*.py) tests/integrations/test_rllib.py

# Tests that also run with the Gymnasium of $(INTEGRATIONS).
OLDER_GYMNASIUM := tests/api/test_gym_env.py tests/api/test_gymnasium_vector.py
# Tests that draw where matplotlib is installed, as it is in $(INTEGRATIONS).
PLOTS := tests/unit/test_bench_plots.py tests/agents/test_curves.py

# Modules are compiled once, also where the environment asks for no files of bytecode: tests start
# hundreds of processes.
export PYTHONDONTWRITEBYTECODE =

# Tests of other native code: the kernels on the CPU, and compilers.
UNSANITIZED := property/test_device_memory.py property/test_kernels.py property/test_linked_kernels.py \
  property/test_rom_kernels.py unit/test_cuda_build.py unit/test_fake_cuda.py unit/test_kernel_cache.py unit/test_lockstep_shim.py \
  unit/test_nvrtc.py unit/test_sass.py unit/test_sass_compiled.py api/test_compiled_kernels.py \
  api/test_gpu_suite.py

.PHONY: asan bench clean demo docs format fuzz gpu-kit lint test test-all test-integrations tidy tsan types

demo: $(VENV)/installed
	$(BIN)/python benchmarks/demo.py

test: lint types
	$(BIN)/$(PYTEST) -n 2 --require $(REQUIRED) --fake-cuda

test-all: test
	$(BIN)/$(PYTEST) -n 2 -m 'long and not slow and not learn' --require $(REQUIRED) --fake-cuda

test-integrations: $(INTEGRATIONS)/installed
	$(INTEGRATIONS)/bin/$(PYTEST) -n 2 --dist worksteal -m 'not slow and not learn' --fake-cuda \
	  tests/integrations $(RAY:%=--ignore=%) tests/examples tests/gpu/test_xla.py \
	  tests/house/test_docstrings.py $(OLDER_GYMNASIUM) $(PLOTS)
	$(INTEGRATIONS)/bin/$(PYTEST) -v -m 'not slow and not learn' $(RAY)

bench: $(VENV)/installed-dev
	$(BIN)/cule bench

gpu-kit: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.gpu_suite.make_kit --python $(KIT_PYTHON) --nvrtc $(VENV)/nvrtc/13.0.88

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)/codespell

types: $(VENV)/installed-dev
	$(BIN)/mypy

# The documentation as a site in build/site, warnings as errors, after its links and snippets.
docs: $(VENV)/installed-docs
	$(BIN)/python -m pytest -q -m 'not slow' tests/house/test_documents.py tests/house/test_docstrings.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

tidy: $(VENV)/installed-dev
	$(CMAKE) --preset host
	$(BIN)/clang-tidy -p build/host --quiet $$(git ls-files 'csrc/host/*.cpp' 'csrc/jit/*.cpp') \
	  csrc/rom_kernel/source.cpp

# Tests of the native module on a build with address and undefined-behaviour sanitizers, or with the
# thread sanitizer, which needs torch without threads. A sanitizer's dlopen does not see the path in
# ale-py's library, so the folder of its SDL is named.
asan tsan: $(VENV)/installed-dev
	$(CMAKE) --preset $@
	$(CMAKE) --build --preset $@
	LD_PRELOAD="$$($(CXX) -print-file-name=lib$@.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  LD_LIBRARY_PATH=$$($(SITE_PACKAGES))/ale_py OMP_NUM_THREADS=1 \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
	  TSAN_OPTIONS=halt_on_error=1:history_size=7:suppressions=$(CURDIR)/tests/support/sanitizers/thread.txt \
	  SANITIZED_CORE=$$(echo $(CURDIR)/build/$@/_core*.so) PYTHONPATH=$(CURDIR)/tests/support/sanitizers \
	  $(BIN)/python -m pytest -q -m 'not slow' tests/unit tests/property tests/api tests/faults/test_concurrency.py \
	  $(UNSANITIZED:%=--ignore=tests/%)

# Fuzzing; needs clang with libFuzzer, as $(CLANGXX), by default clang++. Reports inputs and instructions.
fuzz: $(VENV)/installed-dev
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

clean:
	rm -rf $(VENV) $(INTEGRATIONS) build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.version_info < (3, 10) and sys.exit("cule needs Python >= 3.10")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/build-tools: $(VENV)/created constraints.txt
	$(INSTALL) $(BUILD_TOOLS)
	touch $@

# Editable: the package is imported from cule/, only the native module is built and copied.
$(VENV)/installed: $(VENV)/build-tools $(NATIVE)
	$(INSTALL) --no-build-isolation -e '.[roms]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed $(NVRTC:%=$(VENV)/nvrtc/%/installed)
	$(INSTALL) --no-build-isolation -e '.[dev]'
	$(INSTALL) --no-build-isolation --no-deps -e ./zoo
	touch $@

# In folders of their own: one environment holds one version of a package.
$(VENV)/nvrtc/%/installed: | $(VENV)/created
	$(BIN)/python -m pip install -q --no-deps --upgrade --target $(@D) nvidia-cuda-nvrtc==$* nvidia-nvjitlink==$*
	touch $@

$(VENV)/installed-docs: $(VENV)/installed-dev
	$(INSTALL) --no-build-isolation -e '.[docs]'
	touch $@

# On top of $(VENV): its packages are seen here (cule, torch, pytest), and others are not seen there.
$(INTEGRATIONS)/installed: constraints-integrations.txt tests/integrations/unmodified.txt | $(VENV)/installed-dev
	$(BIN)/python -m venv --clear $(INTEGRATIONS)
	echo "import site; site.addsitedir('$$($(SITE_PACKAGES))')" > \
	  $$($(SITE_PACKAGES:$(BIN)%=$(INTEGRATIONS)/bin%))/base.pth
	$(INTEGRATIONS)/bin/python -m pip install -q --only-binary :all: \
	  -c constraints-integrations.txt array-api-compat chex dm-env envpool fastapi "fastmcp<4" jax "minari[hdf5]" \
	  multi-agent-ale-py pettingzoo pygame "ray[rllib]" selenium stable-baselines3 torchrl
	$(INTEGRATIONS)/bin/python -m pip install -q --no-deps -r tests/integrations/unmodified.txt
	$(INTEGRATIONS)/bin/python -m pip install -q --no-deps --target $(INTEGRATIONS)/jax-cuda \
	  -c constraints-integrations.txt jax-cuda13-plugin jax-cuda13-pjrt
	touch $@
