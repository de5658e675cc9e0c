#include "tracker/python/objects/object_layout.h"

namespace devtrace::python {
namespace {

// A new version: its row, from its own headers (offsetof). tests/e2e/findings/test_variables.py compares with what
// Python says.
constexpr ObjectLayout kLayouts[] = {
    {.minor = 9,
     .frame_locals = 360,
     .frame_globals = 48,
     .frame_dict = 56,
     .code_arguments = 16,
     .code_keyword_only = 24,
     .code_flags = 36,
     .code_names = 72,
     .code_kinds = kAbsent,
     .code_cells = 88,
     .code_frees = 80,
     .small_keys = false,
     .keys_indices = 40,
     .keys_entries = 32,
     .values = 0,
     .cached_keys = 864,
     .instances = Instances::dict_offset},
    {.minor = 10,
     .frame_locals = 352,
     .frame_globals = 48,
     .frame_dict = 56,
     .code_arguments = 16,
     .code_keyword_only = 24,
     .code_flags = 36,
     .code_names = 72,
     .code_kinds = kAbsent,
     .code_cells = 88,
     .code_frees = 80,
     .small_keys = false,
     .keys_indices = 40,
     .keys_entries = 32,
     .values = 0,
     .cached_keys = 872,
     .instances = Instances::dict_offset},
    {.minor = 11,
     .frame_locals = 72,
     .frame_globals = 8,
     .frame_dict = 24,
     .code_arguments = 56,
     .code_keyword_only = 64,
     .code_flags = 48,
     .code_names = 96,
     .code_kinds = 104,
     .code_cells = kAbsent,
     .code_frees = kAbsent,
     .small_keys = true,
     .keys_indices = 32,
     .keys_entries = 24,
     .values = 0,
     .cached_keys = 872,
     .instances = Instances::two_pointers},
    {.minor = 12,
     .frame_locals = 72,
     .frame_globals = 24,
     .frame_dict = 40,
     .code_arguments = 52,
     .code_keyword_only = 60,
     .code_flags = 48,
     .code_names = 96,
     .code_kinds = 104,
     .code_cells = kAbsent,
     .code_frees = kAbsent,
     .small_keys = true,
     .keys_indices = 32,
     .keys_entries = 24,
     .values = 0,
     .cached_keys = 880,
     .instances = Instances::tagged_pointer},
    {.minor = 13,
     .frame_locals = 72,
     .frame_globals = 24,
     .frame_dict = 40,
     .code_arguments = 52,
     .code_keyword_only = 60,
     .code_flags = 48,
     .code_names = 96,
     .code_kinds = 104,
     .code_cells = kAbsent,
     .code_frees = kAbsent,
     .small_keys = true,
     .keys_indices = 32,
     .keys_entries = 24,
     .values = 8,
     .cached_keys = 880,
     .instances = Instances::inline_values},
    {.minor = 14,
     .frame_locals = 80,
     .frame_globals = 24,
     .frame_dict = 40,
     .code_arguments = 52,
     .code_keyword_only = 60,
     .code_flags = 48,
     .code_names = 96,
     .code_kinds = 104,
     .code_cells = kAbsent,
     .code_frees = kAbsent,
     .small_keys = true,
     .keys_indices = 32,
     .keys_entries = 24,
     .values = 8,
     .cached_keys = 880,
     .instances = Instances::inline_values,
     .tuple_items = 32},
    {.minor = 15,
     .frame_locals = 80,
     .frame_globals = 24,
     .frame_dict = 40,
     .code_arguments = 52,
     .code_keyword_only = 60,
     .code_flags = 48,
     .code_names = 96,
     .code_kinds = 104,
     .code_cells = kAbsent,
     .code_frees = kAbsent,
     .small_keys = true,
     .keys_indices = 32,
     .keys_entries = 24,
     .values = 8,
     .cached_keys = 888,
     .instances = Instances::inline_values,
     .tuple_items = 32},
};

// Without a GIL: see layout.cpp. No header of the collector stands before an object.
constexpr ObjectLayout free_threaded(ObjectLayout layout) {
  constexpr uint16_t kExtraHeader = 16, kCollectorHeader = 16;
  for (uint16_t* field : {&layout.code_arguments, &layout.code_keyword_only, &layout.code_flags, &layout.code_names,
                          &layout.cached_keys, &layout.tuple_items})
    *field += kExtraHeader;
  layout.code_kinds += kExtraHeader;
  layout.before_object -= kCollectorHeader;
  return layout;
}

constexpr ObjectLayout kFreeThreaded[] = {free_threaded(kLayouts[4]), free_threaded(kLayouts[5]),
                                          free_threaded(kLayouts[6])};
static_assert(kFreeThreaded[0].minor == 13 && kFreeThreaded[2].minor == 15);

template <class Rows>
const ObjectLayout* row_of(const Rows& rows, int minor) {
  for (const ObjectLayout& layout : rows)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

}  // namespace

const ObjectLayout* object_layout_of(const Layout& layout) {
  return layout.free_threaded ? row_of(kFreeThreaded, layout.minor) : row_of(kLayouts, layout.minor);
}

}  // namespace devtrace::python
