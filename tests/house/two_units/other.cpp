// SPDX-License-Identifier: MIT
#include "cleave/cleave.hpp"

std::size_t size_of_a_dataflow() { return sizeof(cleave::dataflow); }
