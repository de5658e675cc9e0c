# The folders of code, lowest first: what each holds, what it may include, and so what is linked with it.
#
#   $(call folder,FOLDER,MAY INCLUDE,PARTS)
#
# FOLDER may include itself, and each folder named behind it; these stand above it in this file, so nothing can run in
# a circle. PARTS: its subfolders that belong to it and have no line of their own. `make lint` checks every #include
# against this file (scripts/check-includes), and docs/internals/folders.md shows pictures of it.

# What is shared by the code in the process and the code that reads logs.
$(call folder,common)
# What glibc has since 2.28 and is linked in, for older ones.
$(call folder,common/glibc)
# Bytes at hand that are read without leaving them; names of functions as compilers write them and as people read them: two headers.
$(call folder,binary)
# Object files: what the loader has loaded, in this process or another one, and what lies on disk; without the loader's locks.
$(call folder,binary/elf,binary)
# Split debug information (.dwo, .dwp): the functions that were inlined at an address.
$(call folder,binary/dwarf,binary/elf)
# PTX text as data: functions, their instructions, variables, lines of the source.
$(call folder,binary/ptx)
# Kernels in cubins, PTX and fat binaries: the layout of their parameters, and which of these their code uses as addresses.
$(call folder,binary/device,binary binary/elf binary/ptx)

# A log: its records as JSON, read one at a time.
$(call folder,report/record,common)
# Findings, signatures, libraries and C++ statements in words: the same in everything that people read.
$(call folder,report/phrasing,common report/record)
# A finding, typed, and the table of its fields: from a record and to one. Asks nothing of a GPU, Python or a disk.
$(call folder,finding,common report/record report/phrasing)
# What a record is known by, which ones somebody accepts, what a redacted one leaves out.
$(call folder,report/log,common finding report/record report/phrasing)
# Bytes between devices, and what they cost on the link.
$(call folder,report/traffic,common report/record report/phrasing)
# Findings, processes and their order in time, as text and Markdown.
$(call folder,report/text,common report/record report/phrasing report/log report/traffic)
# On which devices modules lie.
$(call folder,report/placement,common report/record report/text report/traffic)
# Why a finding happened (rules: a file each, those of modules in rules/modules, of kernels, copies and ranks in rules/cuda), and the line that
# repairs it (edits). Below it how lines of Python (source) and of C++ (cpp) are read.
$(call folder,report/verdict,common finding report/phrasing,source cpp edits rules rules/modules rules/cuda)
# Logs as rows of tables, for Arrow: what a finding, a call site, a process and a device's peak come to.
$(call folder,report/tables,common finding report/record report/phrasing report/log report/verdict)
# The HTML report, appended record by record.
$(call folder,report/html,common report/record report/phrasing report/log report/text report/traffic report/placement)
# Today's findings against a baseline, and the formats in which that is said.
$(call folder,report/check,common finding report/record report/phrasing report/log report/text report/traffic report/placement report/verdict report/html)

