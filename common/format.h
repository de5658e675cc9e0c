// <fmt/format.h>, for files that format: what is the same in each of them is compiled once, in format.cpp.
#pragma once

#include <fmt/format.h>

FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                      basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>, locale_ref);
}
FMT_END_NAMESPACE
