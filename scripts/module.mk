# What is on the machine before anything compiles. Everything that needs a compiler, .venv or .cache takes setup-native as an
# order-only prerequisite; scripts/setup answers in a few hundredths of a second when nothing is missing.
.PHONY: setup setup-native
setup setup-native:
	@scripts/setup

# The CUDA headers of the PyTorch wheels (or a toolkit's): a link that scripts/setup makes.
CUDA_INCLUDE := .cache/cuda/include