# Memory without malloc, maps, locks, clock, files, options, what a thread is doing.
$(call folder,tracker/base)
# CPython's frames, read as memory; below it what may be used under the GIL alone (gil), and what frames hold (objects).
$(call folder,tracker/python,binary/elf common tracker/base,gil objects)
# Python and native stacks, each kept once under an id, named later; below it how native ones are taken and named (native).
$(call folder,tracker/stacks,common binary binary/elf binary/dwarf tracker/base tracker/python,native)
# The types that cross into the tracker (events) and out of it (questions to the platform).
$(call folder,tracker/interface,binary/device)
# Which device owns an address, where a block came from, which device a thread chose, who may reach whom.
$(call folder,tracker/memory,common tracker/base tracker/python tracker/stacks tracker/interface)
# What was given to an operation, by name. Below it the program's text (source), Python's and PyTorch's objects (objects),
# where memory came from (origins), and the lines that an operand passed (lineage).
$(call folder,tracker/evidence,common binary/elf finding report/phrasing tracker/base tracker/python tracker/stacks tracker/interface tracker/memory,source objects origins lineage)
# The log on disk, the process record, and where a finding goes besides.
$(call folder,tracker/log,common binary binary/elf finding report/record report/phrasing report/text report/html tracker/base tracker/stacks tracker/interface)
# What the texts of errors say of devices: which are refusals, what they name, and which is one that was told already.
$(call folder,tracker/refusals,tracker/base tracker/python tracker/stacks tracker/interface tracker/evidence)
# From an event worth reporting to a finding in the log: one file a kind, and the policy of what is legitimate.
$(call folder,tracker/findings,common binary binary/dwarf finding report/phrasing report/log report/verdict tracker/base tracker/python tracker/stacks tracker/interface tracker/memory tracker/evidence tracker/refusals tracker/log)
# Every kernel's parameters, looked at before it is launched.
$(call folder,tracker/launch,common tracker/base tracker/interface tracker/memory tracker/findings)
# Both ends of every copy, and what moves between devices by call site.
$(call folder,tracker/copy,common finding report/html tracker/base tracker/stacks tracker/interface tracker/memory tracker/evidence tracker/log tracker/findings)
# On which device every parameter, buffer and cache lies, sampled; how much memory was in use at the most, and where it was not enough.
$(call folder,tracker/placement,common finding report/html report/placement tracker/base tracker/python tracker/stacks tracker/interface tracker/memory tracker/evidence tracker/log)
# What was there before devtrace was attached: the live blocks of PyTorch's allocator.
$(call folder,tracker/preexisting,tracker/base tracker/python tracker/memory)
# The ranks of a job: what they share about their communicators, and what that shows.
$(call folder,tracker/ranks,common tracker/base tracker/python tracker/stacks tracker/interface tracker/memory tracker/evidence tracker/log tracker/findings)
# The narrow waist (events.h), and the tracker's life in a process (session.h).
$(call folder,tracker,common tracker/base tracker/stacks tracker/interface tracker/memory tracker/log tracker/refusals tracker/findings tracker/launch tracker/copy tracker/placement tracker/preexisting tracker/ranks)

# Which functions are hooked, where the originals are, and what dlsym answers to who asks for one; below it the slots by which objects
# call each other (imports).
$(call folder,interpose/linking,binary/elf tracker/base,imports)
# The same events from CUPTI's callbacks, and the times of copies from its activity records.
$(call folder,cupti_tracer,binary/elf tracker tracker/base tracker/stacks interpose/linking)
# What CUDA's handles and structures mean as events.
$(call folder,interpose/cuda,binary/elf binary/device tracker tracker/base tracker/interface interpose/linking cupti_tracer)
# The hooks of CUDA's functions: one file a group. Each is compiled twice, for interposition and for CUPTI.
$(call folder,interpose/cuda_hooks,tracker tracker/base interpose/linking interpose/cuda)
# The hooks of cuBLAS, cuDNN and the like: one table, and a template for each sort of its rows.
$(call folder,interpose/math_libraries,binary/elf tracker interpose/linking interpose/cuda)
# The hooks of NCCL: communicators and collectives.
$(call folder,interpose/nccl,tracker interpose/linking interpose/cuda)
# The hooks of PyTorch's refusals and allocators.
$(call folder,interpose/pytorch,tracker tracker/base tracker/interface interpose/linking)
# The hooks of Python's exceptions, set when PyTorch is imported, and of CuPy's pool, when that is.
$(call folder,interpose/python,binary/elf tracker tracker/base tracker/python tracker/interface interpose/linking)
# libdevtrace.so: start and end of the process, attaching and detaching, CUDA's injection, the C interface.
$(call folder,interpose,common finding tracker tracker/base tracker/evidence tracker/memory tracker/log tracker/findings interpose/linking interpose/cuda interpose/pytorch interpose/python cupti_tracer)

