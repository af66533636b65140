// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

namespace {

/// What the tool says of a file with this text.
child_report verified(std::string const& text, std::vector<std::string> more = {},
                      std::string const& name = "x.csv") {
  scratch_folder const out;
  std::ofstream(out / name, std::ios::binary) << text;
  more.insert(more.begin(), {"verify", out / name});
  return run_tool(more);
}

/// That this text has just this fault, at a line and a cell; 0: null.
void check_fault(std::string const& text, std::string const& code, int line, int cell,
                 std::vector<std::string> more = {}) {
  more.push_back("--json");
  auto const r = verified(text, more);
  CAPTURE(text);
  CAPTURE(r.said);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 1);
  auto const faults = json::parse(r.said).at("faults");
  REQUIRE(!faults.empty());
  bool found = false;
  for (auto const& f : faults) {
    auto const number = [&](char const* key) { return f.at(key).is_null() ? 0 : f.at(key).get<int>(); };
    found |= f.at("code") == code && number("line") == line && number("cell") == cell;
    bool const says_how =
        !f.at("fix").get<std::string>().empty() || f.at("message").get<std::string>().size() > 20;
    CHECK(says_how);
  }
  CHECK(found);
}

}  // namespace

TEST_CASE("cleave verify: a file without actions is no schedule") {
  scratch_folder const at;
  for (std::string const text : {"", "\n\n\n"}) {
    std::ofstream(at / "s.csv") << text;
    auto const r = run_tool({"verify", at / "s.csv"});
    CHECK(r.exit == 3);
    CHECK(r.to_stderr.find("s.csv: there is no action in it") != std::string::npos);
  }
}

TEST_CASE("cleave verify: finds no fault in valid schedules and lists the transports that run them") {
  for (auto const& s : {cleave::interleaved_1f1b(4, 2, 8), cleave::zbv(3, 7), cleave::dual_pipe_v(2, 4)}) {
    auto const plain = verified(schedule_csv(s));
    CHECK(plain.exit == 0);
    CHECK(plain.said.find("no fault") != std::string::npos);
    auto const lowered = verified(schedule_csv(lower(s)), {"--json"});
    CHECK(lowered.exit == 0);
    auto const said = json::parse(lowered.said);
    CHECK(said.at("faults").empty());
    CHECK(said.at("microbatches") == s.microbatches);
    CHECK(said.at("transports").at("buffered") == "finishes");
  }
}

TEST_CASE("cleave verify: reports each fault with its code and place") {
  check_fault("0F0,0B0\n1F0,1B0,1B0\n", "repeated", 2, 3);
  check_fault("0F0,0B0\n1F0\n", "backward-missing", 2, 0);
  check_fault("0F0,0B0,1F0\n1F0,1B0\n", "stage-on-two-ranks", 2, 1);
  check_fault("0F0,0B0,0F3\n1F0,1B0\n", "microbatch-unknown", 1, 3, {"-m", "1"});
  check_fault("0F0,0B0,2F0\n1F0,1B0\n", "stage-unknown", 1, 3, {"--stages", "2"});
  check_fault("0B0,0F0\n1F0,1B0\n", "out-of-order", 1, 1);
  check_fault("0F0,0I0\n1F0,1B0\n", "weight-gradient-missing", 1, 0);
  check_fault("0F0,0B0\n1F0,1B0\n", "rank-count", 0, 0, {"-p", "3"});
  check_fault("0F0,0F1,0B0,0B1\n", "memory", 1, 2, {"--most-kept", "1"});
  check_fault("0F4000000000\n", "too-few-actions", 0, 0);
}

TEST_CASE("cleave verify --transport: finds deadlocks of that transport") {
  std::string const crossed =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  CHECK(verified(crossed).exit == 0);
  CHECK(verified(crossed).said.find("rendezvous   deadlock: rank 0 at 0SEND_F1, rank 1 at 1SEND_B0") !=
        std::string::npos);
  check_fault(crossed, "deadlock", 1, 4, {"--transport", "rendezvous"});
  check_fault(crossed, "deadlock", 1, 4, {"--transport", "buffers=0"});
  CHECK(verified(crossed, {"--transport", "buffers=1"}).exit == 0);
}

TEST_CASE("cleave verify --repair: repairs an order that deadlocks, and no other fault") {
  scratch_folder const out;
  std::string const crossed =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  for (std::string const name : {"mended.csv", "mended.json"}) {
    auto const r = verified(crossed, {"--transport", "rendezvous", "--repair", out / name});
    CHECK(r.exit == 0);
    CHECK(r.said.find("moved: rank ") != std::string::npos);
    CHECK(run_tool({"verify", out / name, "--transport", "rendezvous"}).exit == 0);
  }
  auto const wrong = verified("0F0,0B0\n1F0\n", {"--repair", out / "x.csv"});
  CHECK(wrong.exit == 1);
  CHECK(wrong.to_stderr.find("backward-missing") != std::string::npos);
}

TEST_CASE("cleave verify: notes empty ranks and suspiciously large numbers") {
  auto const r = verified("0F0,0B0\r\n1F0,1B0\r\n\r\n");
  CHECK(r.exit == 0);
  CHECK(r.said.find("note: rank 2 does nothing: line 3 is empty") != std::string::npos);
  auto const many = verified("0F0,0B0\n\n\n1F0,1B0\n\n\n\n");
  CHECK(many.said.find("note: ranks 1 to 2 do nothing: lines 2 to 3 are empty\n  note: ranks 4 to 6 do "
                       "nothing: lines 5 to 7 are empty") != std::string::npos);
  CHECK(verified("0F4000000000\n").said.find("the largest microbatch is that of '0F4000000000'") !=
        std::string::npos);
}

TEST_CASE("cleave verify: reads the JSON of cleave schedule, including two chains") {
  auto const text = run_tool({"schedule", "DualPipe", "-p", "2", "-m", "4", "--json"}).said;
  CHECK(verified(text, {}, "x.json").exit == 0);
}

TEST_CASE("cleave verify: rejects an unreadable file or option and names the place") {
  auto const check = [](child_report const& r, int code, std::string const& said) {
    CAPTURE(r.to_stderr);
    CHECK(r.exit == code);
    CHECK(r.said.empty());
    CHECK(r.to_stderr.find(said) != std::string::npos);
  };
  check(verified("0F0,0B0\n1F0,1Q0\n"), 3, "x.csv:2:2: '1Q0' has an unknown kind of action");
  check(verified("0F0,\"0B0\n"), 3, "x.csv:1:2: ");
  check(verified("0F99999999999\n"), 3, "x.csv:1:1: '0F99999999999' has a number that is too large");
  check(verified("{}", {}, "x.json"), 3, "is missing the key 'ranks'");
  check(run_tool({"verify"}), 2, "a schedule is missing");
  check(run_tool({"verify", "a", "b"}), 2, "one schedule at a time");
  check(run_tool({"verify", "no/such.csv"}), 3, "no/such.csv: cannot be opened");
  check(run_tool({"verify", CLEAVE_TEST_DATA}), 3, "this is a folder; name a file in it");
  check(verified("0F0", {"--transport", "pigeon"}), 2, "--transport takes buffered, buffers=K");
  check(verified("0F0", {"-p", "0"}), 2, "-p takes a whole number");
}
