// C++20's str() of a string stream, which PyTorch's headers call and libstdc++ has since GCC 11: brought along, so that
// these kernels are loaded beside an older one.
#include <sstream>

template std::string std::stringbuf::str() const&;
