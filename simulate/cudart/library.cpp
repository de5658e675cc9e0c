// Kernels that a program loads by itself, out of the runtime API's libraries: the driver's of the same name.
#include "simulate/cudart/runtime.h"

using namespace devtrace::simulate::cudart;

extern "C" {

// The options (just-in-time compilation) mean nothing to images that are only read.
cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                          unsigned int, cudaLibraryOption*, void**, unsigned int) {
  FORWARD(cuLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*, void**,
                                              unsigned int, cudaLibraryOption*, void**, unsigned int) {
  FORWARD(cuLibraryLoadFromFile(library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t library) {
  FORWARD(cuLibraryUnload(library));
}
cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  FORWARD(cuLibraryGetKernel(kernel, library, name));
}
cudaError_t CUDARTAPI cudaLibraryGetGlobal(void** pointer, size_t* size, cudaLibrary_t library, const char* name) {
  FORWARD(cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(pointer), size, library, name));
}
cudaError_t CUDARTAPI cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library) {
  FORWARD(cuLibraryGetKernelCount(count, library));
}
cudaError_t CUDARTAPI cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count, cudaLibrary_t library) {
  FORWARD(cuLibraryEnumerateKernels(kernels, count, library));
}

}  // extern "C"
