# How a folder becomes a static library, and what a program links: see folders.mk.

# Folders whose files are compiled as one: each of their files would spend most of its time on the same headers and templates.
# What stands in anonymous namespaces there needs a name that no other file of the folder has, and none that hides one of an
# outer namespace: that is no error. UNITY= compiles file by file.
UNITY := report/record report/phrasing report/log report/traffic report/text report/placement report/verdict report/tables report/check \
  tracker/log tracker/placement tracker/evidence tracker/memory tracker/copy cli cli/live fix/record fix/trials simulate/values/torch \
  binary/ptx tests/report tests/fix tests/kernels tests/binary tests/attach
# $(call unity_file,FOLDER,SOURCES): the file that includes them; a new one is made when the folder has another file.
define unity_file
$$(BUILD)/obj/$(1)/unity.cpp: $(2) $$(sort $$(dir $(2)))
	mkdir -p $$(@D)
	printf '#include "%s"\n' $(2) > $$@
$$(BUILD)/obj/$(1)/unity.o: $$(BUILD)/obj/$(1)/unity.cpp | setup-packages
	scripts/make/progress $$(BUILD) $(1)/
	$$(CXX) $$(ALL_CXXFLAGS) $$(EXTRA_CXXFLAGS) -c $$< -o $$@
endef
each_object = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(1))
# The objects of a folder, of these sources.
objects = $(if $(filter $(1),$(UNITY)),$(eval $(call unity_file,$(1),$(2)))$(BUILD)/obj/$(1)/unity.o,$(call each_object,$(2)))

# FLAGS_<folder>: what its objects are compiled with besides ALL_CXXFLAGS. CODE: all files whose includes are checked.
define library
FOLDERS += $(1)
USES_$(1) := $(2)
SOURCES_$(1) := $$(wildcard $(1)/*.cpp $(foreach p,$(3),$(1)/$(p)/*.cpp))
CODE += $$(wildcard $(foreach d,$(1) $(3:%=$(1)/%),$(d)/*.cpp $(d)/*.h $(d)/*.inc $(d)/*.S))
OBJECTS_$(1) := $$(call objects,$(1),$$(filter-out cli/main.cpp,$$(SOURCES_$(1))))
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
