// Functions that the driver has for kernels: printf, malloc, free, assert.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "simulate/kernels/block.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr size_t kMostText = 64 * 1024;

}  // namespace

uint64_t Block::argument(const Frame& frame, const CallSite& site, size_t i, uint32_t lane) const {
  uint64_t value = 0;
  if (i < site.arguments.size())
    std::memcpy(&value, place(frame, site.arguments[i], lane), std::min<size_t>(site.arguments[i].bytes, 8));
  return value;
}

// A string that ends with a zero inside its block; null: it is none.
const char* Block::text_at(uintptr_t address, uint32_t lane) {
  Extent block;
  const uint8_t* const at = find_memory(m_, lane, address, 1, false, &block);
  if (!at) return nullptr;
  const size_t most = std::min(block.size - (address - block.begin), kMostText);
  return std::memchr(at, 0, most) ? reinterpret_cast<const char*>(at) : "";
}

// printf's text, of a format and a buffer with the arguments, each at a multiple of its size.
std::string Block::printed(const CallSite& site, const Frame& frame, uint32_t lane) {
  const char* const format = text_at(argument(frame, site, 0, lane), lane);
  if (!format) return {};
  uintptr_t next = argument(frame, site, 1, lane);
  const auto take = [&](size_t bytes) {
    next = (next + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    Extent block;
    if (const uint8_t* const at = find_memory(m_, lane, next, bytes, false, &block)) std::memcpy(&value, at, bytes);
    next += bytes;
    return value;
  };
  std::string out;
  for (const char* c = format; *c; ++c) {
    if (*c != '%') {
      out += *c;
      continue;
    }
    std::string one = "%";
    ++c;
    while (*c && std::strchr("-+ #0123456789.*", *c)) {
      if (*c == '*')
        one += std::to_string(static_cast<int32_t>(take(4)));
      else if (one.size() < 32)
        one += *c;
      ++c;
    }
    bool wide = false;
    for (; *c && std::strchr("hlLzjt", *c); ++c) wide |= *c != 'h';
    char text[512] = "";
    switch (*c) {
      case 'd':
      case 'i':
        one += PRId64;
        std::snprintf(text, sizeof text, one.c_str(),
                      wide ? static_cast<int64_t>(take(8)) : int64_t{static_cast<int32_t>(take(4))});
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        one += std::string("l") + *c;
        std::snprintf(text, sizeof text, one.c_str(), static_cast<unsigned long>(take(wide ? 8 : 4)));
        break;
      case 'c':
        one += 'c';
        std::snprintf(text, sizeof text, one.c_str(), static_cast<int>(take(4)));
        break;
      case 'p':
        std::snprintf(text, sizeof text, "0x%" PRIx64, take(8));
        break;
      case 's': {
        const char* const string = text_at(take(8), lane);
        one += 's';
        std::snprintf(text, sizeof text, one.c_str(), string ? string : "");
        break;
      }
      case '%':
        out += '%';
        continue;
      case 0:
        return out;
      default: {
        if (!std::strchr("fFeEgGaA", *c)) break;
        one += *c;
        const uint64_t bits = take(8);
        double value = 0;
        std::memcpy(&value, &bits, sizeof value);
        std::snprintf(text, sizeof text, one.c_str(), value);
      }
    }
    out += text;
  }
  return out;
}

// __assertfail(message, file, line, function, size of a character)
void Block::assertion(const CallSite& site, const Frame& frame, uint32_t lane) {
  const auto text = [&](size_t i) {
    const char* const found = text_at(argument(frame, site, i, lane), lane);
    return std::string(found ? found : "?");
  };
  const std::string where =
      text(1) + ":" + std::to_string(static_cast<uint32_t>(argument(frame, site, 2, lane))) + ": " + text(3);
  m_.fail(FaultKind::assertion, lane, where + ": Assertion `" + text(0) + "` failed.");
}

void Block::builtin(const CallSite& site, const Frame& frame, const Lanes& lanes) {
  const auto give = [&](uint32_t lane, uint64_t value) {
    if (!site.results.empty())
      std::memcpy(place(frame, site.results[0], lane), &value, std::min<size_t>(site.results[0].bytes, 8));
  };
  for (const Run run : lanes)
    for (uint32_t l = run.begin; l < run.end && m_.fault.kind == FaultKind::none; ++l) switch (site.builtin) {
        case Builtin::vprintf: {
          const std::string text = printed(site, frame, l);
          std::fwrite(text.data(), 1, text.size(), stdout);
          give(l, text.size());
          break;
        }
        case Builtin::malloc:
          give(l, m_.memory->allocate(argument(frame, site, 0, l)));
          break;
        case Builtin::free:
          m_.memory->release(argument(frame, site, 0, l));
          break;
        case Builtin::assertfail:
          assertion(site, frame, l);
          break;
        default:
          give(l, runtime(site, frame, l));
      }
}

}  // namespace devtrace::simulate::kernels
