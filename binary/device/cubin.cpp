// Kernels and variables of a cubin, from its section and symbol tables and the attributes that the compiler leaves in
// .nv.info*.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "binary/device/formats.h"
#include "binary/elf/sections.h"
#include "binary/elf/segments.h"

namespace devtrace::device {
namespace {

// Attributes of .nv.info sections that are read here.
enum Attribute : uint8_t {
  kParameterBank = 0x0a,   // u32 symbol, u16 where parameters begin in constant bank 0, u16 bytes
  kMaxThreads = 0x05,      // three u32
  kFrameSize = 0x11,       // u32 symbol, u32 bytes
  kParameter = 0x17,       // u32, u16 ordinal, u16 offset, u32 with the size from bit 18
  kRegisters = 0x2f,       // u32 symbol, u32 count
  kLargeParameter = 0x45,  // u32, u16 ordinal, u16 offset, u32 size
};

template <typename F>
void each_attribute(View section, F f) {
  for (size_t at = 0; at + 4 <= section.size;) {
    uint8_t format = section.data[at], attribute = section.data[at + 1];
    uint16_t value;
    std::memcpy(&value, section.data + at + 2, 2);
    at += 4;
    if (format != 4) continue;  // its value is in `value`, or it has none
    if (value > section.size - at) return;
    f(attribute, View{section.data + at, value});
    at += value;
  }
}

constexpr size_t kMostName = 64 * 1024;  // of a function; templates of templates take a few thousand bytes

struct Cubin {
  elf::Sections sections;
  elf::SymbolTable symbols{sections};

