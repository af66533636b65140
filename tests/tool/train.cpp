// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "support/markup.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

TEST_CASE("cleave demo train: stages train like the whole model, and the report draws both losses") {
  for (std::string const microbatches : {"1", "3", "8"}) {
    CAPTURE(microbatches);
    scratch_folder const out;
    auto const r = run_tool({"demo", "train", "-m", microbatches, "-k", "5", "--out", out / "train"});
    CAPTURE(r.said);
    CHECK(r.exit == 0);
    CHECK(r.to_stderr.empty());
    CHECK(r.said.find("cut by markers into 3 stages") != std::string::npos);
    CHECK(r.said.find("cut by balance into 5 stages") != std::string::npos);
    CHECK(r.said.find("trained for 20 steps") != std::string::npos);
    auto const report = text_of_file(out / "train/report.html");
    std::size_t dots = 0;
    for (auto const& e : read_markup(report)) dots += e.is("dot1") || e.is("dot2");
    CHECK(dots == 2 * 20 + 2);  // and in the legend
    CHECK(report.find("embedding.weight = head.weight") != std::string::npos);
    for (std::string const cut : {"cutby-markers", "cutby-balance"})
      for (std::string const times : {"-measured-title", "-simulated-title"})
        CHECK(report.find("id=\"" + cut + times + "\"") != std::string::npos);
  }
}

TEST_CASE("cleave demo train: detects a gradient that is lost between stages") {
  for (std::string const edge : {"0", "1", "2"}) {
    CAPTURE(edge);
    scratch_folder const out;
    auto const r = run_tool({"demo", "train", "-n", "2", "--lose", edge, "--out", out / "train"});
    CHECK(r.exit == 1);
    CHECK(r.to_stderr.find("the stages cut by markers do not train like the whole model") !=
          std::string::npos);
    CHECK(r.to_stderr.find("the gradient of ") != std::string::npos);
  }
}

TEST_CASE("cleave demo train: rejects a model argument") {
  auto const r = run_tool({"demo", "train", "gpt2"});
  CHECK(r.exit == 2);
  CHECK(r.to_stderr.find("demo train takes no operand; found gpt2") != std::string::npos);
}

TEST_CASE("cleave demo: a folder of another user is refused at once, with the option for another folder") {
  scratch_folder const out;
  auto const folder = out / "mine";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(std::filesystem::path(out / "mine").parent_path(),
                               std::filesystem::perms(0755));
  std::filesystem::permissions(folder, std::filesystem::perms(0555));
  std::vector<std::string> call{"demo", "train", "-n", "1", "--out", folder};
  auto program = tool_path();
  if (geteuid() == 0) {  // who may write everywhere
    std::filesystem::copy_file(program, out / "cleave");
    call.insert(call.begin(), {"--reuid", "65534", "--regid", "65534", "--clear-groups", out / "cleave"});
    program = "/usr/bin/setpriv";
  }
  auto const r = run_built(program, call);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 3);
  CHECK(r.said.empty());
  CHECK(r.to_stderr.find(
            "/mine: cannot write to this folder: Permission denied; name another folder with --out\n") !=
        std::string::npos);
}
