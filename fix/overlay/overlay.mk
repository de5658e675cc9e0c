# What `devtrace fix` brings along, in $(BUILD)/fix: the library by which a trial reads other text than lies on disk. The
# Python that makes the candidates, and that which forks for trials.
.PHONY: fix
fix: $(BUILD)/fix/overlay.so $(BUILD)/fix/serve.py $(BUILD)/fix/edits/copied

# Nothing but the C library may come with it into every process of a trial: no exceptions, no guards of statics, nothing of
# libstdc++. Without the checks of _FORTIFY_SOURCE the headers declare the functions under their own names only.
FLAGS_fix/overlay += -fno-exceptions -fno-rtti -fno-threadsafe-statics -U_FORTIFY_SOURCE
$(BUILD)/fix/overlay.so: $(OBJECTS_fix/overlay) $(OLD_GLIBC_NEEDS)
	mkdir -p $(@D)
	$(CXX) -shared -nodefaultlibs $(LDFLAGS) -o $@ -Wl,-soname,$(@F) -Wl,-z,defs -Wl,--as-needed $^ $(OLD_GLIBC_ALONE) -lc -lgcc

$(BUILD)/fix/serve.py: fix/overlay/serve.py
	install -D -m 644 $< $@

EDITS := $(wildcard fix/edits/*.py fix/edits/*/*.py)
$(BUILD)/fix/edits/copied: $(EDITS)
	rm -rf $(@D)
	for file in $(EDITS:fix/%=%); do install -D -m 644 fix/$$file $(BUILD)/fix/$$file; done
	touch $@
