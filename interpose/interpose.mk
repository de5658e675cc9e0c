# libdevtrace.so.

# The hooks of CUDA's functions once more, as the bodies of CUPTI's callbacks (interpose/cuda/hook.h). What nvcc's code calls
# when it is loaded is no callback of CUPTI's that says whether it succeeded; look-ups are none either.
CALLBACK_OBJECTS := $(patsubst interpose/cuda_hooks/%.cpp,$(BUILD)/obj/cupti_tracer/callbacks/%.o,\
  $(filter-out %/fatbin.cpp %/proc_address.cpp,$(SOURCES_interpose/cuda_hooks)))
$(CALLBACK_OBJECTS): EXTRA_CXXFLAGS = $(FLAGS_interpose/cuda_hooks) -DDEVTRACE_HOOKS_AS_CALLBACKS
$(CALLBACK_OBJECTS): $(BUILD)/obj/cupti_tracer/callbacks/%.o: interpose/cuda_hooks/%.cpp | setup-python
	mkdir -p $(@D)
	scripts/make/progress $(BUILD) cupti_tracer/callbacks/$*
	$(CXX) $(ALL_CXXFLAGS) $(EXTRA_CXXFLAGS) -c $< -o $@

# cuDNN's and NCCL's headers are not with the others.
FLAGS_interpose/math_libraries += -isystem $(CUDA_WHEEL_LIBRARIES)/cudnn/include
FLAGS_interpose/nccl += -isystem $(CUDA_WHEEL_LIBRARIES)/nccl/include

# What the library exports is the table of hooks, what CUDA calls in an injected library, and its own C interface;
# everything else, libstdc++ and libunwind included, stays inside. A reference without a version accepts `devtrace`. The C
# library's functions name themselves unversioned, which any version accepts; the CUDA runtime's versions are those of
# interpose/linking/versioned_trampolines.cpp, libstdc++'s is that of interpose/pytorch/throw_hook.cpp.
EXPORTS := $(BUILD)/libdevtrace.map
$(EXPORTS): interpose/linking/hooks.inc interpose/linking/cudart_versions.inc interpose/interpose.mk
	mkdir -p $(@D)
	{ echo 'devtrace { global:'; sed -n '/"libc\.so"/d; /"libstdc++\.so"/d; s/^HOOK("[^"]*", \(.*\))$$/  \1;/p' $<; echo '  InitializeInjection; PyInit_devtrace_remote_call; devtrace_*;'; echo 'local: *; };'; \
	  sed -n 's/^VERSION([0-9]*, \(.*\))$$/\1 { };/p' interpose/linking/cudart_versions.inc; echo 'CXXABI_1.3 { };'; } > $@

# What the stacks' library is linked with. libgcc's unwinder first: libunwind defines the same names, and our own exceptions
# must keep the one they were compiled for. --wrap: what stands in dl_iterate_phdr's place (binary/elf/loaded_objects.h),
# for whatever is linked in.
# --undefined: what libunwind calls in the C library's place is found before libunwind is read.
UNWIND := $(BUILD)/lib/libunwind.a
LINK_stacks := -Wl,--wrap=dl_iterate_phdr -Wl,--undefined=unwinder_pipe2 -lgcc_eh $(UNWIND) -lbacktrace
# With what tracker/stacks/native/unwinder_memory.h says in the place of a pipe. Linit.o is the one object that has it.
UNWIND_MEMORY := pipe2 read close syscall
$(UNWIND): interpose/interpose.mk | setup-libunwind
	mkdir -p $(@D)
	cp $(CACHE)/libunwind/lib/libunwind.a $@
	cd $(@D) && $(AR) x libunwind.a Linit.o && $(OBJCOPY) $(foreach f,$(UNWIND_MEMORY),--redefine-sym $(f)=unwinder_$(f)) Linit.o && $(AR) r libunwind.a Linit.o && rm Linit.o
$(LIBRARY_tracker/stacks): | $(UNWIND)

# Hooks are called by nobody here, so their objects are named, not looked for. Everything static but the C library: a
# preloaded object must bring nothing along that the program did not ask for.
HOOK_FOLDERS := interpose interpose/python interpose/pytorch interpose/cuda_hooks interpose/math_libraries interpose/nccl interpose/linking
HOOK_OBJECTS := $(foreach f,$(HOOK_FOLDERS),$(OBJECTS_$(f)))
$(BUILD)/libdevtrace.so: $(HOOK_OBJECTS) $(CALLBACK_OBJECTS) $(filter-out $(foreach f,$(HOOK_FOLDERS),$(LIBRARY_$(f))),$(call libraries,$(HOOK_FOLDERS))) $(EXPORTS) $(OLD_GLIBC_NEEDS)
	$(CXX) -shared $(LDFLAGS) $(LINK_INPUTS) -Wl,-Bsymbolic-functions -Wl,--version-script=$(EXPORTS) -Wl,-z,defs -Wl,--gc-sections -Wl,-soname,libdevtrace.so \
	  -static-libstdc++ -static-libgcc $(filter %.o,$^) $(filter %.a,$^) $(LINK_stacks) $(LINK_device) $(OLD_GLIBC) -ldl -o $@
