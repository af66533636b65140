// SPDX-License-Identifier: MIT
// Fuzzes files of measured costs: profiles of onnxruntime, and CSV. Each is read or rejected with an error.
// The times that are read are finite and not negative, and are read again from CSV as they were.
#include "../../examples/cleave/cost_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "cleave/core/expects.hpp"
#include "cleave/core/real.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;
using cleave::testing::unless_refused;

namespace {

std::string csv_of(tool::cost_file const& file) {
  std::string text;
  for (auto const& e : file.entries) {
    text += '"';
    for (char const c : e.name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    char time[64];
    std::snprintf(time, sizeof time, "\",%.17g", e.seconds);
    text += time;
    if (e.bytes) text += "," + std::to_string(*e.bytes);
    text += '\n';
  }
  return text;
}

/// Returns true if a line of CSV can have the name: no breaks, no spaces at its ends.
bool fits_a_line(std::string const& name) {
  return !name.empty() && name != "name" && name.find_first_of("\r\n") == name.npos &&
         name.find_first_of(" \t") != 0 && name.find_last_of(" \t") != name.size() - 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  auto const file = unless_refused([&] { return tool::read_cost_text(text, "costs"); });
  if (!file) return 0;
  expects(!file->entries.empty() && file->runs >= 1, "costs, or an error");
  bool fits = true;
  for (auto const& e : file->entries) {
    expects(is_finite(e.seconds) && e.seconds >= 0, "a finite time that is not negative");
    fits &= fits_a_line(e.name);
  }
  if (!fits) return 0;
  auto const again = tool::read_cost_text(csv_of(*file), "costs");
  expects(again.entries.size() == file->entries.size(), "as many costs as before");
  for (std::size_t i = 0; i < again.entries.size(); ++i)
    expects(again.entries[i].name == file->entries[i].name &&
                again.entries[i].seconds == file->entries[i].seconds &&
                again.entries[i].bytes == file->entries[i].bytes,
            "the costs that were written");
  return 0;
}