  std::string_view name_of(const Elf64_Sym& symbol) const {
    const char* const name = symbols.name_of(symbol);
    return {name, strnlen(name, kMostName)};
  }
  // 90 for sm_90; Pascal and older (below 70) have another encoding of instructions.
  unsigned architecture() const {
    const Elf64_Ehdr& header = sections.header();
    return header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff;
  }
};

template <typename F>
void each_symbol(const Cubin& cubin, F f) {
  for (size_t i = 0; i < cubin.symbols.count(); ++i) f(cubin.symbols.at(i));
}

// What there is in a kernel's constant banks: parameters in bank 0, numbers of the code's own in bank 2.
struct Banks {
  Bytes parameters;
  View numbers;
};

void read_parameters(View section, KernelFacts* facts, Bytes* bank) {
  facts->parameters_known = true;
  each_attribute(section, [&](uint8_t attribute, View v) {
    uint16_t ordinal = 0, offset = 0;
    uint32_t size = 0;
    if (attribute == kMaxThreads) {
      uint32_t n[3];
      if (v.read(0, n)) facts->max_threads = static_cast<int>(n[0] * n[1] * n[2]);
    }
    uint16_t begin, bytes;
    if (attribute == kParameterBank && v.read(4, begin) && v.read(6, bytes)) *bank = {begin, begin + size_t{bytes}};
    if (attribute != kParameter && attribute != kLargeParameter) return;
    if (!v.read(4, ordinal) || !v.read(6, offset) || !v.read(8, size)) return;
    if (attribute == kParameter) size = size >> 18 & 0x3fff;
    if (ordinal >= kMostParameters || size > kMostParameterBytes) return;
    if (facts->parameters.size() <= ordinal) facts->parameters.resize(ordinal + size_t{1});
    facts->parameters[ordinal] = {offset, size};
  });
}

// The kernel that a section belongs to: ".nv.info.NAME" and the like.
KernelFacts* kernel_of(Image* image, std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return nullptr;
  auto it = image->kernels.find(std::string(name.substr(prefix.size())));
  return it == image->kernels.end() ? nullptr : &it->second;
}

// What .nv.info says of each function, whatever kernel it is.
void read_functions(const Cubin& cubin, View section, Image* out) {
  each_attribute(section, [&](uint8_t attribute, View v) {
    uint32_t symbol, value;
    if ((attribute != kRegisters && attribute != kFrameSize) || !v.read(0, symbol) || !v.read(4, value)) return;
    if (KernelFacts* f = kernel_of(out, cubin.name_of(cubin.symbols.at(symbol)), ""))
      (attribute == kRegisters ? f->registers : f->local) = static_cast<int>(value);
  });
}

// Where a variable lies in its section, one that begins with values or one of zeros.
Variable variable_of(const Cubin& cubin, const Elf64_Sym& symbol) {
  constexpr unsigned char kManaged = 0x04;  // STO_CUDA_MANAGED
  Variable variable;
  variable.bytes = std::min<size_t>(symbol.st_size, kMostImage);
  variable.managed = symbol.st_other & kManaged;
  const View section = cubin.sections.bytes_of(cubin.sections.at(symbol.st_shndx));
  const View begin = section.part(symbol.st_value, variable.bytes);
  variable.initial.assign(begin.data, begin.data + begin.size);
  return variable;
}

// The variable of a section in which an offset lies; nothing: none.
std::optional<Elf64_Sym> variable_at(const Cubin& cubin, size_t section, size_t offset) {
  for (size_t i = 0; i < cubin.symbols.count(); ++i)
    if (const Elf64_Sym s = cubin.symbols.at(i); s.st_shndx == section && ELF64_ST_TYPE(s.st_info) == STT_OBJECT &&
                                                 offset >= s.st_value && offset - s.st_value < s.st_size)
      return s;
  return std::nullopt;
}

// Variables that begin with another one's address: a relocation of their section for each. Before Hopper what has to be
// added stands in the variable itself.
void read_addresses(const Cubin& cubin, Image* out) {
  cubin.sections.for_each([&](const Elf64_Shdr& s, const char*) {
    if (s.sh_type != SHT_RELA && s.sh_type != SHT_REL) return;
    const std::string_view target = cubin.sections.name_of(cubin.sections.at(s.sh_info));
    if (target != ".nv.global.init" && target != ".nv.constant3") return;
    const size_t bytes = s.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    const View table = cubin.sections.bytes_of(s);
    for (size_t at = 0; at + bytes <= table.size; at += bytes) {
      Elf64_Rela relocation = {};
      std::memcpy(&relocation, table.data + at, bytes);
      const Elf64_Sym to = cubin.symbols.at(ELF64_R_SYM(relocation.r_info));
      if (ELF64_ST_TYPE(to.st_info) != STT_OBJECT) continue;
      const auto symbol = variable_at(cubin, s.sh_info, relocation.r_offset);
      if (!symbol) continue;
      Variable& variable = out->variables[std::string(cubin.name_of(*symbol))];
      const size_t offset = relocation.r_offset - symbol->st_value;
      if (s.sh_type == SHT_REL)
        View{variable.initial.data(), variable.initial.size()}.read(offset, relocation.r_addend);
      variable.addresses.push_back({offset, std::string(cubin.name_of(to)), relocation.r_addend});
    }
  });
}

}  // namespace

bool is_cubin(View image) {
  Elf64_Ehdr header;
  return elf::read_header(image, 0, header);
}

size_t cubin_bytes(View image) {
  Elf64_Ehdr header;
  if (!image.read(0, header)) return 0;
  const size_t table = size_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > kMostImage || !image.holds(header.e_shoff, table)) return 0;
  // The program headers are the last thing of most cubins.
  const size_t programs = size_t{header.e_phnum} * header.e_phentsize;
  if (header.e_phoff > kMostImage) return 0;
  size_t end = std::max(header.e_shoff + table, header.e_phoff + programs);
  Elf64_Shdr section;
  for (size_t i = 0; i < header.e_shnum && header.e_shentsize == sizeof section; ++i) {
    image.read(header.e_shoff + i * sizeof section, section);
    if (section.sh_type == SHT_NOBITS || section.sh_offset > kMostImage || section.sh_size > kMostImage) continue;
    end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return end <= image.size ? end : 0;
}

bool read_cubin(View image, std::string_view only, Image* out) {
  const Cubin cubin{elf::Sections(image)};
  const elf::Sections& sections = cubin.sections;
  if (sections.count() == 0) return false;
  // STO_CUDA_ENTRY: only these functions can be launched.
  constexpr unsigned char kEntry = 0x10;
  each_symbol(cubin, [&](const Elf64_Sym& symbol) {
    const std::string_view name = cubin.name_of(symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && (symbol.st_other & kEntry) && (only.empty() || name == only))
      out->kernels[std::string(name)];
    if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx != SHN_UNDEF && only.empty())
      out->variables[std::string(name)] = variable_of(cubin, symbol);
  });
  if (only.empty()) read_addresses(cubin, out);
  if (out->kernels.empty()) return true;
  const bool readable = cubin.architecture() >= 70;
  const bool reserves_shared = sections.has(".nv.shared.reserved.0");
  std::unordered_map<std::string, Banks> banks;
  sections.for_each([&](const Elf64_Shdr& s, std::string_view name) {
    if (KernelFacts* f = kernel_of(out, name, ".nv.info."))
      read_parameters(sections.bytes_of(s), f, &banks[std::string(name.substr(9))].parameters);
    // From Hopper on the section begins with 1 KiB that is the driver's.
    if (KernelFacts* f = kernel_of(out, name, ".nv.shared."))
      f->static_shared = static_cast<int>(s.sh_size) - (reserves_shared && s.sh_size >= 1024 ? 1024 : 0);
    if (kernel_of(out, name, ".nv.constant2.")) banks[std::string(name.substr(14))].numbers = sections.bytes_of(s);
    if (name == ".nv.info") read_functions(cubin, sections.bytes_of(s), out);
  });
  sections.for_each([&](const Elf64_Shdr& s, std::string_view name) {
    KernelFacts* const f = kernel_of(out, name, ".text.");
    if (!f) return;
    const Banks& own = banks[std::string(name.substr(6))];
    if (readable)
      read_machine_code(sections.bytes_of(s), cubin.architecture(), own.parameters, own.numbers, f);
    else
      for (const Parameter& p : f->parameters) f->reads.push_back({p.offset, p.offset + p.size});
  });
  return true;
}

}  // namespace devtrace::device
