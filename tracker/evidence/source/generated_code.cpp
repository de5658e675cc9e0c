#include "tracker/evidence/source/generated_code.h"

#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/source/source.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

std::mutex g_mutex;
std::set<std::string>& noticed() {
  static auto* files = new std::set<std::string>;
  return *files;
}

// The program itself is `<string>` after `python -c` and `<stdin>` where it is typed.
bool is_program_without_file(const Api& api, const std::string& file) {
  if (file == "<stdin>") return true;
  const Ref sys = python::imported_module(api, "sys");
  const Ref arguments = python::attribute(api, sys.get(), "argv");
  return file == "<string>" && python::text(api, python::element(api, arguments.get(), 0).get()) == "-c";
}

// Named as a part of an installed package, but not lying in it.
bool is_named_as_librarys(const Api& api, const std::string& name, const std::string& standard_library) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return false;
  const Ref package = python::imported_module(api, name.substr(0, dot).c_str());
  const std::string file = python::text(api, python::attribute(api, package.get(), "__file__").get());
  return !file.empty() && !is_project_file(file, standard_library);
}

// In the folder for temporary files, and out of the reach of the program's own imports.
bool is_temporary(const Api& api, const std::string& file) {
  const char* const set = std::getenv("TMPDIR");
  const auto lies_in = [&](std::string_view folder) {
    return !folder.empty() && file.size() > folder.size() && file.starts_with(folder) &&
           (folder.back() == '/' || file[folder.size()] == '/');
  };
  if (!lies_in(set && *set ? set : "/tmp")) return false;
  const Ref sys = python::imported_module(api, "sys");
  const Ref path = python::attribute(api, sys.get(), "path");
  for (ssize_t i = 0;; ++i) {
    const Ref folder = python::element(api, path.get(), i);
    if (!folder) break;
    if (lies_in(python::text(api, folder.get()))) return false;
  }
  const Ref main = python::imported_module(api, "__main__");
  const std::string program = python::text(api, python::attribute(api, main.get(), "__file__").get());
  const size_t slash = program.rfind('/');
  return slash == std::string::npos || !lies_in(std::string_view(program).substr(0, slash + 1));
}

}  // namespace

bool notice_generated(const Api& api, const std::string& file, const Source& source, PyObject* globals,
                      const std::string& standard_library) {
  const std::string module = python::text(api, python::entry(api, globals, "__name__").get());
  if (file.starts_with('<')) {
    // What IPython times (`<timed exec>`) is a cell's text; what is named `<string>` may be anybody's.
    const bool cell = module == "__main__" && file != "<string>";
    if (cell || source.known() || is_program_without_file(api, file)) return false;
  } else {
    // The program's own, which a notebook's cells are, too: their files are temporary.
    if (!file.starts_with('/') || module == "__main__") return false;
    if (!is_named_as_librarys(api, module, standard_library) && !is_temporary(api, file)) return false;
  }
  const std::lock_guard lock(g_mutex);
  noticed().insert(file);
  return true;
}

bool is_generated(const std::string& file) {
  const std::lock_guard lock(g_mutex);
  return noticed().contains(file);
}

}  // namespace devtrace::evidence
