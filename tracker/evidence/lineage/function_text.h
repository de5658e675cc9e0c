// A Python function as the lines of its file have it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/python_scan.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

using Lines = std::vector<std::string>;  // of a file; the first is number 1

struct FunctionText {
  int first = 1, last = 0;  // its lines; of a module all
  bool module = false;
  std::vector<std::string> parameters;  // those that a call gives by place come first; without *args and **kwargs
  bool method = false;                  // the first is `self` or `cls`
  std::map<std::string, std::string, std::less<>> defaults;  // of parameters, as they are written
  // For each variable, attribute and element (`x`, `self.x`, `batch["x"]`) the lines of the statements that give it a
  // value, as far as their text shows it.
  std::map<std::string, std::vector<int>, std::less<>> bound;

  const std::vector<int>& bindings(const std::string& variable) const;
  // The last of those lines above that one which has run whenever it runs, and behind which no other one has.
  std::optional<int> settled_above(const std::vector<int>& lines, int line) const;
  // Does a statement begin in that line of the function's?
  bool begins_statement(int line) const;
  // Is the variable, or attribute of one, read below that line, before a line gives it a new value, and never as NumPy
  // reads it? That wants it on the CPU.
  bool reads_below(int line, std::string_view variable) const;
  // … so that it matters where it lies: neither moved there, nor asked for no more than its shape and the like.
  bool computes_below(int line, std::string_view name) const;
  // The methods of its own object, `self.f(…)`, that it calls below that line.
  std::vector<std::string> methods_called_below(int line) const;
  // Does a statement down to that line read the parameter, or an attribute that keeps it, for more than to keep it
  // there?
  bool works_with(std::string_view parameter, int line) const;
  // Lines that are a move of it and nothing else, `name.to(…)` or `name.cuda(…)`, from the top. A tensor stays where
  // it is then: nobody keeps the copy.
  std::vector<int> discarded_moves(std::string_view name) const;
  // The first lines of the branches (`if on_gpu:`, `else:`) that it stands in and the other line does not, from the
  // inmost out. They decide whether it has run when the other one does.
  std::vector<std::string> branches_around(int line, int other) const;
  // Does a statement give the variable a number, `total = 0`, as what is summed up begins? That lies nowhere.
  bool begins_as_number(const std::string& variable) const;
  // Does the statement of that line read the variable in what it assigns?
  bool binds_from_itself(int line, std::string_view variable) const;
  // Does the statement of that line compute what it gives the variable from what that was, `x = x[:, 0]`, wherever that
  // lies? It calls nothing but methods and PyTorch's functions, none of which takes it to a device.
  bool computes_from_itself(int line, std::string_view variable) const;

  std::string text;  // its lines, each with its end
  Scan scan{{}};     // of that

 private:
  size_t begin_of(int line) const;           // in the text
  std::string_view text_of(int line) const;  // that line
  int next_statement(int line) const;
  std::pair<size_t, size_t> value_in(int line) const;  // begin and end of what the statement assigns; empty: nothing
  bool reads_between(size_t begin, size_t end, std::string_view name) const;
  std::vector<std::string_view> behind_reads_below(int line, std::string_view name) const;
};

// What a call of the function with that qualified name (co_qualname) names: of a constructor the class. Empty where
// that is not known.
std::string name_in_a_call(std::string_view function);

// Is that the name of a comprehension, which has a frame of its own before Python 3.12?
bool is_comprehension(std::string_view function);

// The qualified name of the function that has the line, by how its lines are indented; `<module>` outside of all.
std::string function_around(const Lines& lines, int line);

// Of several functions, each read once. Under the GIL.
class FunctionTexts {
 public:
  explicit FunctionTexts(const python::Api& api) : api_(api) {}

  // The function of that name (co_qualname, or co_name) that has the line. Null for a lambda and a comprehension, and
  // where the text has changed.
  const FunctionText* at(const std::string& file, const Lines& lines, const std::string& name, int line);
  // The method of that name of the class that has this one.
  const FunctionText* beside(const FunctionText& method, const std::string& file, const Lines& lines,
                             const std::string& name);

 private:
  const python::Api& api_;
  std::map<std::pair<std::string, int>, std::optional<FunctionText>> read_;  // by the line of `def`; 0: the module
};

}  // namespace devtrace::evidence
