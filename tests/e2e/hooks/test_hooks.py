"""The table of hooks against CUDA's public headers and the libraries' own symbols. Nothing that launches, copies, allocates, or changes
what a thread works on may be in neither the table nor the list of what is left out on purpose."""

import re
import sys

import pytest
from conftest import TOP
from test_library import SITE, symbols

INCLUDE = TOP / ".cache/cuda/include"
sys.path.insert(0, str(TOP / "simulate/tools"))

# What a name must match to be looked at.
CONCERNED = re.compile(
    r"Launch(?!AttributeS)|Memcpy|Alloc(?!ationGranularity|ationProperties)|Malloc|Free(?!d)|MemMap|Unmap|MapBuffer|MapResources|MappedPointer|MappedBuffer"
    r"|Ipc(Open|Close)|ImportPointer|HostRegister|HostUnregister|AddressReserve|MemCreate|MemRelease|MemImport|Multicast(Bind|Create|Unbind|Add)"
    r"|ctx(Create|Destroy|SetCurrent|PushCurrent|PopCurrent|Attach|Detach|FromGreen)|PrimaryCtx(Retain|Release|Reset)|GreenCtx(Create|Destroy)"
    r"|(SetDevice|SetGLDevice|SetVDPAUDevice|SetValidDevices|DeviceReset|InitDevice|ThreadExit)$|SetMemPool$|MemPool(Create|Destroy|TrimTo|Import|SetAccess)"
    r"|PeerAccess|MemSetAccess|Add\w*Node|NodeSetParams|cuParamSet[vif]$|GetProcAddress|DriverEntryPoint(?!Query)",
    re.I,
)
# Matches that only ask, by the end of their names.
ASKS = re.compile(r"Get\w*(Info|Attribute|Params|Access|Granularity|State|Flags|Properties|Handle)(_v\d)?$|CanAccessPeer$|^cu(da)?(Occupancy|DeviceGetP2P)")

# Everything else that is not in the table, and why. A name is a whole one or ends in *.
LEFT_OUT = {
    "before CUDA 3.2, addresses of 32 bits: no 64-bit program can call it": """
        cuMemAlloc cuMemAllocPitch cuMemFree cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyDtoA cuMemcpyAtoD cuMemcpyHtoA cuMemcpyAtoH
        cuMemcpyAtoA cuMemcpyHtoAAsync cuMemcpyAtoHAsync cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D cuMemcpyHtoDAsync cuMemcpyDtoHAsync
        cuMemcpyDtoDAsync cuMemcpy2DAsync cuMemcpy3DAsync cuGLMapBufferObject cuGLMapBufferObjectAsync cuGraphicsResourceGetMappedPointer""",
    "an array is opaque: no kernel's parameter can be an address in it": """
        cudaMallocArray cudaMalloc3DArray cudaMallocMipmappedArray cudaFreeArray cudaFreeMipmappedArray
        cuMemMapArrayAsync cuMemMapArrayAsync_ptsz""",
    "both ends are arrays": """
        cudaMemcpyArrayToArray cudaMemcpyArrayToArray_ptds cudaMemcpy2DArrayToArray cudaMemcpy2DArrayToArray_ptds
        cuMemcpyAtoA_v2 cuMemcpyAtoA_v2_ptds""",
    "a function of the host is no kernel": "cudaLaunchHostFunc cudaLaunchHostFunc_ptsz cuLaunchHostFunc cuLaunchHostFunc_ptsz",
    "everything in a graph was looked at when it was added or captured": """
        cudaGraphAddChildGraphNode cuGraphAddChildGraphNode""",
    "a node that touches no memory, or sets it on whatever device it is": """
        cudaGraphAdd*EmptyNode cuGraphAdd*EmptyNode cudaGraphAddEvent* cuGraphAddEvent* cudaGraphAddExternal* cuGraphAddExternal*
        cudaGraphAddHostNode cuGraphAddHostNode cudaGraphAddMemsetNode cuGraphAddMemsetNode cuGraphAddBatchMemOpNode
        cudaGraphExternal* cuGraphExternal* cudaGraphExecExternal* cuGraphExecExternal* cudaGraphHostNodeSetParams cuGraphHostNodeSetParams
        cudaGraphExecHostNodeSetParams cuGraphExecHostNodeSetParams cudaGraphMemsetNodeSetParams cuGraphMemsetNodeSetParams
        cudaGraphExecMemsetNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphBatchMemOpNodeSetParams cuGraphExecBatchMemOpNodeSetParams""",
    "the memory is given back whenever the graph is launched, and its address stays the graph's": """
        cudaGraphAddMemFreeNode cuGraphAddMemFreeNode""",
    "gives back only memory that nobody holds": "cudaMemPoolTrimTo cuMemPoolTrimTo",
    "decides which pool serves later allocations; each is asked for when it is made": """
        cudaDeviceSetMemPool cuDeviceSetMemPool cudaMemSetMemPool cuMemSetMemPool""",
    "another process's pool: what is allocated from it comes by pointers that are imported": """
        cudaMemPoolImportFromShareableHandle cuMemPoolImportFromShareableHandle""",
    "addresses without memory, or memory without addresses: cuMemMap joins them": """
        cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemImportFromShareableHandle cuMemRetainAllocationHandle""",
    "a multicast object's memory is every member's": """
        cuMulticastCreate cuMulticastAddDevice cuMulticastBindMem cuMulticastBindAddr cuMulticastUnbind""",
    "the display driver's memory, given and taken with each frame: asked for at a launch": """
        cudaGLMapBufferObject* cudaGLUnmapBufferObject* cuGLMapBufferObject_v2* cuGLMapBufferObjectAsync_v2* cuGLUnmapBufferObject*
        cudaGraphicsMapResources cuGraphicsMapResources*
        cudaGraphicsUnmapResources cuGraphicsUnmapResources* cudaGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2""",
    "an event, no memory": "cudaIpcOpenEventHandle cuIpcOpenEventHandle",
    "makes a context or a device ready and changes no thread's": """
        cuDevicePrimaryCtxRetain cuGreenCtxCreate cuCtxFromGreenCtx""",
    "an inline function of cuda.h's": "cuGetProcAddress_v2_ptsz",
    "an inner door of the runtime's, in no public header": "__cudaGetProcAddress",
}


