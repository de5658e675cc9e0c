// Where libcuda's news of calls and work arrives.
#pragma once

namespace devtrace::simulate::cupti {

// From now on, for good.
void listen();

}  // namespace devtrace::simulate::cupti
