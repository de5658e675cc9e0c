# How a folder becomes a static library, and what a program links: see folders.mk.

# FLAGS_<folder>: what its objects are compiled with besides ALL_CXXFLAGS. CODE: all files whose includes are checked.
define library
FOLDERS += $(1)
USES_$(1) := $(2)
SOURCES_$(1) := $$(wildcard $(1)/*.cpp $(foreach p,$(3),$(1)/$(p)/*.cpp))
CODE += $$(wildcard $(foreach d,$(1) $(3:%=$(1)/%),$(d)/*.cpp $(d)/*.h $(d)/*.inc $(d)/*.S))
OBJECTS_$(1) := $$(patsubst %.cpp,$$(BUILD)/obj/%.o,$$(SOURCES_$(1)))
LIBRARY_$(1) := $$(if $$(SOURCES_$(1)),$$(BUILD)/lib/$(subst /,-,$(1)).a)
$$(OBJECTS_$(1)): EXTRA_CXXFLAGS = $$(FLAGS_$(1))
$$(BUILD)/lib/$(subst /,-,$(1)).a: $$(OBJECTS_$(1))
	mkdir -p $$(@D)
	rm -f $$@
	$$(AR) rcs $$@ $$^
endef
folder = $(eval $(call library,$(1),$(2),$(3)))

reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
# All that some folders stand on, themselves included, with repetitions.
below = $(1) $(foreach f,$(1),$(if $(USES_$(f)),$(call below,$(USES_$(f)))))
# The libraries that a program of some folders links, highest first: the linker looks for what is missing to the right.
libraries = $(foreach f,$(call reverse,$(filter $(call below,$(1)),$(FOLDERS))),$(LIBRARY_$(f)))

# Which archives the linker read for a file that is shipped: scripts/third-party-licences holds the notices to it.
LINK_INPUTS = $(shell mkdir -p $(BUILD)/obj/linked)-Wl,--dependency-file=$(BUILD)/obj/linked/$(subst /,-,$(@:$(BUILD)/%=%)).inputs

# Every object lies under $(BUILD)/obj with the path of its source, so that a folder can be renamed without touching rules.
$(BUILD)/obj/%.o: %.cpp | setup-packages
	mkdir -p $(@D)
	scripts/make/progress $(BUILD) $<
	$(CXX) $(ALL_CXXFLAGS) $(EXTRA_CXXFLAGS) -c $< -o $@

# An include that runs against folders.mk fails the build.
$(BUILD)/includes-checked: scripts/check-includes folders.mk | setup-packages
	mkdir -p $(@D)
	$<
	touch $@
