/* A library that calls a CUDA function in each way that has a slot of its own: through the PLT, and through a pointer
 * in its data. */
int cudaMemcpy(void* to, const void* from, unsigned long bytes, int kind);

static int (*const pointer)(void*, const void*, unsigned long, int) = cudaMemcpy;
static int (*const* volatile where)(void*, const void*, unsigned long, int) = &pointer;

enum { kHostToHost = 0 };

int imports_call(void* to, const void* from, unsigned long bytes) {
  return cudaMemcpy(to, from, bytes, kHostToHost);
}

int imports_call_by_pointer(void* to, const void* from, unsigned long bytes) {
  return (*where)(to, from, bytes, kHostToHost);
}
