// SPDX-License-Identifier: MIT
#include "cleave/run/gradients/gradient_agreement.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/process_start.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_id first{0}, second{1};

std::vector<gradient_claim> claims(stage_id s, std::vector<std::size_t> const& counts,
                                   element_type t = element_type::f32) {
  std::vector<region> regions;
  for (auto const n : counts) regions.push_back({nullptr, n, t});
  return claims_of(s, regions);
}

std::string told(std::vector<std::vector<gradient_claim>> const& all,
                 std::vector<tied_gradients> const& ties = {}) {
  return find_gradient_disagreement(all, tie_sets_of(ties)).value_or("");
}

}  // namespace

TEST_CASE("find_gradient_disagreement: accepts equal gradients of replicas and ties") {
  CHECK(told({}) == "");
  CHECK(told({claims(first, {8, 3}), claims(second, {5}), claims(first, {8, 3}), claims(second, {5})}) == "");
  CHECK(told({claims(first, {8, 3}), claims(second, {5, 8})}, {{{first, 0}, {second, 1}}}) == "");
  CHECK(told({claims(first, {}), claims(first, {})}) == "");
}

TEST_CASE("find_gradient_disagreement: names replicas whose gradients differ, and what they have") {
  CHECK(told({claims(first, {8, 3}), claims(second, {5}), claims(first, {8, 4})}) ==
        "gradient #1 of stage 0, 3 of f32, on rank 0, would be summed with gradient #1 of stage 0, 4 of f32, "
        "on rank 2; "
        "make both the same");
  CHECK(told({claims(first, {8}), claims(first, {8}, element_type::bf16)}) ==
        "gradient #0 of stage 0, 8 of f32, on rank 0, would be summed with gradient #0 of stage 0, 8 of "
        "bf16, on rank 1; "
        "make both the same");
  CHECK(told({claims(second, {8, 1}), claims(second, {8}), claims(second, {8, 1})}) ==
        "2 gradients of stage 1, on rank 0, would be summed with 1 gradients of stage 1, on rank 1; make "
        "both the same");
  CHECK(told({claims(first, {}), claims(first, {8})}) != "");
}

TEST_CASE("find_gradient_disagreement: names both ends of a tie whose gradients differ") {
  CHECK(told({claims(first, {8, 3}), claims(second, {5, 8})}, {{{first, 0}, {second, 0}}}) ==
        "gradient #0 of stage 0, 8 of f32, on rank 0, would be summed with gradient #0 of stage 1, 5 of f32, "
        "on rank 1; "
        "make both the same");
}

TEST_CASE("agree_on_gradients: finds a difference among 10,000 gradients of several ranks") {
  auto const secret = random_rendezvous_key();
  auto const port = tcp_listener().address().port;
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<std::string> thrown(3);
  std::vector<std::thread> processes;
  for (std::uint32_t r = 0; r < 3; ++r)
    processes.emplace_back([&, r] {
      auto rendezvous = join_rendezvous({rank_id{r}, 3, r, {"127.0.0.1", port}, secret});
      std::vector<std::size_t> counts(10'000, 7);
      agree_on_gradients(rendezvous, claims(first, counts), rank_id{r}, 3, {}, until);
      if (r == 2) counts.back() = 8;
      try {
        agree_on_gradients(rendezvous, claims(first, counts), rank_id{r}, 3, {}, until);
      } catch (disagreement_error const& e) {
        thrown[r] = e.witness.what;
      }
    });
  for (auto& p : processes) p.join();
  for (auto const& text : thrown)
    CHECK(text ==
          "gradient #9999 of stage 0, 7 of f32, on rank 1, would be summed with gradient #9999 of stage 0, 8 "
          "of f32, on "
          "rank 2; make both the same");
}

TEST_CASE("find_gradient_disagreement: names replicas that put a gradient into different buckets") {
  auto const claim = [](std::vector<gradient_bucket> plan, std::size_t most = 8) {
    std::vector<region> const regions(3, {nullptr, 1, element_type::f32});
    return claims_of(second, regions, {std::move(plan), most});
  };
  CHECK(told({claim({}), claim({})}) == "");
  CHECK(told({claim({{second, {0}}}), claims(first, {8}), claim({{second, {0, 2}}})}) ==
        "gradient #2 of stage 1, 1 of f32, is in bucket #1 of its stage on rank 0, but in bucket #0 of its "
        "stage on rank 2; give all ranks the same buckets");
  CHECK(told({claim({}, 8), claim({}, 4)}) != "");
  CHECK(told({claim({{second, {0, 1}}}), claim({{second, {1, 0}}})}) == "");  // the same sums
}
