// What findings of every kind go through: begun, told apart from those before, classified, published.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"

namespace devtrace::findings {

// Where evidence is gathered and reported: isolated, on the stack that the process's Python allows.
void run(const std::function<void()>& work);

// `find` is called only where the same call has not been told before. Calls are told apart without looking at a single
// tensor: by who called, by which native callers (two operations on one line differ in nothing else), and by `call`.
// Nothing found: it is no finding, and where the policy says so, that holds for all that comes by the same call. Is it
// a finding, or a repetition of one?
bool report_once(std::initializer_list<std::string_view> call,
                 const std::function<std::optional<finding::Finding>()>& find, bool policy = false);

// A finding of a kind and with its facts, now and on the calling thread, with its current device. Of the names of
// devices each is taken once, and only those that are one.
finding::Finding begin(const char* kind, finding::Facts facts, const std::vector<std::string>& devices = {});
std::string current_device();  // empty: none is

}  // namespace devtrace::findings
