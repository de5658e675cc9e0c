# What is on the machine before anything compiles. scripts/setup answers in a few hundredths of a second when nothing is
# missing. Its steps run beside each other: what needs no PyTorch compiles while PyTorch is downloaded.
.PHONY: setup setup-packages setup-libunwind setup-python
setup: setup-packages setup-libunwind setup-python ## install what is missing
setup-packages:
	scripts/setup packages
setup-libunwind: setup-packages
	scripts/setup libunwind
setup-python: setup-packages
	scripts/setup python
