# Tools of the trade, and what is shipped.
.PHONY: help clean format format-check lint tidy coverage compile_commands.json install wheel dist wheel-check

help: ## this list
	sed -n 's/^\([a-z][a-z0-9_.-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  make %-22s %s\n", $$1, $$2 }' | LC_ALL=C sort -k2,2

clean: ## remove what was built
	rm -rf $(BUILD)

FORMATTED = $$(git ls-files '*.cpp' '*.h')
format: | setup-packages ## clang-format on every file
	clang-format -i $(FORMATTED)
format-check: | setup-packages
	clang-format --dry-run -Werror $(FORMATTED)

# Folders that clang-tidy holds; the others' findings are mostly CUDA's declarations. SINCE=main: only files that differ from there.
TIDY_FOLDERS := binary common fix report tracker
TIDY_FILES = $(if $(FILES),$(FILES),$(if $(SINCE),$$(git diff --name-only --diff-filter=d $(SINCE) -- $(TIDY_FOLDERS:%='%/*.cpp')),$$(git ls-files $(TIDY_FOLDERS:%='%/*.cpp'))))
# backtrace.h lies among g++'s own headers: looked for there when clang has no such file.
TIDY_INCLUDES = --extra-arg=-idirafter$(shell $(CXX) -print-file-name=include)
tidy: compile_commands.json ## clang-tidy; SINCE=main what differs from there, FILES='a.cpp b.cpp' some files
	printf '%s\n' $(TIDY_FILES) | xargs -r -P $(shell nproc) -n 4 clang-tidy --quiet -p . $(TIDY_INCLUDES)

# The lines that unit tests ran, by folder; line by line in $(PLAIN_BUILD)/coverage/index.html.
coverage: | setup-python ## which lines the unit tests run
	find $(PLAIN_BUILD)/coverage -name '*.gcda' -delete 2>/dev/null || true
	$(MAKE) --no-print-directory COVERAGE=1 unit
	$(PYTHON) -m gcovr --root . --object-directory $(PLAIN_BUILD)/coverage/obj --exclude tests/ --exclude '$(PLAIN_BUILD)/.*' -j $(shell nproc) \
	  --html-details $(PLAIN_BUILD)/coverage/index.html --json-summary $(PLAIN_BUILD)/coverage/summary.json $(PLAIN_BUILD)/coverage/obj
	scripts/make/coverage $(PLAIN_BUILD)/coverage/summary.json

# For clangd and clang-tidy, out of make's own command lines.
compile_commands.json: ## how each file is compiled, for editors
	$(MAKE) --no-print-directory --always-make --dry-run V=1 PRECOMPILE= UNITY= all $(UNIT_TESTS) $(E2E_PROGRAMS) $(BENCHMARKS) | scripts/make/compile-commands > $@

lint: | setup-python ## includes against folders.mk, words, pages that are made from tables, links, Python's style
	scripts/check-includes
	scripts/check-words
	scripts/draw-folders --check
	scripts/check-documents
	scripts/reference-pages options --check
	scripts/reference-pages fields --check
	scripts/reference-pages tables --check
	scripts/reference-pages python --check
	scripts/torch-functions --check
	scripts/device-errors page --check
	scripts/device-errors table --check
	$(PYTHON) -m ruff check --quiet .

# The libraries are found relative to the command: PREFIX may be anywhere, and moved later.
PREFIX ?= /usr/local
VERSION = $(shell sed -n 's/.*kVersion = "\(.*\)".*/\1/p' common/version.h)
install: all ## install under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/devtrace/simulate $(DESTDIR)$(PREFIX)/lib/devtrace/fix $(DESTDIR)$(PREFIX)/include
	install -m 755 $(BUILD)/devtrace $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/libdevtrace.so $(DESTDIR)$(PREFIX)/lib/devtrace/
	cp -a $(BUILD)/simulate/. $(DESTDIR)$(PREFIX)/lib/devtrace/simulate/
	cp -a $(BUILD)/fix/. $(DESTDIR)$(PREFIX)/lib/devtrace/fix/
	install -m 644 interpose/devtrace.h $(DESTDIR)$(PREFIX)/include/
	install -d $(DESTDIR)$(PREFIX)/lib/devtrace/python $(DESTDIR)$(PREFIX)/share/devtrace
	cp -a python/. $(DESTDIR)$(PREFIX)/lib/devtrace/python/
	cd $(DESTDIR)$(PREFIX)/lib/devtrace/python && rm -rf devtrace_pytest-$(VERSION).dist-info && mv devtrace_pytest-0.dist-info devtrace_pytest-$(VERSION).dist-info && \
	  sed -i 's/^Version: .*/Version: $(VERSION)/' devtrace_pytest-$(VERSION).dist-info/METADATA
	cp -a recipes/nightly recipes/which-version recipes/github-action recipes/fleet recipes/*.sql recipes/tables-*.py recipes/*.yml recipes/*.yaml recipes/*.json recipes/*.sbatch recipes/Containerfile LICENSE $(DESTDIR)$(PREFIX)/share/devtrace/
	cd $(DESTDIR)$(PREFIX)/share && install -d man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d
	$(BUILD)/devtrace --man > $(DESTDIR)$(PREFIX)/share/man/man1/devtrace.1
	$(BUILD)/devtrace --completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/devtrace
	$(BUILD)/devtrace --completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_devtrace
	$(BUILD)/devtrace --completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/devtrace.fish
	scripts/third-party-licences > $(DESTDIR)$(PREFIX)/share/devtrace/third-party

# build/wheel/devtrace-….whl, for `pip install`. For CUDA 12 and other releases of PyTorch some 8 GB of wheels are looked at once, see simulate/module.mk.
wheel: all simulate-cuda12 simulate-torch ## a wheel for pip
	+BUILD=$(BUILD) PYTHON=$(PYTHON) scripts/make-wheel $(BUILD)/wheel

# What is uploaded: the wheel, and build/wheel/devtrace-….tar.gz, a source distribution of what git knows.
dist: wheel ## the wheel and a source distribution, as an index takes them
	$(PYTHON) -m build --sdist --no-isolation --outdir $(BUILD)/wheel .
	$(PYTHON) -m twine check --strict $(BUILD)/wheel/*

wheel-check: wheel ## whether a build in another folder packs the same bytes
	PYTHON=$(PYTHON) scripts/check-wheel "$$(ls -t $(BUILD)/wheel/*.whl | head -n 1)"
