// SPDX-License-Identifier: MIT
#include <cleave/cleave.hpp>

int main() { return static_cast<int>(cleave::index(cleave::stage_id{0})); }
