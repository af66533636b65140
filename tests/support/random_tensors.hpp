// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Tensors that own their memory.
struct owned_tensors {
  std::vector<std::vector<std::byte>> memory;
  std::vector<named_tensor> tensors;

  void add(std::vector<std::string> names, element_type type, tensor_shape const& shape) {
    memory.emplace_back(*find_tensor_bytes(type, shape));
    tensors.push_back({std::move(names), {memory.back().data(), type, shape}});
  }
  void fill(rng& random) {
    for (auto& bytes : memory)
      for (auto& b : bytes) b = static_cast<std::byte>(random.below(256));
  }
};

inline tensor_shape random_tensor_shape(rng& random) {
  std::array<std::int64_t, 4> extents{};
  for (auto& n : extents) n = static_cast<std::int64_t>(random.one_in(12) ? 0 : 1 + random.below(5));
  return std::span<std::int64_t const>(extents).first(random.below(extents.size() + 1));
}

/// Returns `count` tensors of any type and shape, some under two or three names.
inline owned_tensors random_tensors(rng& random, std::size_t count) {
  owned_tensors made;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> names;
    for (std::size_t n = random.one_in(4) ? 1 + random.below(3) : 1; n > 0; --n)
      names.push_back((random.one_in(9) ? "Schicht_ä." : "layers.") + std::to_string(i) + ".weight" +
                      std::to_string(n));
    made.add(std::move(names), static_cast<element_type>(random.below(element_names.size())),
             random_tensor_shape(random));
  }
  made.fill(random);
  return made;
}

}  // namespace cleave::testing
