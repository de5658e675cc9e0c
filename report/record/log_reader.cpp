#include "report/record/log_reader.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <streambuf>
#include <string_view>
#include <system_error>

#include "common/format.h"
#include "common/text.h"
#include "report/record/json_access.h"

namespace devtrace::report {
namespace {

constexpr int64_t kSchema = 1;
constexpr size_t kWarnings = 20;  // of a file that is broken all over, the first ones tell
constexpr int kDeepest = 100;
constexpr int kMostFields = 10000;
constexpr size_t kMostValues = 500'000;

enum class Line { whole, cut, too_long, none };

class LineReader {
 public:
  explicit LineReader(std::istream& in) : bytes_(*in.rdbuf()) {}

  // One line without its '\n'; `cut` when the file ends before one. The line is good until the next one is asked for.
  Line next(std::string_view& line) {
    long_line_.clear();
    bool too_long = false;
    for (;;) {
      const std::string_view piece = rest_.substr(0, rest_.find('\n'));
      const bool whole = piece.size() < rest_.size();
      rest_.remove_prefix(piece.size() + (whole ? 1 : 0));
      too_long |= long_line_.size() + piece.size() > kLongestLine;
      if (whole && long_line_.empty() && !too_long) return line = piece, Line::whole;
      if (!too_long) long_line_ += piece;
      line = long_line_;
      if (whole) return too_long ? Line::too_long : Line::whole;
      const std::streamsize read = bytes_.sgetn(block_.data(), static_cast<std::streamsize>(block_.size()));
      rest_ = {block_.data(), static_cast<size_t>(read)};
      if (rest_.empty()) return too_long ? Line::too_long : line.empty() ? Line::none : Line::cut;
    }
  }

 private:
  std::streambuf& bytes_;
  std::string block_ = std::string(256u << 10, '\0');
  std::string long_line_;  // one that goes over several blocks
  std::string_view rest_;  // of the block
};

// Before it is parsed: our records nest 6 deep, and no object of theirs has 100 fields. But the parser recurses into
// depth, ordered_json looks every new field up among those it has, and every value costs the memory of some twenty
// characters.
bool unreasonable(std::string_view line) {
  std::array<int, kDeepest + 1> fields{};
  int depth = 0;
  size_t values = 0;
  bool in_string = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if ((c == ',' || c == '[' || c == '{') && ++values > kMostValues) return true;
    if (c == ':' && ++fields[depth] > kMostFields) return true;
    if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
      fields[depth] = 0;
    }
    if ((c == '}' || c == ']') && --depth < 0) return true;
  }
  return false;
}

// The record, or a discarded value when the line holds none.
Json parse(std::string_view line) {
  if (unreasonable(line)) return Json(Json::value_t::discarded);
  Json record = Json::parse(line, nullptr, false);
  if (record.is_discarded()) {
    if (const std::string valid = valid_utf8(line); valid != line) record = Json::parse(valid, nullptr, false);
  }
  if (!record.is_discarded() && !record.is_object()) return Json(Json::value_t::discarded);
  return record;
}

}  // namespace

