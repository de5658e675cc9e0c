# Headers that are compiled once, for the files that would spend most of their time on them. Loading one costs a second,
# so files without the JSON and the formatting library do better alone. g++ only; clang++ reads the same headers as text.
PRECOMPILE := $(if $(findstring clang,$(shell $(CXX) --version 2>/dev/null)),,yes)

# $(call precompiled,NAME,HEADER,OBJECTS,FLAGS): the objects' flags are the header's, or g++ leaves it aside.
define precompiled_rules
$(BUILD)/precompiled/$(1).h.gch: $(2) | setup-packages
	mkdir -p $$(@D)
	scripts/make/progress $(BUILD) $$<
	$$(CXX) $$(filter-out -MMD,$$(ALL_CXXFLAGS)) $(4) -MD -MF $(BUILD)/precompiled/$(1).d -x c++-header $$< -o $$@
$(3): $(BUILD)/precompiled/$(1).h.gch
$(3): EXTRA_CXXFLAGS += -include $(BUILD)/precompiled/$(1).h -Winvalid-pch
-include $(BUILD)/precompiled/$(1).d
endef
precompiled = $(if $(PRECOMPILE),$(eval $(call precompiled_rules,$(1),$(2),$(3),$(4))))

$(call precompiled,test,tests/unit/precompiled.h,$(UNIT_OBJECTS_tracker),-O1)
