// What a simulated device says of itself.
#pragma once

namespace devtrace::simulate {

// As cuDeviceGetAttribute numbers them; the runtime's are the same numbers. False: this simulation gives no value for
// it. `ordinal` must be a device.
bool device_attribute(int attribute, int ordinal, int* value);

}  // namespace devtrace::simulate
