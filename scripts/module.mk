# What is on the machine before anything compiles.
.PHONY: setup setup-native
setup:
	scripts/setup
setup-native: .cache/libunwind/lib/libunwind.a
.cache/libunwind/lib/libunwind.a:
	scripts/build-libunwind
