// What devtrace needs of a machine and of a Python, each tried where that can be, with what to do where it is not
// there.
#pragma once

#include <string>
#include <vector>

namespace devtrace::cli::doctor {

enum class State { good, missing, bad };  // `missing`: one can do without

struct Answer {
  State state = State::good;
  std::string fact;    // one line
  std::string advice;  // one line; empty where there is nothing to do
};

// What was asked of an interpreter.
struct Python {
  std::string path;                    // empty: there is none
  std::string version;                 // "3.11.7"; empty: it cannot be run
  std::string problem;                 // why it cannot
  std::string torch, cuda, ipykernel;  // versions; `cuda` empty: PyTorch without it
  std::string torch_problem;           // it is there and cannot be imported
  bool remote_exec = false;            // sys.remote_exec
};
// `wanted`: a file or a name in PATH.
Python ask(const std::string& wanted);

// In the order in which they are told. Some start programs; together they take some seconds.
struct Check {
  const char* name;
  Answer (*answer)(const Python& python);
};
const std::vector<Check>& checks();

}  // namespace devtrace::cli::doctor