def rows() -> set[str]:
    return set(re.findall(r'^HOOK\("libcu\w+\.so", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M))


def runtime_symbols() -> set[str]:
    """As the real libraries export them: CUDA 13's out of the wheel, and, where its list was made, CUDA 12's."""
    found = set()
    for library in SITE.glob("nvidia/cu13/lib/libcudart.so.13"):
        found |= symbols(library, "--defined-only")
    for listed in (TOP / ".cache/cuda12").glob("libcudart.so.12.symbols"):
        found |= {line.split()[0] for line in listed.read_text().splitlines()}
    return found


def declared(header: str, result: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/", " ", (INCLUDE / header).read_text(), flags=re.S)
    return set(re.findall(rf"\b{result}\s+(?:CUDARTAPI\w*|CUDAAPI)\s+(?:__cudart_builtin__\s+)?(\w+)\s*\(", text))


def all_symbols(tmp_path) -> set[str]:
    """What libcuda.so.1 exports no wheel has: it is worked out of cuda.h's declarations and macros."""
    import driver_symbols

    names, table = tmp_path / "names", tmp_path / "table"
    arguments, sys.argv = sys.argv, ["", str(INCLUDE), "--names", str(names), "--table", str(table)]
    try:
        driver_symbols.main()
    finally:
        sys.argv = arguments
    driver = {line.split()[0] for line in names.read_text().splitlines()}
    return driver | runtime_symbols() | declared("cuda_runtime_api.h", "cudaError_t")


def left_out() -> dict[str, re.Pattern]:
    return {
        name: re.compile(re.escape(name).replace(r"\*", r"\w*") + "$") for names in LEFT_OUT.values() for name in names.split()
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    found = all_symbols(tmp_path_factory.mktemp("symbols"))
    assert {"cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cuLaunchKernel_ptsz", "cuMemAlloc_v2", "cuMemcpyHtoD_v2_ptds"} <= found
    return {name for name in found if re.match(r"(__)?cu(da)?[A-Z]", name)}


def test_every_entry_point_is_in_the_table_or_left_out_on_purpose(everything):
    patterns = left_out().values()
    unknown = {
        name for name in everything - rows()
        if CONCERNED.search(name) and not ASKS.search(name) and not any(pattern.match(name) for pattern in patterns)
    }
    assert sorted(unknown) == []


def test_nothing_is_left_out_that_is_not_there_or_is_hooked(everything):
    gone = [name for name, pattern in left_out().items() if not any(pattern.match(symbol) for symbol in everything)]
    hooked = [(name, row) for name, pattern in left_out().items() for row in rows() if pattern.match(row)]
    idle = [name for name, pattern in left_out().items() if not any(CONCERNED.search(s) for s in everything if pattern.match(s))]
    assert (gone, hooked, idle) == ([], [], [])


# These went with CUDA 12, whose own list is only there where somebody has built its stub.
CUDA_12 = {"cudaThreadExit", "cudaLaunchCooperativeKernelMultiDevice", "cudaGraphAddNode_v2"}


def test_every_row_is_a_symbol_of_cudas(everything):
    assert sorted(rows() - everything - CUDA_12) == []


def test_versions_of_hooked_functions_are_those_of_the_headers():
    """An ABI that is missing here would be taken for another one by whoever asks cuGetProcAddress."""
    text = "\n".join((INCLUDE / header).read_text() for header in ("cudaTypedefs.h", "cudaGLTypedefs.h", "cudaVDPAUTypedefs.h"))
    since = {}
    for name, version in re.findall(r"PFN_(cu[A-Z]\w*?)_v(\d+)\)", text):
        since.setdefault(name, set()).add(int(version))
    abis = {}
    for row in rows():
        abi = re.sub(r"_pts[zd]|_ptds", "", row)
        abis.setdefault(re.sub(r"_v\d$", "", abi), set()).add(abi)
    expected = {}
    for name, own in abis.items():
        if len(own) > 1 and name.startswith("cu") and not name.startswith("cuda"):
            assert len(own) == len(since[name]), name
            expected |= dict(zip(sorted(own, key=lambda abi: (len(abi), abi)), sorted(since[name])))
    listed = dict(re.findall(r"^ABI\((\w+), (\d+)\)$", (TOP / "interpose/linking/driver_abis.inc").read_text(), re.M))
    assert {name: int(version) for name, version in listed.items()} == expected
