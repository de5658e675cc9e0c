// Scalars that a library is given by address, and results that it gives by address: the host's or a device's, as the
// handle's pointer mode says.
#pragma once

#include <cstring>

#include "simulate/common/library.h"
#include "simulate/numbers/element.h"

namespace devtrace::simulate::numbers {

// The host's is read at once: it may be gone when the stream comes to the work.
class Scalar {
 public:
  Scalar(const void* address, cudaDataType type, bool of_device)
      : type_(type), address_(of_device ? address : nullptr) {
    if (!of_device && address) std::memcpy(value_, address, bytes_of(type));
  }
  // When the work is done.
  template <class S>
  S value() const {
    if (address_) library::reads(address_, bytes_of(type_));
    S found;
    get(type_, address_ ? address_ : value_, 1, 1, &found);
    return found;
  }

 private:
  cudaDataType type_;
  const void* address_;
  alignas(16) unsigned char value_[16] = {};
};

// Who has to wait for the host's result does so when the work is submitted.
struct Result {
  void* address;
  cudaDataType type;
  bool of_device;

  template <class S>
  S value() const {
    S found;
    if (of_device) library::reads(address, bytes_of(type));
    get(type, address, 1, 1, &found);
    return found;
  }
  template <class S>
  void set(S value) const {
    if (of_device) library::writes(address, bytes_of(type));
    put(type, address, 1, 1, &value);
  }
};

}  // namespace devtrace::simulate::numbers
