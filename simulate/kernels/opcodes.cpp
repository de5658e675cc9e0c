// Which family of instructions does which opcode, and the special registers.
#include <algorithm>
#include <iterator>
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/clock.h"

namespace devtrace::simulate::kernels {
namespace {

// Every opcode that is known, in the order of the alphabet. The first family that takes an instruction does it.
constexpr Family kFamilies[] = {
    {"abs", decode_half},        {"abs", decode_real},
    {"abs", decode_integer},     {"activemask", decode_warp},
    {"add", decode_half},        {"add", decode_real},
    {"add", decode_integer},     {"addc", decode_integer},
    {"and", decode_bits},        {"applypriority", decode_memory},
    {"atom", decode_atomic},     {"bar", decode_flow},
    {"barrier", decode_flow},    {"bfe", decode_bits},
    {"bfi", decode_bits},        {"bfind", decode_bits},
    {"bmsk", decode_bits},       {"bra", decode_flow},
    {"brev", decode_bits},       {"brkpt", decode_flow},
    {"brx", decode_flow},        {"call", decode_flow},
    {"clz", decode_bits},        {"cnot", decode_bits},
    {"copysign", decode_real},   {"cos", decode_real},
    {"cp", decode_memory},       {"createpolicy", decode_memory},
    {"cvt", decode_convert},     {"cvta", decode_memory},
    {"discard", decode_memory},  {"div", decode_real},
    {"div", decode_integer},     {"dp2a", decode_integer},
    {"dp4a", decode_integer},    {"elect", decode_warp},
    {"ex2", decode_half},        {"ex2", decode_real},
    {"exit", decode_flow},       {"fence", decode_flow},
    {"fma", decode_half},        {"fma", decode_real},
    {"fns", decode_bits},        {"griddepcontrol", decode_flow},
    {"isspacep", decode_memory}, {"ld", decode_memory},
    {"ldmatrix", decode_matrix}, {"ldu", decode_memory},
    {"lg2", decode_real},        {"lop3", decode_bits},
    {"mad", decode_real},        {"mad", decode_integer},
    {"mad24", decode_integer},   {"madc", decode_integer},
    {"match", decode_warp},      {"max", decode_half},
    {"max", decode_real},        {"max", decode_integer},
    {"membar", decode_flow},     {"min", decode_half},
    {"min", decode_real},        {"min", decode_integer},
    {"mma", decode_matrix},      {"mov", decode_compare},
    {"mul", decode_half},        {"mul", decode_real},
    {"mul", decode_integer},     {"mul24", decode_integer},
    {"nanosleep", decode_flow},  {"neg", decode_half},
    {"neg", decode_real},        {"neg", decode_integer},
    {"not", decode_bits},        {"or", decode_bits},
    {"pmevent", decode_flow},    {"popc", decode_bits},
    {"prefetch", decode_memory}, {"prefetchu", decode_memory},
    {"prmt", decode_bits},       {"rcp", decode_real},
    {"red", decode_atomic},      {"redux", decode_warp},
    {"rem", decode_integer},     {"ret", decode_flow},
    {"rsqrt", decode_real},      {"sad", decode_integer},
    {"selp", decode_compare},    {"set", decode_compare},
    {"setmaxnreg", decode_flow}, {"setp", decode_compare},
    {"shf", decode_bits},        {"shfl", decode_warp},
    {"shl", decode_bits},        {"shr", decode_bits},
    {"sin", decode_real},        {"slct", decode_compare},
    {"sqrt", decode_real},       {"st", decode_memory},
    {"stmatrix", decode_matrix}, {"sub", decode_half},
    {"sub", decode_real},        {"sub", decode_integer},
    {"subc", decode_integer},    {"szext", decode_bits},
    {"tanh", decode_half},       {"tanh", decode_real},
    {"testp", decode_real},      {"trap", decode_flow},
    {"vote", decode_warp},       {"xor", decode_bits},
};
static_assert(std::ranges::is_sorted(kFamilies, {}, &Family::opcode));

struct SpecialName {
  std::string_view name;
  Special special;
  uint8_t bytes = 4;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%tid", Special::tid_x},
    {"%ntid", Special::ntid_x},
    {"%ctaid", Special::ctaid_x},
    {"%nctaid", Special::nctaid_x},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%smid", Special::smid},
    {"%nsmid", Special::nsmid},
    {"%gridid", Special::gridid, 8},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%total_smem_size", Special::total_smem_size},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    // A cluster is one block.
    {"%clusterid.x", Special::ctaid_x},
    {"%clusterid.y", Special::ctaid_y},
    {"%clusterid.z", Special::ctaid_z},
    {"%nclusterid.x", Special::nctaid_x},
    {"%nclusterid.y", Special::nctaid_y},
    {"%nclusterid.z", Special::nctaid_z},
    {"%cluster_ctaid.x", Special::zero},
    {"%cluster_ctaid.y", Special::zero},
    {"%cluster_ctaid.z", Special::zero},
    {"%cluster_nctaid.x", Special::one},
    {"%cluster_nctaid.y", Special::one},
    {"%cluster_nctaid.z", Special::one},
    {"%cluster_ctarank", Special::zero},
    {"%cluster_nctarank", Special::one},
    {"%clock", Special::clock},
    {"%clock_hi", Special::zero},
    {"%clock64", Special::clock64, 8},
    {"%globaltimer", Special::globaltimer, 8},
    {"%globaltimer_lo", Special::clock},
    {"%globaltimer_hi", Special::zero},
};

}  // namespace

std::pair<const Family*, const Family*> families_of(std::string_view opcode) {
  const auto found = std::ranges::equal_range(kFamilies, opcode, {}, &Family::opcode);
  return {found.begin(), found.end()};
}

Slot Decoder::special(std::string_view name, size_t* bytes) {
  for (const SpecialName& one : kSpecials) {
    if (one.name != name) continue;
    *bytes = one.bytes;
    if (one.special >= Special::clock) {
      const Slot slot = temporary(one.bytes);
      emit(one.bytes == 8 ? &read_clock<uint64_t> : &read_clock<uint32_t>, slot).mode =
          static_cast<uint8_t>(one.special);
      return slot;
    }
    return filled(Constant::Kind::special, static_cast<uint64_t>(one.special), 0, one.bytes);
  }
  // Environment registers are what nobody has set.
  if (name.starts_with("%envreg") || name.starts_with("%pm")) return *bytes = 4, constant(0, 4);
  refuse("special register " + std::string(name));
  return *bytes = 4, constant(0, 4);
}

}  // namespace devtrace::simulate::kernels
