// SPDX-License-Identifier: MIT
#include "cleave/cleave.hpp"

std::size_t size_of_a_dataflow();

int main() { return size_of_a_dataflow() == sizeof(cleave::dataflow) ? 0 : 1; }
