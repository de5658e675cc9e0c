// How CPython itself lets devtrace in (PEP 768): a script that `devtrace attach` names to it opens this library as an
// extension module, between two instructions of Python. No module comes of it: it starts a thread, which waits for what
// is to be called. attach/interpreter_call.cpp is the other side.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "common/remote_call.h"
#include "interpose/devtrace.h"
#include "interpose/linking/original.h"

using devtrace::RemoteCall;

extern "C" {
DEVTRACE_EXPORT constinit RemoteCall devtrace_remote_call{RemoteCall::kVersion, 0, 0, 0, 0, {}, {}};
}

namespace {

constexpr int kPatience = 5000;  // milliseconds; who asked has given up by then

std::atomic_ref<uint32_t> state() {
  return std::atomic_ref(devtrace_remote_call.state);
}

void sleep_a_millisecond() {
  const timespec one{0, 1'000'000};
  ::nanosleep(&one, nullptr);
}

void serve() {
  RemoteCall& call = devtrace_remote_call;
  for (int i = 0; i < kPatience && state().load() == RemoteCall::waiting; ++i) sleep_a_millisecond();
  uint32_t nobody_asked = RemoteCall::waiting;
  if (state().compare_exchange_strong(nobody_asked, RemoteCall::idle)) return;
  call.reply[0] = '\0';
  call.result = static_cast<uint32_t>(call.detach ? devtrace_detach(call.reply, sizeof call.reply)
                                                  : devtrace_attach(call.options, call.reply, sizeof call.reply));
  state().store(RemoteCall::answered);
}

void* run(void*) {
  serve();
  return nullptr;
}

// No handler of the program's runs on it.
bool start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = ::pthread_create(&thread, nullptr, run, nullptr) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) ::pthread_detach(thread);
  return started;
}

// Whether nobody is at work here already.
bool take() {
  const auto self = static_cast<uint32_t>(::getpid());
  std::atomic_ref process(devtrace_remote_call.process);
  uint32_t now = state().load();
  if (process.load() == self && (now == RemoteCall::waiting || now == RemoteCall::asked)) return false;
  if (!state().compare_exchange_strong(now, RemoteCall::waiting)) return false;
  process.store(self);
  return true;
}

}  // namespace

// As CPython calls it for an extension module of that name. No module and no exception: that makes one of its own,
// which the script expects.
extern "C" DEVTRACE_EXPORT void* PyInit_devtrace_remote_call() {
  if (take() && !start_thread()) state().store(RemoteCall::idle);
  return nullptr;
}
