// What the names of a function mean at one of its lines, while it runs and after it has returned.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/lineage/function_text.h"
#include "tracker/evidence/objects/holders.h"
#include "tracker/evidence/objects/object_walk.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

// Of one stack that is gone, beside the one that is running. Names are told whose values are the same now as then: what
// is given to a function is followed through its calls, from the innermost function that still runs. Under the GIL.
class KnownNames {
 public:
  KnownNames(const python::Api& api, const Torch& torch, const std::vector<Frame>& frames, const Scope& scope,
             ObjectWalk& walk, Holders& holders, const SourceText& source, std::vector<PyObject*> operands);

  // For each device an expression that means it in the line of that frame of `made`, the best one: by what was there at
  // that time already (memory::provenance::Origin::time).
  finding::List<finding::DeviceExpression> devices_at(const std::vector<stacks::PythonFrame>& made, size_t frame,
                                                      uint64_t time) const;
  // … and the device that this expression means there, `cuda` for the current one. Empty: that is not known.
  std::string device_meant(const std::vector<stacks::PythonFrame>& made, size_t frame, uint64_t time,
                           std::string_view expression) const;
  // … in a line of a method that has returned, by what its object has written down above: the only one of that class
  // that a running function has. `made`: the stack in which that line may stand.
  finding::List<finding::DeviceExpression> devices_of_object(const stacks::PythonFrame& code,
                                                             const std::vector<stacks::PythonFrame>& made) const;
  // … in a line that constructed the only object of its class that a running function has: by what the line gave, and
  // the object keeps under the parameter's name.
  finding::List<finding::DeviceExpression> devices_of_given(const stacks::PythonFrame& caller,
                                                            const stacks::PythonFrame& constructor,
                                                            uint64_t time) const;
  // … in the line of the only method that gives the module of that class this parameter or buffer anew. `line`: that
  // line; it is left alone where there is none.
  finding::List<finding::DeviceExpression> devices_of_stored_state(const std::string& type,
                                                                   const std::string& attribute,
                                                                   stacks::PythonFrame& line) const;
  // … in a line of a running frame: where nothing else is said, the one that it is in.
  finding::List<finding::DeviceExpression> devices_in(size_t frame, int line = 0) const;
  // The line of a running frame's function that has given a variable, an attribute or an element the value that it has
  // now. Of an element also the one that gave the container, where no line stores into it.
  std::optional<int> line_that_binds(size_t frame, const std::string& name) const;
  // The only line of the function that puts something behind a list which that line reads, if it stands above:
  // `parts.append(…)` of `torch.cat(parts)`.
  std::optional<int> line_that_appends(const stacks::PythonFrame& code) const;
  // The line that gave its name, a variable or an attribute of `self`, to the only object of that class that a running
  // function has so. Of an attribute the only line of the file that does.
  std::optional<stacks::PythonFrame> line_that_names(size_t frame, const std::string& type) const;
  // `rng = torch.Generator()` above the only line of the program's that constructs that class with `generator=rng`.
  // Else the only line that makes a generator.
  std::optional<stacks::PythonFrame> line_that_made_generator(const std::string& type) const;
  // The only line of the program's own files, as far as they are imported, that has that text as code, and not None
  // behind it.
  std::optional<stacks::PythonFrame> only_line_with(std::string_view text) const;
  // … that calls a class of that name, and the function that it is in.
  std::optional<stacks::PythonFrame> only_construction_of(const std::string& type) const;
  // Variables that lie in that memory and are read by the line that their frame is in, of the frames that have none of
  // these names: `x` of `f(x.t())`.
  std::vector<finding::Name> variables_of(uintptr_t storage, const std::vector<finding::Name>& names) const;
  // The function of that name that has the line; null where its text is not to be had.
  const FunctionText* function_of(const std::string& file, const std::string& name, int line) const;
  // Does a method of the same object, which the function calls below that line, compute with the attribute `self.x`?
  bool computes_in_a_call(const FunctionText& function, const std::string& file, int line,
                          std::string_view attribute) const;
  // Has a branch that begins so, `if on_gpu:` or `if not self.cuda:`, been taken? `frame`: the running one that has it.
  // Nothing: its text does not say so by a value that can be had without running code.
  std::optional<bool> taken(std::optional<size_t> frame, std::string_view branch) const;
  // Does a running frame's function read the variable, or an attribute of one, below the statement that it is in,
  // before that has a new value?
  // No where a line in front of that statement could not give it one.
  bool read_again(size_t frame, const std::string& variable) const;

 private:
  using IsMeant = std::function<bool(std::string_view line)>;
  std::optional<stacks::PythonFrame> only_line(const IsMeant& meant) const;

  struct Known {
    std::string name;
    python::Ref value;
    bool parameter = false;
  };
  struct Candidate {
    int rank;
    std::string expression, device;
    PyObject* tensor = nullptr;  // borrowed: the one that says so, of a module its first parameter
    bool unnumbered = false;
  };

  std::vector<Candidate> candidates_at(const std::vector<stacks::PythonFrame>& made, size_t frame, uint64_t time) const;
  std::vector<Known> of_live(const FunctionText& function, const LiveLine& line) const;
  std::vector<Known> through_call(const std::vector<Known>& outside, std::optional<size_t> live,
                                  const stacks::PythonFrame& caller, const stacks::PythonFrame& called,
                                  const FunctionText& function, bool module) const;
  python::Ref module_code(const std::string& file) const;
  std::vector<Known> of_module_code(const std::string& file) const;
  python::Ref only_object_of(const std::string& method) const;
  void each_below(PyObject* module, int& left, const std::function<void(PyObject*)>& visit) const;
  void erase_later(std::vector<Candidate>& candidates, uint64_t time) const;
  void add_devices_of_self(const stacks::PythonFrame& made, const std::vector<stacks::PythonFrame>& stack,
                           const FunctionText& function, std::vector<Candidate>& out) const;
  finding::List<finding::DeviceExpression> best_of(std::vector<Candidate> candidates) const;
  python::Ref follow(const std::vector<Known>& names, std::optional<size_t> live, const Path& path) const;
  void add_candidates(const Known& known, std::vector<Candidate>& out) const;
  void add_module(const Known& known, std::vector<Candidate>& out) const;
  PyObject* first_parameter(PyObject* module) const;  // borrowed; null: it has none whose memory can be asked for
  python::Ref child_table(PyObject* object) const;    // of a module; empty where it is no dict
  void add_parts(const std::string& name, PyObject* module, int rank, std::vector<Candidate>& out) const;
  void add_optimizer(const Known& known, std::vector<Candidate>& out) const;
  void add_settings(const std::string& dict, PyObject* value, int rank, int depth, std::vector<Candidate>& out) const;
  void add_kept_devices(const std::string& object, PyObject* value, int rank, std::vector<Candidate>& out) const;
  void add_device(const std::string& expression, PyObject* value, int rank, std::vector<Candidate>& out) const;

  const python::Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const Scope& scope_;
  ObjectWalk& walk_;
  Holders& holders_;
  const SourceText& source_;
  mutable FunctionTexts texts_;
  const std::vector<PyObject*> operands_;  // their names are the reader's
  std::string current_;                    // what "cuda" means to this thread; empty: CUDA is not in use
};

}  // namespace devtrace::evidence
