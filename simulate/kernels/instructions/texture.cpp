// tex, tld4, suld, sust, txq, suq.
#include "simulate/kernels/texture.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {
namespace {

// How an instruction names a place: .1d, .a2d and so on.
struct Geometry {
  std::string_view name;
  uint8_t dimensions;
  bool layers, cube;
};
constexpr Geometry kGeometries[] = {
    {".1d", 1, false, false}, {".2d", 2, false, false},  {".3d", 3, false, false},  {".a1d", 1, true, false},
    {".a2d", 2, true, false}, {".cube", 3, false, true}, {".acube", 3, true, true},
};

const Geometry* geometry_of(const Decoder& d) {
  const auto found =
      std::find_if(std::begin(kGeometries), std::end(kGeometries), [&](const Geometry& g) { return d.has(g.name); });
  return found == std::end(kGeometries) ? nullptr : found;
}

// Calls f(lane, the object that its handle in s.a stands for) for each lane, until it says false or there is none. Most
// instructions have one for all.
template <class F>
void each_object(Machine& m, const Step& s, F f) {
  const uint64_t* const handles = m.at<uint64_t>(s.a);
  Texture texture;
  bool known = false;
  uint64_t handle = 0;
  for (const Run run : *m.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      std::string why;
      if (!known || handles[l] != handle) known = m.memory && m.memory->texture(handle = handles[l], &texture, &why);
      if (!known) {
        m.fault.address = handles[l];
        return m.fail(FaultKind::texture, l, why.empty() ? "no texture or surface object" : why);
      }
      if (!f(l, texture)) return;
    }
}

// The slots in `more` from s.b on: coordinates, a layer in front of them; from s.c on: four results.
enum Coordinates : uint8_t { kFloats, kIntegers };

// mode: which geometry; mode2: Coordinates, and 2 where results are floats; immediate: the channel of tld4, from 1 on.
void look_up(Machine& m, const Step& s) {
  const Geometry& g = kGeometries[s.mode];
  const bool integers = s.mode2 & 1, floats = s.mode2 & 2;
  each_object(m, s, [&](uint32_t l, const Texture& t) {
    const Slot* slots = m.more->data() + s.b;
    int64_t slice = 0;
    if (g.layers) {
      const int64_t layers = std::max<int64_t>(t.size[2] / (g.cube ? 6 : 1), 1);
      slice = std::clamp<int64_t>(m.at<int32_t>(*slots++)[l], 0, layers - 1) * (g.cube ? 6 : 1);
    }
    uint32_t out[4];
    if (integers) {
      int64_t at[3] = {0, 0, slice};
      for (int i = 0; i < g.dimensions; ++i) at[i] = m.at<int32_t>(slots[i])[l];
      fetch(t, at[0], at[1], at[2], floats, out);
    } else {
      float at[3] = {};
      for (int i = 0; i < g.dimensions; ++i) at[i] = m.at<float>(slots[i])[l];
      if (s.immediate) {
        gather(t, at, static_cast<int>(s.immediate) - 1, floats, out);
      } else if (g.cube) {
        float on_face[3] = {};
        const int face = face_of(at, on_face);
        Texture flat = t;
        flat.normalized = true;
        sample(flat, 2, on_face, slice + face, floats, out);
      } else {
        sample(t, g.dimensions, at, slice, floats, out);
      }
    }
    for (uint32_t i = 0; i < 4; ++i) m.at<uint32_t>((*m.more)[s.c + i])[l] = out[i];
    return true;
  });
}

bool places(Decoder& d, const Geometry& g, Type type, std::vector<Slot>* slots) {
  const Operand& address = d.operand(1 - (d.instruction().opcode == "sust"));
  if (address.kind != Operand::Kind::address || address.parts.size() < 2) return false;
  const std::vector<Operand> all = d.parts(address.parts[1]);
  const size_t wanted = g.dimensions + g.layers;
  if (all.size() < wanted) return false;
  for (size_t i = 0; i < wanted; ++i) slots->push_back(d.source(all[i], g.layers && i == 0 ? Type::b32 : type));
  return true;
}

bool decode_look_up(Decoder& d) {
  const Geometry* const g = geometry_of(d);
  const bool gathers = d.instruction().opcode == "tld4";
  if (!g || d.types().size() < 2 || d.has(".level") || d.has(".grad") || d.operand_count() > 2) return false;
  const Type result = d.types()[0], type = d.types()[1];
  if (type != Type::f32 && type != Type::s32) return false;
  const std::vector<Operand> to = d.parts(d.operand(0));
  if (to.size() != 4 || (result != Type::f32 && result != Type::s32 && result != Type::u32)) return false;
  std::vector<Slot> slots, results;
  if (!places(d, *g, type, &slots)) return false;
  const Slot handle = d.source(d.operand(1).parts[0], Type::b64);
  for (const Operand& part : to) results.push_back(d.destination(part, Type::b32));
  Step& step = d.emit(look_up, kNoSlot, handle, d.more(slots), d.more(results));
  step.mode = static_cast<uint8_t>(g - kGeometries);
  step.mode2 = static_cast<uint8_t>((type == Type::s32 ? kIntegers : kFloats) | (result == Type::f32 ? 2 : 0));
  if (gathers) step.immediate = d.has(".g") ? 2 : d.has(".b") ? 3 : d.has(".a") ? 4 : 1;
  return !gathers || g->name == ".2d";
}

enum class Outside : uint8_t { trap, clamp, zero };

// Bytes of an element's, or of several. mode: which geometry; mode2: Outside, and 4 for a store; immediate: bytes of a
// part. There are s.extra parts, with slots in `more` from s.c on.
void move(Machine& m, const Step& s) {
  const Geometry& g = kGeometries[s.mode];
  const auto outside = static_cast<Outside>(s.mode2 & 3);
  const bool store = s.mode2 & 4;
  const auto size = static_cast<uint32_t>(s.immediate);
  each_object(m, s, [&](uint32_t l, const Texture& t) {
    const Slot* slots = m.more->data() + s.b;
    int64_t at[3] = {};
    if (g.layers) at[2] = m.at<int32_t>(*slots++)[l];
    for (int i = 0; i < g.dimensions; ++i) at[i] = m.at<int32_t>(slots[i])[l];
    const int64_t whole = static_cast<int64_t>(size) * s.extra;
    const int64_t ends[3] = {static_cast<int64_t>(t.size[0] * t.element_bytes()) - whole + 1, t.size[1], t.size[2]};
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      const bool here = at[i] >= 0 && at[i] < ends[i];
      if (!here && outside == Outside::clamp && ends[i] > 0)
        at[i] = std::clamp<int64_t>(at[i], 0, ends[i] - 1);
      else
        inside &= here;
    }
    if (!inside && outside == Outside::trap) {
      m.fail(FaultKind::texture, l, "a place outside of the surface");
      return false;
    }
    uint8_t* const there = t.element(0, at[1], at[2]);
    for (uint32_t i = 0; i < s.extra; ++i) {
      uint8_t* const part = reinterpret_cast<uint8_t*>(m.at<uint64_t>((*m.more)[s.c + i])) + size_t{l} * size;
      uint8_t* const memory = inside && there ? there + at[0] + i * size : nullptr;
      if (store && memory) std::memcpy(memory, part, size);
      if (!store && memory) std::memcpy(part, memory, size);
      if (!store && !memory) std::memset(part, 0, size);
    }
    return true;
  });
}

