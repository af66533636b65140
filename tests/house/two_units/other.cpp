// SPDX-License-Identifier: MIT
#include "cleave/cleave.hpp"

std::size_t size_of_a_transport() { return sizeof(cleave::transport); }
