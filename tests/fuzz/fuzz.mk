# libFuzzer over everything that reads what others have written, under the address and undefined-behaviour sanitizers:
# one program for each file here. `make fuzz SECONDS=600`; ONLY=log one of them. What is found is left beside the corpus.
.PHONY: fuzz
SECONDS ?= 60
FUZZERS := $(if $(ONLY),$(ONLY),device_code elf log options suppressions)
FUZZED := $(BUILD)/fuzz
FUZZ_FLAGS := -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I.

FUZZ_SOURCES_device_code := device_code/*.cpp
FUZZ_SOURCES_elf := tracker/elf/elf_file.cpp
FUZZ_SOURCES_log := report/base/*.cpp report/log/*.cpp report/text/*.cpp report/traffic/*.cpp common/*.cpp
FUZZ_SOURCES_options := tracker/base/options.cpp tracker/base/files.cpp
FUZZ_SOURCES_suppressions := report/base/*.cpp report/log/suppressions.cpp common/*.cpp
FUZZ_LIBRARIES_device_code := $(LINK_device_code)

define fuzzer
$(FUZZED)/$(1): tests/fuzz/$(1).cpp $(wildcard $(FUZZ_SOURCES_$(1)))
	mkdir -p $$(@D)
	clang++ $$(FUZZ_FLAGS) -o $$@ $$^ $$(FUZZ_LIBRARIES_$(1))
endef
$(foreach one,$(FUZZERS),$(eval $(call fuzzer,$(one))))

fuzz: $(FUZZERS:%=$(FUZZED)/%) ## libFuzzer on the readers; SECONDS=600 each, ONLY=log one of them
	mkdir -p $(FUZZED)/corpus/elf && echo 'int one; int two(void) { return one; }' | $(CC) -x c -g -c -o $(FUZZED)/corpus/elf/object -
	for one in $(FUZZERS); do \
	  mkdir -p $(FUZZED)/corpus/$$one; seeds=; \
	  for folder in tests/fuzz/$$one tests/data; do [ ! -d $$folder ] || seeds="$$seeds $$folder"; done; \
	  $(FUZZED)/$$one -max_total_time=$(SECONDS) -rss_limit_mb=4096 -timeout=10 -max_len=65536 -print_final_stats=1 \
	    -artifact_prefix=$(FUZZED)/$$one- $(FUZZED)/corpus/$$one $$seeds || exit 1; \
	done
