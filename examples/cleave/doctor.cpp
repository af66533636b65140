// SPDX-License-Identifier: MIT
// cleave doctor: what this tool was built with, and what it cannot do without the rest.
#include <cleave/core/printable.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/version.hpp>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench_algorithms.hpp"
#include "options.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {
namespace {

/// A library or program that the tool uses, or does without.
struct finding {
  std::string what;
  bool there;
  std::string effect;  ///< what the tool does with it, or cannot do without it
};

std::string compiler_text() {
#if defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#elif defined(__GNUC__)
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#else
  return "another compiler";
#endif
}

/// Returns whether a program of this name is in one of the folders of PATH.
bool is_in_path(std::string const& program) {
  char const* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  for (bool more = true; more;) {
    auto const end = rest.find(':');
    std::error_code unknown;
    if (fs::exists(fs::path(rest.substr(0, end)) / program, unknown)) return true;
    more = end != rest.npos;
    if (more) rest.remove_prefix(end + 1);
  }
  return false;
}

std::vector<finding> findings() {
#if __has_include(<opencv2/dnn.hpp>)
  bool const opencv = true;
#else
  bool const opencv = false;
#endif
  bool const metis = !metis_algorithms().empty();
  bool const python = is_in_path("python3"), man = is_in_path("man");
  return {{"OpenCV", opencv,
           opencv ? "cleave demo runs the stages of a model in it"
                  : "./dev demo runs models in onnxruntime instead; Debian has libopencv-dnn-dev"},
          {"METIS", metis,
           metis ? "cleave bench compares with it"
                 : "cleave bench cannot compare with it; Debian has libmetis-dev"},
          {"python3", python,
           python ? "./dev demo runs in onnxruntime what OpenCV cannot run"
                  : "./dev demo cannot run what OpenCV cannot; Debian has python3"},
          {"man", man,
           man ? "man cleave shows the manual page once the tool is installed"
               : "the manual page cannot be shown; cleave help SUBCOMMAND has the same text"}};
}

}  // namespace

int doctor(std::span<std::string const> words) {
  bool as_json = false;
  command c{"doctor", "", "Says what this tool was built with, what is missing, and what that costs.", {}};
  c.options.push_back(json_flag(as_json));
  auto const typed = read_options(c, words);
  if (!typed.operands.empty())
    throw usage_error("doctor takes no operand; found " + cleave::printable(typed.operands.front()));
  auto const all = findings();
  auto const processors = std::thread::hardware_concurrency();
  if (as_json) {
    cleave::json::writer json;
    json.open_object().member("version", CLEAVE_VERSION).member("compiler", compiler_text());
    json.member("processors", processors).key("found").open_object();
    for (auto const& f : all) json.member(f.what, f.there);
    print(json.close_object().close_object().text() + "\n");
    return 0;
  }
  std::string text = bold("cleave " CLEAVE_VERSION) + ", built with " + compiler_text() + "; " +
                     plural(processors, "processor") + "\n";
  for (auto const& f : all)
    text += std::string(f.there ? "  found    " : "  missing  ") + f.what +
            std::string(f.what.size() < 9 ? 9 - f.what.size() : 1, ' ') + f.effect + "\n";
  print(text);
  return 0;
}

}  // namespace tool
