# Flags of whole groups of folders.

# In the process the hot paths' thread-local variables are the initial-exec model's: one instruction, no call.
IN_PROCESS := $(filter report/% tracker tracker/% interpose interpose/% cupti_tracer,$(FOLDERS))
$(foreach f,$(IN_PROCESS),$(eval FLAGS_$(f) += -ftls-model=initial-exec))

# What is shipped is linked against the C library as it was in 2.28 (scripts/glibc-stubs), with what came later of ours.
# A sanitizer cannot do without the newest.
GLIBC_STUBS := $(BUILD)/glibc-2.28
ifeq ($(VARIANT),)
OLD_GLIBC_ALONE = $(LIBRARY_common/glibc) -L$(GLIBC_STUBS)
# libstdc++ and the unwinder first: they want of it what they were built with.
OLD_GLIBC = -l:libstdc++.a -lgcc_eh $(OLD_GLIBC_ALONE)
OLD_GLIBC_START = $(OLD_GLIBC) -Wl,--wrap=__libc_start_main
OLD_GLIBC_NEEDS = $(LIBRARY_common/glibc) | $(GLIBC_STUBS)/libc.so
endif
$(GLIBC_STUBS)/libc.so: scripts/glibc-stubs | setup-packages
	$< $(@D) $(CXX)

# System headers: their warnings are not ours. __CUDA_API_VERSION_INTERNAL: cuda.h then declares every symbol under its
# own name (cuMemAlloc_v2) and renames none; hooks.inc names symbols.
$(foreach f,$(filter interpose interpose/%,$(FOLDERS)),$(eval FLAGS_$(f) += -isystem $(CUDA_INCLUDE) -D__CUDA_API_VERSION_INTERNAL))
FLAGS_cupti_tracer += -isystem $(CUDA_INCLUDE)
$(foreach f,$(filter interpose interpose/% cupti_tracer,$(FOLDERS)),$(eval $(OBJECTS_$(f)): | setup-python))

# The fat binaries' compression; static, so that no program meets a second libzstd.
LINK_device := -l:libzstd.a

FLAGS_tracker/stacks += -isystem $(CACHE)/libunwind/include
$(OBJECTS_tracker/stacks): | setup-libunwind

# Run once a finding or once a command: small rather than fast.
$(foreach f,finding report/verdict $(filter cli cli/% fix/%,$(FOLDERS)),$(eval FLAGS_$(f) += -Os))

# Libraries that stand in front of the C library's functions in every process bring nothing but it along: no exceptions, no guards of
# statics, nothing of libstdc++. Without the checks of _FORTIFY_SOURCE the headers declare the functions under their own names only.
IN_FRONT_OF_LIBC := fix/overlay simulate/device_files
$(foreach f,$(IN_FRONT_OF_LIBC),$(eval FLAGS_$(f) += -fno-exceptions -fno-rtti -fno-threadsafe-statics -U_FORTIFY_SOURCE))
link_in_front_of_libc = $(CXX) -shared -nodefaultlibs $(LDFLAGS) -o $@ -Wl,-soname,$(@F) -Wl,-z,defs -Wl,--as-needed $^ $(OLD_GLIBC_ALONE) -lc -lgcc
