// SPDX-License-Identifier: MIT
#include "cleave/formats/bytes/registry.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;
using kind = registry_fault::kind;

namespace {

registry<std::string> wrappers() {
  registry<std::string> r({"stage", "engine"});
  r.add("stage", "deepspeed", "a");
  r.add("engine", "", "any");
  return r;
}

}  // namespace

TEST_CASE("registry: finds an entry by its kind and target, or the default if it is allowed") {
  auto const r = wrappers();
  CHECK(r.at("stage", "deepspeed") == "a");
  CHECK(r.at("engine", "megatron", registry_default::allowed) == "any");
  CHECK_FALSE(r.find_fault("engine", "megatron", registry_default::allowed));
}

TEST_CASE("registry: reports an unknown kind or target and lists the known ones") {
  auto const r = wrappers();
  auto const target = r.find_fault("stage", "deepsped");
  REQUIRE(target);
  CHECK(target->what == kind::unknown_target);
  CHECK(describe(*target) == "'deepsped' is not registered for 'stage'; known: 'deepspeed'");
  CHECK(r.find_fault("stage", "x", registry_default::allowed)->what == kind::no_default);
  CHECK(r.find_fault("engine", "x")->what == kind::unknown_target);
  CHECK(r.find_fault("stages", "deepspeed")->what == kind::unknown_kind);
  CHECK_THROWS_AS(r.at("stages", "deepspeed"), registry_error);
}

TEST_CASE("registry: rejects a second entry for a target and an unknown kind, and stays unchanged") {
  auto r = wrappers();
  CHECK_THROWS_AS(r.add("stage", "deepspeed", "b"), registry_error);
  CHECK_THROWS_AS(r.add("parser", "deepspeed", "b"), registry_error);
  CHECK(r.at("stage", "deepspeed") == "a");
}