LogReading read_log(std::istream& in, const std::string& file, const std::function<void(Json&&)>& record,
                    const PassOver& pass_over, const TakeLine& take_line) {
  LogReading reading;
  const auto warn = [&](uint64_t number, std::string_view what) {
    if (reading.warnings.size() < kWarnings) reading.warnings.push_back(fmt::format("{}:{}: {}", file, number, what));
    if (reading.warnings.size() == kWarnings)
      reading.warnings.push_back(fmt::format("{}: more of the same is not shown", file));
  };

  LineReader lines(in);
  std::string_view line;
  for (uint64_t number = 1;; ++number) {
    const Line kind = lines.next(line);
    if (kind == Line::none) break;
    const bool first = reading.records == 0;
    if (kind == Line::too_long) {
      if (first)
        throw LogError(
            fmt::format("{}:{}: not a devtrace log: a line of more than {} MiB", file, number, kLongestLine >> 20));
      warn(number, fmt::format("a line of more than {} MiB was left out", kLongestLine >> 20));
      continue;
    }
    if (line.find_first_not_of(" \t\r") == line.npos) continue;

    if (pass_over && !first && kind == Line::whole)
      if (const auto finding = finding_line(line); finding && pass_over(*finding)) {
        ++reading.records;
        continue;
      }
    if (take_line && !first && kind == Line::whole && take_line(line)) {
      ++reading.records;
      continue;
    }
    Json value = parse(line);
    if (value.is_discarded()) {
      if (kind == Line::cut && !first) {
        warn(number, "the last line is cut off: the process was stopped while it wrote, or writes now");
        break;
      }
      if (first) throw LogError(fmt::format("{}:{}: not a devtrace log: the line is no JSON object", file, number));
      warn(number, "not a JSON object; the line was left out");
      continue;
    }
    const std::string_view name = string(value, "record");
    if (first) {
      if (name != "process") {
        throw LogError(
            fmt::format("{}:{}: not a devtrace log: it does not begin with a \"process\" record", file, number));
      }
      const auto schema = integer(value, "schema");
      if (!schema)
        throw LogError(fmt::format("{}:{}: not a devtrace log: the process record has no schema number", file, number));
      if (*schema != kSchema) {
        throw LogError(fmt::format(
            "{}:{}: written in schema {}, and this devtrace reads schema {}: read it with the devtrace that wrote it",
            file, number, *schema, kSchema));
      }
    }
    reading.ended |= name == "end";
    ++reading.records;
    record(std::move(value));
  }
  if (in.bad()) throw LogError(fmt::format("{}: reading failed", file));
  if (reading.records == 0) throw LogError(fmt::format("{}: empty: no record was written", file));
  return reading;
}

std::ifstream open_file(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto status = fs::status(file, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    throw LogError(
        fmt::format("{}: is no file but a FIFO, a socket or a device, which may never end; write it to a file first",
                    file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw LogError(fmt::format("{}: cannot be opened: {}", file.string(), std::generic_category().message(errno)));
  return in;
}

LogReading read_log(const std::filesystem::path& file, const std::function<void(Json&&)>& record,
                    const PassOver& pass_over, const TakeLine& take_line) {
  std::ifstream in = open_file(file);
  return read_log(in, file.string(), record, pass_over, take_line);
}

std::vector<std::filesystem::path> logs_at(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) throw LogError(fmt::format("{}: no such file or folder", path.string()));
  if (!fs::is_directory(status)) return {path};

  std::vector<fs::path> ours, others;
  fs::directory_iterator entries(path, error);
  if (error) throw LogError(fmt::format("{}: cannot be listed: {}", path.string(), error.message()));
  for (const auto& entry : entries) {
    if (entry.path().extension() != ".jsonl" || !entry.is_regular_file(error)) continue;
    (entry.path().filename().string().starts_with("devtrace-") ? ours : others).push_back(entry.path());
  }
  auto& logs = ours.empty() ? others : ours;
  if (logs.empty()) throw LogError(fmt::format("{}: holds no .jsonl file", path.string()));
  std::sort(logs.begin(), logs.end());
  return logs;
}

std::vector<std::filesystem::path> all_logs_at(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) throw LogError(fmt::format("{}: no such file or folder", path.string()));
  if (!fs::is_directory(status)) return {path};
  std::vector<fs::path> logs;
  fs::recursive_directory_iterator entry(path, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".jsonl" && !entry->is_directory(ignored)) logs.push_back(entry->path());
  }
  if (error) throw LogError(fmt::format("{}: cannot be listed: {}", path.string(), error.message()));
  if (logs.empty()) throw LogError(fmt::format("{}: holds no .jsonl file", path.string()));
  std::sort(logs.begin(), logs.end());
  return logs;
}

}  // namespace devtrace::report
