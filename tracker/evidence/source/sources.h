// What operands were computed from: the tensors that the line that made one names, and the module that it calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracker/evidence/lineage/lines_behind.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

class Sources {
 public:
  // `asking`: the frame whose expression asked for it. `operands`: those of the operation; sources are put behind them
  // until nest().
  Sources(const python::Api& api, const Torch& torch, const std::vector<Frame>& frames, size_t asking,
          const SourceText& source, const Scope& scope, ObjectWalk& walk, Holders& holders,
          std::vector<Operand>& operands)
      : api_(api),
        torch_(torch),
        frames_(frames),
        asking_(asking),
        source_(source),
        scope_(scope),
        reach_(walk),
        holders_(holders),
        operands_(operands) {}

  // What each operand was computed from, as far as the line that computed it stands in a function that still runs. The
  // tensors on its device that this line names, and so on from these; or the module that it calls.
  void add();
  // Each becomes a part of what was computed from it.
  // Once they have names: of those that a call was given by an expression, `loss(x.softmax(-1), y)`, in a library's
  // code. Answers whether it found any.
  bool add_of_expressions();
  void nest();
  // What was called to give a result, and the tensors on the result's device that it keeps from before: in its closure,
  // in the object whose method it is. The operation has not begun, so the result itself is not among them unless it was
  // kept.
  void note_producer(const Path& callee, Operand& operand, size_t frame) const;

 private:
  size_t depth_of(size_t index) const;
  bool is_operand(PyObject* tensor) const;
  void add_of(size_t index);
  void add_by_line(size_t index);
  void add_by_method(const stacks::PythonFrame& made, size_t index, uint64_t time);
  void note_device_of_methods(const stacks::PythonFrame& made, const std::vector<ReadLine>& lines, size_t index);
  void add_base(size_t index);
  void sources_in(const Expression& read, size_t frame, size_t index, uint64_t time);
  bool is_itself(PyObject* value, const Operand& operand) const;
  bool is_callable_with_state(PyObject* value) const;
  bool add_source(const ReachedObject& reached, const std::string& role, size_t frame, size_t index, uint64_t time);
  bool add_given(const std::string& parameter, size_t frame, size_t index, uint64_t time);
  bool add_given_by_text(const std::string& parameter, size_t frame, size_t index, uint64_t time);
  void note_owner(const Path& method, Operand& operand, size_t frame) const;
  bool note_device_source(const std::vector<stacks::PythonFrame>& made, uint64_t time,
                          const std::optional<LiveLine>& line, size_t index);
  // A value's name in a frame that runs.
  struct Place {
    size_t frame;
    Path path;
    bool by_class = false;  // it is the only object of its class
  };
  std::optional<Place> place_of(const stacks::PythonFrame& code, const std::optional<LiveLine>& line,
                                const Path& path) const;
  std::optional<Place> only_object(const std::string& type) const;
  bool note_device(const Path& path, const Place& place, size_t index);
  bool note_holder_of_device(const Path& attribute, const Place& place, std::string name, size_t index);
  std::string chosen_by_itself(const finding::Frame& bound) const;
  void note_device_of_variable(const Path& path, size_t frame, size_t index);
  std::optional<std::string> said_by(PyObject* value) const;

  const python::Api& api_;
  const Torch& torch_;
  const std::vector<Frame>& frames_;
  const size_t asking_;
  const SourceText& source_;
  const Scope& scope_;
  ObjectWalk& reach_;
  Holders& holders_;
  std::vector<Operand>& operands_;
};

}  // namespace devtrace::evidence
