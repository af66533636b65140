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

TEST_CASE("registry: what is registered is found under its kind and target") {
  auto const r = wrappers();
  CHECK(r.at("stage", "deepspeed") == "a");
  CHECK(r.at("engine", "megatron", registry_default::allowed) == "any");
  CHECK_FALSE(r.find_fault("engine", "megatron", registry_default::allowed));
}

TEST_CASE("registry: what is not registered is a fault that lists what is") {
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

TEST_CASE(
    "registry: a second entry for a target, or one of an unknown kind, is an error, and changes nothing") {
  auto r = wrappers();
  CHECK_THROWS_AS(r.add("stage", "deepspeed", "b"), registry_error);
  CHECK_THROWS_AS(r.add("parser", "deepspeed", "b"), registry_error);
  CHECK(r.at("stage", "deepspeed") == "a");
}
