# The stub libraries, a row each, in the order in which LD_PRELOAD has to name them: a library before those that need it.
# To add one: a row, and its folder simulate/<name> with a line in folders.mk.
#
#   name      of its folder, where the functions that it simulates are written by hand
#   CUDA 13   its file
#   CUDA 12   the file that `make simulate-cuda12` builds from the same sources; -: that of CUDA 13 serves both
#   symbols   what it exports: what the real library in this folder of the wheels does, or a list that is made out of headers
#   code      what its functions return that are not simulated: "not supported"
#   besides   generated: tools/library.py has rules by which it writes many functions out of the library's headers
#             Driver, Runtime: a profiler is told of its calls, in this domain of CUPTI's, and some of its functions exist
#             once more for a default stream a thread; simulate/<name>/api_declarations.h declares all of them
#
# name     | CUDA 13           | CUDA 12           | symbols      | code | besides
define STUB_LIBRARY_TABLE
  cuda     | libcuda.so.1      | -                 | driver.names | 801  | Driver
  cudart   | libcudart.so.13   | libcudart.so.12   | cu13/lib     | 801  | Runtime
  cublasLt | libcublasLt.so.13 | libcublasLt.so.12 | cu13/lib     | 15   | -
  cublas   | libcublas.so.13   | libcublas.so.12   | cu13/lib     | 15   | generated
  cusparse | libcusparse.so.12 | libcusparse.so.12 | cu13/lib     | 10   | generated
  cusolver | libcusolver.so.12 | libcusolver.so.11 | cu13/lib     | 9    | generated
  cufft    | libcufft.so.12    | libcufft.so.11    | cu13/lib     | 16   | -
  curand   | libcurand.so.10   | -                 | cu13/lib     | 999  | -
  cudnn    | libcudnn.so.9     | -                 | cudnn/lib    | 3000 | -
  nccl     | libnccl.so.2      | -                 | nccl/lib     | 5    | -
  nvml     | libnvidia-ml.so.1 | -                 | nvml.names   | 3    | -
  cupti    | libcupti.so.13    | libcupti.so.12    | cu13/lib     | 27   | -
endef

# What single ones export that the real library does not (tools/stub_library.py). The driver: every function once more under
# this prefix, by which the others call it, the ends of a process that model/summary.cpp waits for, and the machine's name. The runtime of CUDA 13
# and NCCL: what came after those that are here, without which a newer PyTorch is not even loaded. cuDNN: two answers of
# PyTorch's (cudnn/cudnn.cpp).
STUB_EXPORTS_cuda := --alias devtrace_sim_ --extra _exit _Exit gethostname uname
STUB_EXPORTS_cudart = $(call by_cuda,$*,,--also simulate/cudart/newer.names)
STUB_EXPORTS_nccl := --also simulate/nccl/newer.names --twins p
STUB_EXPORTS_cudnn := --extra _ZNK2at7Context16userEnabledCuDNNEv _ZNK2at7Context19userEnabledCuDNNSDPEv

# The table's rows as words, name|CUDA 13|…, and a cell: $(call stub_cell,NAME,COLUMN), or cuda12/NAME (module.mk).
space := $(subst ,, )
STUB_LIBRARY_ROWS := $(subst $(space)|$(space),|,$(strip $(STUB_LIBRARY_TABLE)))
STUB_LIBRARIES := $(foreach row,$(STUB_LIBRARY_ROWS),$(firstword $(subst |, ,$(row))))
stub_cell = $(word $(2),$(subst |, ,$(filter $(notdir $(1))|%,$(STUB_LIBRARY_ROWS))))