bool decode_move(Decoder& d, bool store) {
  const Geometry* const g = geometry_of(d);
  const size_t bytes = ptx::bytes_of(d.type());
  if (!g || g->cube || !bytes || bytes > 8 || d.has(".p") || d.operand_count() < 2) return false;
  const size_t handle_at = store ? 0 : 1;
  std::vector<Slot> slots, parts;
  if (!places(d, *g, Type::b32, &slots)) return false;
  const Slot handle = d.source(d.operand(handle_at).parts[0], Type::b64);
  for (const Operand& part : d.parts(d.operand(1 - handle_at)))
    parts.push_back(store ? d.source(part, d.type()) : d.destination(part, d.type()));
  Step& step = d.emit(move, kNoSlot, handle, d.more(slots), d.more(parts));
  step.mode = static_cast<uint8_t>(g - kGeometries);
  const Outside outside = d.has(".clamp") ? Outside::clamp : d.has(".zero") ? Outside::zero : Outside::trap;
  step.mode2 = static_cast<uint8_t>(static_cast<uint8_t>(outside) | (store ? 4 : 0));
  step.immediate = static_cast<int64_t>(bytes);
  step.extra = static_cast<uint32_t>(parts.size());
  return true;
}

void query(Machine& m, const Step& s) {
  each_object(m, s, [&](uint32_t l, const Texture& t) {
    m.at<uint32_t>(s.d)[l] = t.size[s.mode];
    return true;
  });
}

bool decode_query(Decoder& d) {
  const Operand& object = d.operand(1);
  const int which = d.has(".width") ? 0 : d.has(".height") ? 1 : d.has(".depth") || d.has(".array_size") ? 2 : -1;
  if (which < 0 || object.kind != Operand::Kind::address || object.parts.empty()) return false;
  const Slot handle = d.source(object.parts[0], Type::b64);
  d.emit(query, d.destination(0, Type::b32), handle).mode = static_cast<uint8_t>(which);
  return true;
}

}  // namespace

bool decode_texture(Decoder& d) {
  const std::string_view op = d.instruction().opcode;
  if (op == "tex" || op == "tld4") return decode_look_up(d);
  if (op == "suld" || op == "sust") return decode_move(d, op == "sust");
  return decode_query(d);
}

}  // namespace devtrace::simulate::kernels
