// The fingerprint names a fault across runs, machines, checkouts and device numbers. Baselines and suppressions keep
// it, so what is hashed may never change: FNV-1a, 64 bits, over these UTF-8 bytes, every field followed by one 0x1F:
//
//   "devtrace/1"  kind  operation  argument
//   each of `devices`, in order, as cpu, or as cuda:0, cuda:1, … numbered by first appearance
//   0x1E
//   each frame of `python` with `project` true, innermost first: file, function
//
// A file under the process's working directory counts by its path from there, any other by its whole path. A frame that
// repeats the one before it (recursion) counts once. With no such frame, all frames count, and their files from after
// "/site-packages/", "/dist-packages/" or "/lib/python3.<n>/" on.
//
// Where `python` is empty: each frame of `native` with `project` true, in the same way. That is by the file's name of
// its module (the source's is there in some builds only) and its function.
#include "report/log/fingerprint.h"

#include <cstdint>
#include <vector>

#include "common/text.h"
#include "report/log/fnv1a.h"

namespace devtrace::report {
namespace {

void add_field(Fnv1a& hash, std::string_view bytes) {
  hash.add(bytes).add("\x1F");
}

std::string_view below(std::string_view file, std::string_view folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  if (folder.empty() || folder == "/" || !file.starts_with(folder)) return file;
  file.remove_prefix(folder.size());
  return file.size() > 1 && file.front() == '/' ? file.substr(1) : std::string_view();
}

std::string_view from_working_directory(std::string_view file, std::string_view cwd) {
  const std::string_view rest = below(file, cwd);
  if (!rest.empty() && rest.size() < file.size()) return rest;
  return file.starts_with("./") ? file.substr(2) : file;
}

std::string_view within_installation(std::string_view file) {
  if (const std::string_view rest = within_packages(file); !rest.empty()) return rest;
  constexpr std::string_view kLibrary = "/lib/python3.";
  if (const size_t at = file.rfind(kLibrary); at != file.npos) {
    if (const size_t slash = file.find('/', at + kLibrary.size()); slash != file.npos) return file.substr(slash + 1);
  }
  return file;
}

void hash_devices(Fnv1a& hash, const std::vector<std::string>& devices) {
  std::vector<std::string_view> seen;
  for (const std::string& name : devices) {
    if (!name.starts_with("cuda:")) {
      add_field(hash, name);
      continue;
    }
    size_t index = 0;
    while (index < seen.size() && seen[index] != name) ++index;
    if (index == seen.size()) seen.push_back(name);
    add_field(hash, "cuda:" + std::to_string(index));
  }
}

void hash_frames(Fnv1a& hash, const finding::Stack& frames, std::string_view cwd) {
  const bool any_project = finding::innermost_project(frames).has_value();
  std::string_view last_file, last_function;
  for (const finding::Frame& frame : frames) {
    if (any_project && !frame.project) continue;
    const std::string_view file =
        any_project ? from_working_directory(frame.file, cwd) : within_installation(frame.file);
    if (file == last_file && frame.function == last_function) continue;
    add_field(hash, file);
    add_field(hash, frame.function);
    last_file = file;
    last_function = frame.function;
  }
}

void hash_native_frames(Fnv1a& hash, const finding::Stack& frames) {
  std::string_view last;
  for (const finding::Frame& frame : frames) {
    if (!frame.project || frame.inlined) continue;
    if (!last.empty() && frame.function == last) continue;
    add_field(hash, std::string_view(frame.module).substr(frame.module.rfind('/') + 1));
    add_field(hash, frame.function);
    last = frame.function;
  }
}

}  // namespace

std::string fingerprint(std::string_view cwd, const finding::Finding& finding) noexcept try {
  Fnv1a hash;
  add_field(hash, "devtrace/1");
  for (const std::string* text : {&finding.kind, &finding.operation, &finding.argument}) add_field(hash, *text);
  hash_devices(hash, finding.devices);
  hash.add("\x1E");
  hash_frames(hash, finding.stack, cwd);
  if (finding.stack.empty()) hash_native_frames(hash, finding.native);

  return hash.digits();
} catch (...) {
  return "0000000000000000";
}

}  // namespace devtrace::report
