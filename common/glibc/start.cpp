// Up to glibc 2.33 a program brings along what runs its constructors; the start files of later ones bring nothing. The
// linker sends their call here (--wrap).
extern "C" {

using Function = void (*)(int, char**, char**);
extern Function __init_array_start[] __attribute__((visibility("hidden")));
extern Function __init_array_end[] __attribute__((visibility("hidden")));

using Main = int (*)(int, char**, char**);
int __real___libc_start_main(Main main, int count, char** arguments, Function before, void (*after)(),
                             void (*loaders_end)(), void* stack_end);

static void run_constructors(int count, char** arguments, char** environment) {
  for (Function* function = __init_array_start; function != __init_array_end; ++function)
    (*function)(count, arguments, environment);
}

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main main, int count, char** arguments, Function,
                                                                   void (*after)(), void (*loaders_end)(),
                                                                   void* stack_end) {
  return __real___libc_start_main(main, count, arguments, run_constructors, after, loaders_end, stack_end);
}

}  // extern "C"
