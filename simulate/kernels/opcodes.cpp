// Which family of instructions does which opcode, and the special registers.
#include <algorithm>
#include <iterator>
#include <string>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/clock.h"

namespace devtrace::simulate::kernels {
namespace {

// Every opcode that is known, in the order of the alphabet, with the least of its operands. The first family that takes
// an instruction does it.
constexpr Family kFamilies[] = {
    {"abs", decode_half, 2},
    {"abs", decode_real, 2},
    {"abs", decode_integer, 2},
    {"activemask", decode_warp, 0},
    {"add", decode_half, 3},
    {"add", decode_real, 3},
    {"add", decode_integer, 3},
    {"addc", decode_integer, 3},
    {"and", decode_bits, 3},
    {"applypriority", decode_memory, 0},
    {"atom", decode_atomic, 0},
    {"bar", decode_flow, 0},
    {"barrier", decode_flow, 0},
    {"bfe", decode_bits, 4},
    {"bfi", decode_bits, 5},
    {"bfind", decode_bits, 2},
    {"bmsk", decode_bits, 3},
    {"bra", decode_flow, 0},
    {"brev", decode_bits, 2},
    {"brkpt", decode_flow, 0},
    {"brx", decode_flow, 2},
    {"call", decode_flow, 0},
    {"clz", decode_bits, 2},
    {"cnot", decode_bits, 2},
    {"copysign", decode_real, 3},
    {"cos", decode_real, 2},
    {"cp", decode_memory, 0},
    {"cp", decode_mbarrier, 1},
    {"cp", decode_bulk, 0},
    {"createpolicy", decode_memory, 0},
    {"cvt", decode_convert, 2},
    {"cvta", decode_memory, 2},
    {"discard", decode_memory, 0},
    {"div", decode_real, 3},
    {"div", decode_integer, 3},
    {"dp2a", decode_integer, 4},
    {"dp4a", decode_integer, 4},
    {"elect", decode_warp, 0},
    {"ex2", decode_half, 2},
    {"ex2", decode_real, 2},
    {"exit", decode_flow, 0},
    {"fence", decode_flow, 0},
    {"fma", decode_half, 4},
    {"fma", decode_real, 4},
    {"fns", decode_bits, 4},
    {"getctarank", decode_cluster, 2},
    {"griddepcontrol", decode_flow, 0},
    {"isspacep", decode_memory, 2},
    {"ld", decode_memory, 2},
    {"ldmatrix", decode_matrix, 0},
    {"ldu", decode_memory, 2},
    {"lg2", decode_real, 2},
    {"lop3", decode_bits, 5},
    {"mad", decode_real, 4},
    {"mad", decode_integer, 4},
    {"mad24", decode_integer, 4},
    {"madc", decode_integer, 4},
    {"mapa", decode_cluster, 3},
    {"match", decode_warp, 0},
    {"max", decode_half, 3},
    {"max", decode_real, 3},
    {"max", decode_integer, 3},
    {"mbarrier", decode_mbarrier, 1},
    {"membar", decode_flow, 0},
    {"min", decode_half, 3},
    {"min", decode_real, 3},
    {"min", decode_integer, 3},
    {"mma", decode_matrix, 0},
    {"mov", decode_compare, 2},
    {"mul", decode_half, 3},
    {"mul", decode_real, 3},
    {"mul", decode_integer, 3},
    {"mul24", decode_integer, 3},
    {"nanosleep", decode_flow, 0},
    {"neg", decode_half, 2},
    {"neg", decode_real, 2},
    {"neg", decode_integer, 2},
    {"not", decode_bits, 2},
    {"or", decode_bits, 3},
    {"pmevent", decode_flow, 0},
    {"popc", decode_bits, 2},
    {"prefetch", decode_memory, 0},
    {"prefetchu", decode_memory, 0},
    {"prmt", decode_bits, 4},
    {"rcp", decode_real, 2},
    {"red", decode_atomic, 2},
    {"redux", decode_warp, 0},
    {"rem", decode_integer, 3},
    {"ret", decode_flow, 0},
    {"rsqrt", decode_real, 2},
    {"sad", decode_integer, 4},
    {"selp", decode_compare, 4},
    {"set", decode_compare, 3},
    {"setmaxnreg", decode_flow, 0},
    {"setp", decode_compare, 3},
    {"shf", decode_bits, 4},
    {"shfl", decode_warp, 0},
    {"shl", decode_bits, 3},
    {"shr", decode_bits, 3},
    {"sin", decode_real, 2},
    {"slct", decode_compare, 4},
    {"sqrt", decode_real, 2},
    {"st", decode_memory, 2},
    {"stmatrix", decode_matrix, 0},
    {"sub", decode_half, 3},
    {"sub", decode_real, 3},
    {"sub", decode_integer, 3},
    {"subc", decode_integer, 3},
    {"suld", decode_texture, 2},
    {"suq", decode_texture, 2},
    {"sust", decode_texture, 2},
    {"szext", decode_bits, 3},
    {"tanh", decode_half, 2},
    {"tanh", decode_real, 2},
    {"tensormap", decode_tensormap, 2},
    {"testp", decode_real, 2},
    {"tex", decode_texture, 2},
    {"tld4", decode_texture, 2},
    {"trap", decode_flow, 0},
    {"txq", decode_texture, 2},
    {"vabsdiff", decode_video, 3},
    {"vabsdiff2", decode_video, 3},
    {"vabsdiff4", decode_video, 3},
    {"vadd", decode_video, 3},
    {"vadd2", decode_video, 3},
    {"vadd4", decode_video, 3},
    {"vavrg2", decode_video, 3},
    {"vavrg4", decode_video, 3},
    {"vmad", decode_video, 3},
    {"vmax", decode_video, 3},
    {"vmax2", decode_video, 3},
    {"vmax4", decode_video, 3},
    {"vmin", decode_video, 3},
    {"vmin2", decode_video, 3},
    {"vmin4", decode_video, 3},
    {"vote", decode_warp, 0},
    {"vset", decode_video, 3},
    {"vset2", decode_video, 3},
    {"vset4", decode_video, 3},
    {"vshl", decode_video, 3},
    {"vshr", decode_video, 3},
    {"vsub", decode_video, 3},
    {"vsub2", decode_video, 3},
    {"vsub4", decode_video, 3},
    {"wgmma", decode_wgmma, 0},
    {"wmma", decode_wmma, 2},
    {"xor", decode_bits, 3},
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
    {"%clusterid.x", Special::clusterid_x},
    {"%clusterid.y", Special::clusterid_y},
    {"%clusterid.z", Special::clusterid_z},
    {"%nclusterid.x", Special::nclusterid_x},
    {"%nclusterid.y", Special::nclusterid_y},
    {"%nclusterid.z", Special::nclusterid_z},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z},
    {"%cluster_ctarank", Special::cluster_ctarank},
    {"%cluster_nctarank", Special::cluster_nctarank},
    // Where cooperative groups find what blocks of a grid meet at.
    {"%envreg1", Special::workspace_high},
    {"%envreg2", Special::workspace_low},
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
