// SPDX-License-Identifier: MIT
#include "cleave/cleave.hpp"

std::size_t size_of_a_transport();

int main() { return size_of_a_transport() == sizeof(cleave::transport) ? 0 : 1; }
