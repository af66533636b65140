// SPDX-License-Identifier: MIT
#include "support/cuda/object_code.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string_view>

namespace cleave::testing {
namespace {

/// A GPU object file embedded in another file.
class gpu_object {
 public:
  /// Precondition: `bytes` begin with the header of such a file.
  explicit gpu_object(std::string_view bytes) : bytes_(bytes) {
    auto const header = at<Elf64_Ehdr>(0);
    for (std::size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
    names_ = sections_.at(header.e_shstrndx).sh_offset;
  }

  std::vector<kernel_code> kernels() const {
    std::vector<kernel_code> all;
    for (auto const& s : sections_) {
      std::string const name = text(names_ + s.sh_name);
      if (name.starts_with(".text.")) all.push_back(kernel(name.substr(6), s));
    }
    return all;
  }

 private:
  template <class T>
  T at(std::size_t place) const {
    T x;
    auto const found = bytes_.substr(place, sizeof x);
    if (found.size() < sizeof x) throw std::out_of_range("code for a GPU that ends too early");
    std::ranges::copy(found, reinterpret_cast<char*>(&x));
    return x;
  }
  std::string text(std::size_t place) const {
    auto const from = bytes_.substr(place);
    return std::string(from.substr(0, from.find('\0')));
  }

  kernel_code kernel(std::string const& symbol, Elf64_Shdr const& code) const {
    std::unique_ptr<char, void (*)(void*)> const readable(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), std::free);
    kernel_code k;
    static std::regex const version("v[0-9]+_[0-9]+::");  // the inline namespace
    k.name = std::regex_replace(readable ? readable.get() : symbol.c_str(), version, "");
    k.registers = attribute(symbol, 0x2f);
    k.frame = attribute(symbol, 0x11);
    for (std::size_t place = 0; place + 16 <= code.sh_size; place += 16, ++k.instructions) {
      auto const access = access_of(code.sh_offset + place);
      if (!access.empty()) ++k.accesses[access];
      auto const operation = at<std::uint64_t>(code.sh_offset + place) & 0x1ff;  // for any operands
      if (operation == 0x23 || operation == 0x2b) ++k.fused;                     // FFMA, DFMA
    }
    return k;
  }

  std::string access_of(std::size_t place) const {
    auto const low = at<std::uint64_t>(place), high = at<std::uint64_t>(place + 8);
    static std::map<std::uint64_t, std::string> const names = {
        {0x981, "LDG"}, {0x986, "STG"}, {0x980, "LD"}, {0x985, "ST"}, {0x983, "LDL"}, {0x387, "STL"}};
    static char const* const bits[] = {".8", ".8", ".16", ".16", ".32", ".64", ".128", ".?"};
    if ((low & 0xfff) == 0x97e) return "LDG.256";  // from sm_100 on
    if ((low & 0xfff) == 0x97f) return "STG.256";
    auto const found = names.find(low & 0xfff);
    return found == names.end() ? "" : found->second + bits[high >> 9 & 7];
  }

  /// Returns the attribute `number` that the compiler recorded for a function, or 0.
  std::uint32_t attribute(std::string const& symbol, std::uint8_t number) const {
    for (auto const& s : sections_) {
      if (text(names_ + s.sh_name) != ".nv.info") continue;
      for (std::size_t place = s.sh_offset, end = place + s.sh_size; place + 4 <= end;) {
        auto const form = at<std::uint8_t>(place), kind = at<std::uint8_t>(place + 1);
        std::size_t const size = form == 4 ? at<std::uint16_t>(place + 2) : 0;  // other forms: none
        if (form == 4 && kind == number && size == 8 && symbol_name(at<std::uint32_t>(place + 4)) == symbol)
          return at<std::uint32_t>(place + 8);
        place += 4 + size;
      }
    }
    return 0;
  }

  std::string symbol_name(std::uint32_t i) const {
    for (auto const& s : sections_)
      if (s.sh_type == SHT_SYMTAB)
        return text(sections_[s.sh_link].sh_offset +
                    at<Elf64_Sym>(s.sh_offset + i * sizeof(Elf64_Sym)).st_name);
    return "";
  }

  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::size_t names_ = 0;
};

}  // namespace

std::vector<kernel_code> kernels_in(std::string const& file) {
  std::ifstream in(file, std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr std::uint16_t gpu = 190;
  std::vector<kernel_code> all;
  for (auto at = bytes.find("\x7f"
                            "ELF");
       at != std::string::npos; at = bytes.find("\x7f"
                                                "ELF",
                                                at + 1)) {
    std::uint16_t machine = 0;
    if (at + sizeof(Elf64_Ehdr) > bytes.size()) break;
    std::memcpy(&machine, bytes.data() + at + 18, sizeof machine);
    if (machine != gpu) continue;
    auto found = gpu_object(std::string_view(bytes).substr(at)).kernels();
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  return all;
}

}  // namespace cleave::testing
