// Which object holds which: from the variables of frames to a tensor, without running any Python code.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "finding/finding.h"
#include "tracker/evidence/objects/class_memory.h"
#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/evidence/origins/stacks.h"

namespace devtrace::evidence {

using finding::Chain;
using finding::Holder;

// Everything within reach of the roots, looked at once.
class Holders {
 public:
  Holders(const python::Api& api, const Torch& torch, const SourceText& source);

  void add_root(PyObject* object, size_t frame, const std::string& name);
  void explore();

  // From as far out as it goes; the longest first, at most kMostChains.
  std::vector<Chain> chains_to(PyObject* object);
  // The tensor by which a dict keeps it, or keeps the dict or list that it is in: of an optimizer's state its
  // parameter. Null for none.
  PyObject* kept_for(PyObject* object) const;
  static constexpr size_t kMostChains = 4;

  // Tensors that were reached, in order.
  const std::vector<PyObject*>& tensors() const { return tensors_; }
  // Is it a parameter or buffer of a module, as far as was seen?
  bool is_registered(PyObject* tensor) const;
  // On which devices do those lie?
  std::vector<std::string> devices_of_state() const;

  // Devices of all parameters and buffers of a module; empty where there are too many to look at.
  const std::vector<std::string>& devices_of(PyObject* module);
  std::string kind_of(PyObject* object) const;
  // The line of a constructor of its class that gives the object the attribute; line 0: none does, or several do.
  finding::Frame line_that_stores(PyObject* object, const std::string& attribute) const;
  // … of the only other method of its class that does, with that one's name.
  finding::Frame method_that_stores(PyObject* object, const std::string& attribute) const;

 private:
  struct Edge {
    PyObject* holder;
    const char* holds;
    std::string step;         // what the name goes on with: ".weight"
    PyObject* key = nullptr;  // of a dict that keeps it by a tensor
  };
  struct Node {
    int depth = 0;
    std::vector<Edge> held_by;
    std::vector<std::pair<size_t, std::string>> variables;  // frame and name
  };

  void reach(PyObject* object, int depth, Edge edge);
  void look_into(PyObject* object, int depth);
  void look_into_module(PyObject* module, int depth);
  void look_into_function(PyObject* function, int depth);
  void look_into_parts(PyObject* holder, int depth);
  bool worth_entering(PyObject* object);
  void note_modules(PyObject* object, Holder& holder);
  bool holds_others(PyObject* container) const;  // … than tensors, as far as it is looked through
  bool take_store(PyObject* function, const std::string& attribute, bool list, finding::Frame& only) const;
  template <class Visit>
  bool each_class_dict(PyObject* object, const Visit& visit) const;
  std::vector<int> lines_that_bind(PyObject* code, const std::string& attribute) const;
  bool climb(PyObject* object, std::vector<const Edge*>& path, std::vector<Chain>& found);
  Chain chain_of(PyObject* root, const std::vector<const Edge*>& path);
  std::string class_of(PyObject* object) const;

  const python::Api& api_;
  const Torch& torch_;
  const SourceText& source_;
  ClassMemory<bool> entered_;
  python::Ref optimizer_, partial_, method_, function_;  // classes
  std::unordered_map<PyObject*, Node> nodes_;
  std::deque<PyObject*> queue_;
  std::vector<PyObject*> tensors_;
  std::unordered_set<PyObject*> on_path_;
  std::unordered_map<PyObject*, std::vector<std::string>> devices_;
  long long store_attribute_ = -1, extended_argument_ = -1;  // opcodes of this Python
  size_t budget_;
  size_t climbs_ = 0;
};

}  // namespace devtrace::evidence
