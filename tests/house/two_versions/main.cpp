// SPDX-License-Identifier: MIT
// A program whose parts were compiled with different versions of the library prints an answer of each.
#include <cstdint>
#include <iostream>

std::uint64_t answer_of_this();
#ifdef BOTH
std::uint64_t answer_of_older();
#endif

int main() {
  std::cout << answer_of_this() << '\n';
#ifdef BOTH
  std::cout << answer_of_older() << '\n';
#endif
}