# What a rehearsal can be asked for: models of GPUs, options, identities.
$(call folder,simulate/settings)
# What the stub libraries share: callbacks of profilers, per-thread variants, refusals of what is not simulated.
$(call folder,simulate/common)
# How true values are computed: by PyTorch's CPU kernels.
$(call folder,simulate/values,binary common simulate/settings)
# Kernels of PTX, computed: a block at a time, each instruction for all of its threads.
$(call folder,simulate/kernels,binary/ptx,instructions)
# The simulated devices and their streams; below it graphs, kernels with their faults, memory, and streams that run behind the host
# (asynchronous).
$(call folder,simulate/model,binary binary/device binary/ptx common simulate/common simulate/kernels simulate/settings simulate/values,asynchronous graph kernels memory)
# Kernels in front of PyTorch's dispatcher, compiled against its headers.
$(call folder,simulate/values/torch,simulate/values)
# Numbers, vectors and matrices in memory of devices, for the libraries that compute with them.
$(call folder,simulate/numbers,simulate/common)
# The stub libraries: one folder each, by the library's name; cuda12 below it: what only the one for CUDA 12 has.
$(call folder,simulate/cuda,simulate/common simulate/model simulate/settings simulate/values,graph memory)
$(call folder,simulate/cudart,simulate/common)
$(call folder,simulate/cudart/cuda12,simulate/common simulate/cudart)
$(call folder,simulate/cublas,simulate/common simulate/numbers)
$(call folder,simulate/cublasLt,simulate/common)
$(call folder,simulate/cusparse,simulate/common simulate/numbers)
$(call folder,simulate/cusolver,simulate/common simulate/numbers)
$(call folder,simulate/cufft,simulate/common simulate/numbers)
$(call folder,simulate/curand,simulate/common)
$(call folder,simulate/cudnn,simulate/common)
$(call folder,simulate/nccl,common simulate/common)
$(call folder,simulate/nvml,simulate/common)
$(call folder,simulate/cupti,simulate/common)

# What is preloaded besides: sends a CUDA runtime that is linked into a file to the stand-in runtime.
$(call folder,simulate/static_runtime,binary/elf)
# ... and who opens a CUDA library by its path to its stand-in.
$(call folder,simulate/dlopen,binary/elf)
# ... and what NVRTC and nvJitLink compile is known with the PTX that they made it of.
$(call folder,simulate/jit,binary/elf)
# ... and the files by which the driver shows that it is there, to who looks for them; checkpoints of which only the header is there.
$(call folder,simulate/device_files,common)

# A process: how it is started, and what the kernel says of one.
$(call folder,process,common)

# What a trial of a fix reads in the place of the program's files: preloaded, with nothing but libc below it.
$(call folder,fix/overlay,common)
# What a trial left on the disk, and the edits that fix/edits answers: from JSON, and its question to it.
$(call folder,fix/record,common finding report/record report/log)
# Runs of a program with edits, what each showed, and which edit is the best.
$(call folder,fix/trials,common process report/record fix/record)

# Another process before it is touched: its loaded objects, and why it is refused.
$(call folder,attach/process,common binary/elf process)
# A function of libdevtrace.so called in a process that is already running, by its interpreter or by ptrace.
$(call folder,attach,common process attach/process)

# What a process that is looked on at does: findings, memory and traffic, line by line as they come.
$(call folder,cli/live,common report/record report/phrasing report/traffic)

# The command: a file for each subcommand. Below it: which files and settings a program is started with (launch), what `fix` says and
# leaves (fix), and so on. Records as their readers may see them are in records, who last changed a line in check, what Python's own
# libraries make of logs in tables.
$(call folder,cli,common attach attach/process finding report/record report/phrasing cli/live report/log report/text report/traffic report/placement report/tables report/html report/check simulate/settings simulate/static_runtime process fix/trials,launch fix place doctor records check tables)
