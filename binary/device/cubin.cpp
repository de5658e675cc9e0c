// Kernels and variables of a cubin, from its section and symbol tables and the attributes that the compiler leaves in
// .nv.info*.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "binary/device/formats.h"

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

struct Elf {
  View file = {};
  Elf64_Ehdr header = {};
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  View names = {}, symbol_names = {};

  View bytes(const Elf64_Shdr& s) const {
    if (s.sh_type == SHT_NOBITS || s.sh_offset > file.size || file.size - s.sh_offset < s.sh_size)
      return {file.data, 0};
    return {file.data + s.sh_offset, s.sh_size};
  }
  std::string_view text(View table, size_t offset) const {
    if (offset >= table.size) return {};
    auto* begin = reinterpret_cast<const char*>(table.data + offset);
    return {begin, strnlen(begin, std::min(table.size - offset, kMostName))};
  }
  // 90 for sm_90; Pascal and older (below 70) have another encoding of instructions.
  unsigned architecture() const {
    return header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff;
  }
  bool open() {
    if (!file.get(0, &header) || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum)
      return false;
    sections.resize(header.e_shnum);
    for (size_t i = 0; i < sections.size(); ++i)
      if (!file.get(header.e_shoff + i * sizeof(Elf64_Shdr), &sections[i])) return false;
    names = bytes(sections[header.e_shstrndx]);
    for (const Elf64_Shdr& s : sections) {
      if (s.sh_type != SHT_SYMTAB || s.sh_link >= sections.size()) continue;
      symbol_names = bytes(sections[s.sh_link]);
      View table = bytes(s);
      symbols.resize(table.size / sizeof(Elf64_Sym));
      if (!symbols.empty()) std::memcpy(symbols.data(), table.data, symbols.size() * sizeof(Elf64_Sym));
      break;  // an object has one
    }
    return true;
  }
};

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
      if (v.get(0, &n)) facts->max_threads = static_cast<int>(n[0] * n[1] * n[2]);
    }
    uint16_t begin, bytes;
    if (attribute == kParameterBank && v.get(4, &begin) && v.get(6, &bytes)) *bank = {begin, begin + size_t{bytes}};
    if (attribute != kParameter && attribute != kLargeParameter) return;
    if (!v.get(4, &ordinal) || !v.get(6, &offset) || !v.get(8, &size)) return;
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
void read_functions(const Elf& elf, View section, Image* out) {
  each_attribute(section, [&](uint8_t attribute, View v) {
    uint32_t symbol, value;
    if ((attribute != kRegisters && attribute != kFrameSize) || !v.get(0, &symbol) || !v.get(4, &value)) return;
    if (symbol >= elf.symbols.size()) return;
    if (KernelFacts* f = kernel_of(out, elf.text(elf.symbol_names, elf.symbols[symbol].st_name), ""))
      (attribute == kRegisters ? f->registers : f->local) = static_cast<int>(value);
  });
}

// Where a variable lies in its section, one that begins with values or one of zeros.
Variable variable_of(const Elf& elf, const Elf64_Sym& symbol) {
  constexpr unsigned char kManaged = 0x04;  // STO_CUDA_MANAGED
  Variable variable;
  variable.bytes = std::min<size_t>(symbol.st_size, kMostImage);
  variable.managed = symbol.st_other & kManaged;
  if (symbol.st_shndx >= elf.sections.size()) return variable;
  const View section = elf.bytes(elf.sections[symbol.st_shndx]);
  if (symbol.st_value > section.size || variable.bytes > section.size - symbol.st_value) return variable;
  const uint8_t* const begin = section.data + symbol.st_value;
  variable.initial.assign(begin, begin + variable.bytes);
  return variable;
}

// The variable of a section in which an offset lies; null: none.
const Elf64_Sym* variable_at(const Elf& elf, size_t section, size_t offset) {
  for (const Elf64_Sym& s : elf.symbols)
    if (s.st_shndx == section && ELF64_ST_TYPE(s.st_info) == STT_OBJECT && offset >= s.st_value &&
        offset - s.st_value < s.st_size)
      return &s;
  return nullptr;
}

