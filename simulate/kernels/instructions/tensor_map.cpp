// tensormap: kernels change a tensor map in memory, and copy one that they have changed. Of a map of a kind that is not
// done nothing is read: what is written to it is found when somebody copies by it.
#include "simulate/kernels/tensor_map.h"

#include <cstddef>
#include <cstring>
#include <string_view>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/bulk.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr uint32_t kBytes = 128;

struct Field {
  std::string_view name;
  size_t offset;
  uint8_t bytes;     // as the map has it
  uint32_t count;    // 0: it is one, without a number
  bool less_by_one;  // than what the kernel says
  ptx::Type type;    // of what it says
};
// PTX ISA, "tensormap.replace": the rank is counted from zero there.
constexpr Field kFields[] = {
    {".global_address", offsetof(TensorMap, address), 8, 0, false, Type::b64},
    {".global_dim", offsetof(TensorMap, last), 4, 5, true, Type::b32},
    {".global_stride", offsetof(TensorMap, strides), 8, 4, false, Type::b64},
    {".box_dim", offsetof(TensorMap, box), 2, 5, false, Type::b32},
    {".element_stride", offsetof(TensorMap, steps), 1, 5, false, Type::b32},
};

uint8_t* part_of_map(Machine& m, const Step& s, uint32_t lane, uint64_t address, size_t bytes, bool shared, bool writes,
                     uint32_t cache) {
  if (shared) return reach_shared(m, lane, address, bytes, bytes, writes);
  return reach(m, lane, address, bytes, bytes, writes, m.cache + s.extra + cache);
}

// a: the map's address; b: the value; immediate: the field's offset; mode: its bytes; mode2: 1 shared, 2 less by one.
void replace(Machine& m, const Step& s) {
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      uint64_t value = s.c == kNoSlot ? m.at<uint32_t>(s.b)[l] : m.at<uint64_t>(s.c)[l];
      if (s.mode2 & 2) --value;
      const uint64_t address = m.at<uint64_t>(s.a)[l] + static_cast<uint64_t>(s.immediate);
      uint8_t* const at = part_of_map(m, s, l, address, s.mode, s.mode2 & 1, true, 0);
      if (!at) return;
      std::memcpy(at, &value, s.mode);
    }
}

// d: to, in global memory; a: from, in shared memory.
void copy(Machine& m, const Step& s) {
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l)
      for (uint32_t done = 0; done < kBytes; done += 16) {
        const uint8_t* const from = part_of_map(m, s, l, m.at<uint64_t>(s.a)[l] + done, 16, true, false, 0);
        uint8_t* const to = from ? part_of_map(m, s, l, m.at<uint64_t>(s.d)[l] + done, 16, false, true, 0) : nullptr;
        if (!to) return;
        std::memcpy(to, from, 16);
      }
}

bool decode_replace(Decoder& d) {
  for (const Field& field : kFields) {
    if (!d.has(field.name)) continue;
    const size_t count = d.operand_count();
    if (count != (field.count ? 3 : 2)) return false;
    const Operand& number = d.operand(1);
    if (field.count && (number.kind != Operand::Kind::integer || number.value >= field.count)) return false;
    const Decoder::Address at = d.address(d.operand(0), d.space());
    if (at.parameters) return false;
    const Slot map = whole_address(d, at), value = d.source(count - 1, field.type);
    const bool wide = field.type == Type::b64;
    Step& step = d.emit(replace, kNoSlot, map, wide ? kNoSlot : value, wide ? value : kNoSlot);
    step.immediate = static_cast<int64_t>(field.offset + (field.count ? number.value * field.bytes : 0));
    step.mode = field.bytes;
    step.mode2 = static_cast<uint8_t>((at.shared ? 1 : 0) | (field.less_by_one ? 2 : 0));
    step.extra = d.cache();
    return true;
  }
  return false;
}

}  // namespace

bool decode_tensormap(Decoder& d) {
  if (d.has(".replace")) return decode_replace(d);
  if (!d.has(".cp_fenceproxy") || d.operand_count() < 2) return false;
  const Slot to = whole_address(d, d.address(d.operand(0), Space::global));
  const Slot from = whole_address(d, d.address(d.operand(1), Space::shared));
  d.emit(copy, to, from).extra = d.cache();
  return true;
}

}  // namespace devtrace::simulate::kernels
