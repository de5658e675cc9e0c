// A device's attributes as cuDeviceGetAttribute numbers them; the runtime's are the same numbers.
#pragma once

namespace devtrace::simulate {

// False: this simulation gives no value for it. `ordinal` must be a device.
bool device_attribute(int attribute, int ordinal, int* value);

}  // namespace devtrace::simulate