// Variables that begin with another one's address: a relocation of their section for each. Before Hopper what has to be
// added stands in the variable itself.
void read_addresses(const Elf& elf, Image* out) {
  for (const Elf64_Shdr& s : elf.sections) {
    if ((s.sh_type != SHT_RELA && s.sh_type != SHT_REL) || s.sh_info >= elf.sections.size()) continue;
    const std::string_view target = elf.text(elf.names, elf.sections[s.sh_info].sh_name);
    if (target != ".nv.global.init" && target != ".nv.constant3") continue;
    const size_t bytes = s.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    const View table = elf.bytes(s);
    for (size_t at = 0; at + bytes <= table.size; at += bytes) {
      Elf64_Rela relocation = {};
      std::memcpy(&relocation, table.data + at, bytes);
      const size_t to = ELF64_R_SYM(relocation.r_info);
      if (to >= elf.symbols.size() || ELF64_ST_TYPE(elf.symbols[to].st_info) != STT_OBJECT) continue;
      const Elf64_Sym* const symbol = variable_at(elf, s.sh_info, relocation.r_offset);
      if (!symbol) continue;
      Variable& variable = out->variables[std::string(elf.text(elf.symbol_names, symbol->st_name))];
      const size_t offset = relocation.r_offset - symbol->st_value;
      if (s.sh_type == SHT_REL)
        View{variable.initial.data(), variable.initial.size()}.get(offset, &relocation.r_addend);
      variable.addresses.push_back(
          {offset, std::string(elf.text(elf.symbol_names, elf.symbols[to].st_name)), relocation.r_addend});
    }
  }
}

}  // namespace

bool is_cubin(Span image) {
  return image.bytes >= sizeof(Elf64_Ehdr) && !std::memcmp(image.data, ELFMAG, SELFMAG) &&
         image.data[EI_CLASS] == ELFCLASS64;
}

size_t cubin_bytes(Span image) {
  Elf64_Ehdr header;
  if (!View{image.data, image.bytes}.get(0, &header)) return 0;
  const size_t table = size_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > kMostImage || table > image.bytes || header.e_shoff > image.bytes - table) return 0;
  // The program headers are the last thing of most cubins.
  const size_t programs = size_t{header.e_phnum} * header.e_phentsize;
  if (header.e_phoff > kMostImage) return 0;
  size_t end = std::max(header.e_shoff + table, header.e_phoff + programs);
  Elf64_Shdr section;
  for (size_t i = 0; i < header.e_shnum && header.e_shentsize == sizeof section; ++i) {
    std::memcpy(&section, image.data + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_NOBITS || section.sh_offset > kMostImage || section.sh_size > kMostImage) continue;
    end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return end <= image.bytes ? end : 0;
}

bool read_cubin(Span bytes, std::string_view only, Image* out) {
  Elf elf;
  elf.file = {bytes.data, bytes.bytes};
  if (!elf.open()) return false;
  // STO_CUDA_ENTRY: only these functions can be launched.
  constexpr unsigned char kEntry = 0x10;
  for (const Elf64_Sym& symbol : elf.symbols) {
    const std::string_view name = elf.text(elf.symbol_names, symbol.st_name);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && (symbol.st_other & kEntry) && (only.empty() || name == only))
      out->kernels[std::string(name)];
    if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx != SHN_UNDEF && only.empty())
      out->variables[std::string(name)] = variable_of(elf, symbol);
  }
  if (only.empty()) read_addresses(elf, out);
  if (out->kernels.empty()) return true;
  const bool readable = elf.architecture() >= 70;
  std::unordered_map<std::string, Banks> banks;
  bool reserves_shared = false;
  for (const Elf64_Shdr& s : elf.sections) reserves_shared |= elf.text(elf.names, s.sh_name) == ".nv.shared.reserved.0";
  for (const Elf64_Shdr& s : elf.sections) {
    const std::string_view name = elf.text(elf.names, s.sh_name);
    if (KernelFacts* f = kernel_of(out, name, ".nv.info."))
      read_parameters(elf.bytes(s), f, &banks[std::string(name.substr(9))].parameters);
    // From Hopper on the section begins with 1 KiB that is the driver's.
    if (KernelFacts* f = kernel_of(out, name, ".nv.shared."))
      f->static_shared = static_cast<int>(s.sh_size) - (reserves_shared && s.sh_size >= 1024 ? 1024 : 0);
    if (kernel_of(out, name, ".nv.constant2.")) banks[std::string(name.substr(14))].numbers = elf.bytes(s);
    if (name == ".nv.info") read_functions(elf, elf.bytes(s), out);
  }
  for (const Elf64_Shdr& s : elf.sections) {
    const std::string_view name = elf.text(elf.names, s.sh_name);
    KernelFacts* const f = kernel_of(out, name, ".text.");
    if (!f) continue;
    const Banks& own = banks[std::string(name.substr(6))];
    if (readable)
      read_machine_code(elf.bytes(s), elf.architecture(), own.parameters, own.numbers, f);
    else
      for (const Parameter& p : f->parameters) f->reads.push_back({p.offset, p.offset + p.size});
  }
  return true;
}

}  // namespace devtrace::device
