// Identities of simulated devices that stay the same from run to run and from process to process.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace devtrace::simulate {

struct Uuid {
  uint8_t bytes[16];
};

// "devtrace sim", the host (--hosts) and the physical index: anyone who prints the bytes sees that no hardware has it.
inline Uuid device_uuid(int host, int physical) {
  Uuid uuid = {{'d', 'e', 'v', 't', 'r', 'a', 0x40, 'c', 0x80, '-', 's', 'i', 'm', 0, static_cast<uint8_t>(host),
                static_cast<uint8_t>(physical)}};
  return uuid;
}

// "GPU-64657674-7261-4063-802d-73696d000000"
inline std::string device_uuid_text(int host, int physical) {
  Uuid u = device_uuid(host, physical);
  char text[48];
  char* p = text + std::sprintf(text, "GPU-");
  for (int i = 0; i < 16; ++i)
    p += std::sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u.bytes[i]);
  return text;
}

}  // namespace devtrace::simulate
