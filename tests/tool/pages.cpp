// SPDX-License-Identifier: MIT
// The pages of the tool in a browser, if Debian's chromium-headless-shell is installed: at 1,280 pixels no
// text is wider than its box, and their scripts do what they say (tests/support/check_page.sh).
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

/// Returns what check_page.sh says about pages.
std::string faults_of(std::vector<std::string> const& pages) {
  scratch_folder const folder;
  std::string command = "sh '" CLEAVE_SOURCE_DIR "/tests/support/check_page.sh'";
  for (auto const& page : pages) command += " '" + page + "'";
  bool const clean = std::system((command + " > '" + (folder / "said") + "' 2>&1").c_str()) == 0;
  auto const said = text_of_file(folder / "said");
  return said.empty() && !clean ? "check_page.sh failed" : said;
}

bool have_browser() { return std::system("command -v chromium-headless-shell >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("pages: in a browser no text is wider than its box, and search and zoom work") {
  if (!have_browser()) {
    MESSAGE("skipped: chromium-headless-shell is not installed");
    return;
  }
  scratch_folder const folder;
  std::vector<std::string> pages;
  auto const page = [&](std::string const& name, std::vector<std::string> words, std::string const& option) {
    pages.push_back(folder / (name + ".html"));
    words.insert(words.end(), {option, pages.back()});
    auto const r = run_tool(words);
    INFO(r.to_stderr);
    REQUIRE(r.exit == 0);
  };
  for (auto const* k : {"4", "12", "24", "64"})
    page(std::string("split_") + k, {"split", model_file("gpt2").string(), "-k", k}, "--report");
  page("odd", {"split", model_file("moe").string(), "-k", "7"}, "--report");
  for (std::string const name : {"googlenet", "densenet121"}) {  // with measured times, if OpenCV is there
    REQUIRE(run_tool({"demo", model_file(name).string(), "--out", folder / name, "-m", "3"}).exit == 0);
    pages.push_back(folder / (name + "/report.html"));
  }
  for (auto const& [name, ranks, microbatches] :
       {std::array{"1F1B", "4", "8"}, {"ZBVZeroBubble", "8", "64"}, {"1F1B", "64", "512"}})
    page(std::string(name) + ranks, {"schedule", name, "-p", ranks, "-m", microbatches, "--html"}, "-o");
  CHECK(faults_of(pages) == "");

  // A page on which something is wrong is not accepted.
  auto text = text_of_file(pages[1]);
  text.replace(text.find("font-size: 11.5px;"), 18, "font-size: 21.5px;");
  std::ofstream(pages[1]) << text;
  CHECK(faults_of({pages[1]}).find("wider than its box") != std::string::npos);
}
