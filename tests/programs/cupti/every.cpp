// Every function that the standard input names: "domain id symbol" a line. Each is called, and left again inside the
// callback of its beginning, as nothing can be passed to all of them.
#include <dlfcn.h>

#include <csetjmp>
#include <iostream>

#include "tests/programs/cupti/subscriber.h"

namespace {

jmp_buf g_back;
CUpti_CallbackDomain g_domain;
CUpti_CallbackId g_id;
std::string g_name;

void on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* given) {
  const auto& data = *static_cast<const CUpti_CallbackData*>(given);
  g_domain = domain;
  g_id = id;
  g_name = data.functionName;
  longjmp(g_back, 1);
}

// False: its callback did not come.
bool call(void* symbol) {
  if (setjmp(g_back)) return true;
  using Zeros =
      void (*)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);
  reinterpret_cast<Zeros>(symbol)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  return false;
}

}  // namespace

TEST(Every, FunctionOfTheList) {
  void* libraries[] = {
    nullptr,
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
#if CUDART_VERSION >= 13000
    dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD)
  };
#else
    dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD)
  };
#endif
  CUpti_SubscriberHandle handle;
  ASSERT_EQ(cuptiSubscribe(&handle, on_callback, nullptr), CUPTI_SUCCESS);
  int domain, functions = 0;
  CUpti_CallbackId id;
  std::string symbol;
  while (std::cin >> domain >> id >> symbol) {
    void* f = dlsym(libraries[domain], symbol.c_str());
    ASSERT_NE(f, nullptr) << symbol;
    const auto d = static_cast<CUpti_CallbackDomain>(domain);
    ASSERT_EQ(cuptiEnableCallback(1, handle, d, id), CUPTI_SUCCESS) << symbol;
    if (!call(f)) {
      ADD_FAILURE() << symbol << " has no callback";
      continue;
    }
    EXPECT_EQ(g_domain, d) << symbol;
    EXPECT_EQ(g_id, id) << symbol;
    EXPECT_EQ(g_name, symbol);
    const char* name = nullptr;
    EXPECT_EQ(cuptiGetCallbackName(d, id, &name), CUPTI_SUCCESS) << symbol;
    EXPECT_EQ(std::string(name).substr(0, symbol.size()), symbol);
    ++functions;
  }
  EXPECT_GT(functions, 600);
}
