#include "fix/trials/candidates.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/format.h"
#include "fix/trials/child.h"
#include "process/start.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

std::string whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Candidate> answered(const fs::path& edits, const std::string& interpreter, const std::string& question,
                                const fs::path& scratch) {
  const fs::path asked = scratch / "question", answer = scratch / "answer", output = scratch / "complaints";
  std::ofstream(asked) << question;
  ProgramToRun program;
  program.words = {interpreter, "-I", "-S", "-B", edits.string(), asked.string(), answer.string()};
  program.environment = process::own_environment();
  program.environment.erase("LD_PRELOAD");  // the question needs no simulated device
  Child child(program, output);
  while (!child.ended()) {
    if (child.seconds() > 60) {
      child.end(scratch);
      throw std::runtime_error("no edits were found within 60 seconds");
    }
    usleep(2'000);
  }
  auto found = child.code() == 0 ? read_answer(whole(answer)) : std::nullopt;
  if (found) return *std::move(found);
  const std::string complaint = whole(output);
  throw std::runtime_error(fmt::format("{} could not make edits:\n{}", interpreter,
                                       complaint.substr(complaint.size() > 2000 ? complaint.size() - 2000 : 0)));
}

}  // namespace

std::vector<Candidate> candidates(const fs::path& edits, const std::string& interpreter,
                                  const finding::Finding& finding, const Candidate& so_far, const fs::path& folder,
                                  const fs::path& scratch) {
  return answered(edits, interpreter, question(finding, so_far, folder), scratch);
}

std::vector<Candidate> without_a_hunk(const fs::path& edits, const std::string& interpreter, const Candidate& whole,
                                      const fs::path& folder, const fs::path& scratch) {
  return answered(edits, interpreter, question_of_hunks(whole, folder), scratch);
}

}  // namespace devtrace::fix
