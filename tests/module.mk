# A folder adds its GoogleTest programs in its own module.mk:
#   UNIT_TEST_BINARIES += $(BUILD)/report-tests
# and `make test` builds and runs them. Whole programs are tests/e2e/test_*.py, run by pytest.
# pytest comes last, so that its summary closes the output.
.PHONY: unit-test e2e
PYTEST := DEVTRACE_BUILD=$(BUILD) $(PYTHON) -m pytest -c tests/pytest.ini
# Which tests of tests/e2e to run: make e2e TESTS="tests/e2e/test_fork.py -k loader"
TESTS ?= tests/e2e tests/conformance tests/rehearsal $(SIMULATED_GPU_TESTS)
# Tests of hardware that are worth running on simulated devices, too; DEVTRACE_TEST_GPU=simulated make test-gpu runs all of them there.
SIMULATED_GPU_TESTS := $(patsubst %,tests/gpu/test_gpu_%.py,host_memory static_runtime two_devices)

test: all $(UNIT_TEST_BINARIES)
	@$(MAKE) --no-print-directory unit-test
	@$(MAKE) --no-print-directory e2e

# Every program runs, even after one has failed: a run tells all that is wrong.
unit-test: $(UNIT_TEST_BINARIES)
	@failed=; for program in $(UNIT_TEST_BINARIES); do \
	  echo "== $$program"; $$program --gtest_brief=1 || failed="$$failed $$program"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# A file stays with one worker: its tests share programs that ran once.
e2e: all
	DEVTRACE_TEST_GPU=simulated $(PYTEST) -n 2 --dist loadfile $(TESTS)

# Skipped with the reason where there is no GPU. Not in parallel: there are figures among them.
test-gpu: all
	$(PYTEST) tests/gpu

# Recall and precision on PyTorch's whole operator database; minutes, so `make test` runs a sample of it.
conformance: all
	$(PYTHON) tests/conformance/run.py --build $(BUILD) --json $(BUILD)/conformance.json --markdown docs/conformance.md --silent docs/silent-operators.md

demo: all
	scripts/demo $(BUILD)

# The pictures of the report in docs/, made anew.
.PHONY: pictures
pictures: demo
	$(PYTHON) scripts/pictures $(BUILD)/demo/broken/devtrace-*.jsonl docs

FORMATTED = $$(git ls-files '*.cpp' '*.h')
format: | setup-native
	clang-format -i $(FORMATTED)
format-check: | setup-native
	clang-format --dry-run -Werror $(FORMATTED)

# Values of a rehearsal on PyTorch's whole operator database, and the page about them; minutes, so `make test` runs a sample of it.
.PHONY: rehearsal-values
rehearsal-values: all
	$(PYTHON) tests/rehearsal/run.py --build $(BUILD) --json $(BUILD)/rehearsal-values.json --markdown docs/rehearsal.md

# What the verdict says of the five systems and the cases.
.PHONY: cases-page
cases-page: all
	DEVTRACE_BUILD=$(BUILD) $(PYTHON) tests/workloads/cases_page.py
include tests/matrix/module.mk
include tests/lookups/module.mk
include tests/cupti/module.mk
