# What `devtrace fix` brings along, in $(BUILD)/fix: the library by which a trial reads other text than lies on disk. The
# Python that makes the candidates, and that which forks for trials.
.PHONY: fix
fix: $(BUILD)/fix/overlay.so $(BUILD)/fix/serve.py $(BUILD)/fix/edits/copied

$(BUILD)/fix/overlay.so: $(OBJECTS_fix/overlay) $(OLD_GLIBC_NEEDS)
	mkdir -p $(@D)
	$(link_in_front_of_libc)

$(BUILD)/fix/serve.py: fix/overlay/serve.py
	install -D -m 644 $< $@

EDITS := $(wildcard fix/edits/*.py fix/edits/*/*.py)
$(BUILD)/fix/edits/copied: $(EDITS)
	rm -rf $(@D)
	for file in $(EDITS:fix/%=%); do install -D -m 644 fix/$$file $(BUILD)/fix/$$file; done
	touch $@
