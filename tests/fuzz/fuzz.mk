# libFuzzer over everything that reads what others have written, under the address and undefined-behaviour sanitizers:
# one program for each file here. `make fuzz SECONDS=600`; ONLY="log elf" some of them. What is
# found is left beside the corpus. FUZZ_ARGUMENTS=-seed=1: the same inputs each time, as CI wants it.
.PHONY: fuzz fuzzers
SECONDS ?= 60
FUZZERS := $(if $(ONLY),$(ONLY),baseline device elf loaded_object log options ptx python_memory split_debug suppressions)
FUZZED := $(BUILD)/fuzz
FUZZ_FLAGS := -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I.

FUZZ_SOURCES_baseline := report/check/*.cpp common/format.cpp
FUZZ_SOURCES_device := binary/device/*.cpp binary/ptx/*.cpp binary/elf/sections.cpp
FUZZ_SOURCES_elf := binary/elf/file.cpp binary/elf/sections.cpp
FUZZ_SOURCES_loaded_object := binary/elf/loaded.cpp binary/elf/loaded_objects.cpp attach/process/remote_object.cpp process/memory.cpp
FUZZ_SOURCES_log := finding/*.cpp report/record/*.cpp report/phrasing/*.cpp common/*.cpp report/log/*.cpp report/text/*.cpp report/traffic/*.cpp
FUZZ_SOURCES_options := tracker/base/options.cpp tracker/base/files.cpp
FUZZ_SOURCES_ptx := binary/ptx/*.cpp
FUZZ_SOURCES_python_memory := tracker/python/layout.cpp tracker/python/objects/object_layout.cpp tracker/python/objects/objects.cpp tracker/python/line_table.cpp \
  tracker/python/objects/string_decoder.cpp tracker/python/objects/variables.cpp
FUZZ_SOURCES_split_debug := binary/dwarf/*.cpp binary/elf/file.cpp binary/elf/sections.cpp
FUZZ_SOURCES_suppressions := finding/*.cpp report/record/*.cpp report/phrasing/*.cpp common/*.cpp report/log/suppressions.cpp
FUZZ_FLAGS_loaded_object := -DDEVTRACE_FUZZ_LIBRARY='"$(FUZZED)/library.so"'
# The pinned clang has no _Float16 on x86.
FUZZ_FLAGS_device := -D_Float16=__fp16
FUZZ_FLAGS_ptx := $(FUZZ_FLAGS_device)
# fmt is there twice: clang mangles some of its functions otherwise than the compiler of the libraries does.
FUZZ_FLAGS_baseline := -Wl,--allow-multiple-definition
# A source stands in one of the two: what is fuzzed is compiled anew, what it needs is linked as it was built.
FUZZ_LIBRARIES_baseline = $(foreach one,html verdict placement log text traffic record phrasing,$(LIBRARY_report/$(one))) $(LIBRARY_finding) $(LIBRARY_common) -lfmt
FUZZ_LIBRARIES_device := $(LINK_device)
FUZZ_LIBRARIES_loaded_object := -Wl,--wrap=dl_iterate_phdr

define fuzzer
$(FUZZED)/$(1): tests/fuzz/$(1).cpp $(wildcard $(FUZZ_SOURCES_$(1)) $(addsuffix *.h,$(sort $(dir $(FUZZ_SOURCES_$(1)))))) | setup-packages
	mkdir -p $$(@D)
	clang++ $$(FUZZ_FLAGS) $$(FUZZ_FLAGS_$(1)) -o $$@ $$(filter %.cpp,$$^) $$(FUZZ_LIBRARIES_$(1))
endef
$(foreach one,$(FUZZERS),$(eval $(call fuzzer,$(one))))

# The library that is damaged: imports of each sort, both sorts of hash tables, versions of its own and of others.
$(FUZZED)/loaded_object: | $(FUZZED)/library.so
$(FUZZED)/library.so: tests/unit/interpose/imports/imports.c | setup-packages
	mkdir -p $(@D)
	echo 'TEST_1.0 { global: imports_*; };' > $(FUZZED)/library.map
	$(CC) -shared -fPIC -O1 $< -o $@ -Wl,--hash-style=both,--version-script=$(FUZZED)/library.map -lc

fuzzers: $(FUZZERS:%=$(FUZZED)/%)

fuzz: fuzzers ## libFuzzer on the readers; SECONDS=600 each, ONLY=log one of them
	mkdir -p $(FUZZED)/corpus/elf && echo 'int one; int two(void) { return one; }' | $(CC) -x c -g -c -o $(FUZZED)/corpus/elf/object -
	tests/fuzz/split-debug-seed $(FUZZED)/corpus/split_debug
	for one in $(FUZZERS); do \
	  mkdir -p $(FUZZED)/corpus/$$one; seeds=; \
	  for folder in tests/fuzz/$$one tests/data; do [ ! -d $$folder ] || seeds="$$seeds $$folder"; done; \
	  $(FUZZED)/$$one -max_total_time=$(SECONDS) -rss_limit_mb=4096 -timeout=10 -max_len=65536 -print_final_stats=1 $(FUZZ_ARGUMENTS) \
	    -artifact_prefix=$(FUZZED)/$$one- $(FUZZED)/corpus/$$one $$seeds || exit 1; \
	done
