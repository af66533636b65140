// SPDX-License-Identifier: MIT
#pragma once
#include <thread>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Threads that are joined when the object is destroyed. It replaces std::jthread, which LLVM's library has
/// only from version 20.
struct joined_threads {
  std::vector<std::thread> list{};
  joined_threads() = default;
  joined_threads(joined_threads const&) = delete;
  joined_threads& operator=(joined_threads const&) = delete;
  ~joined_threads() {
    for (auto& t : list) t.join();
  }
};

}  // namespace cleave::detail
