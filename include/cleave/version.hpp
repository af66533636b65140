// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/core/language.hpp"

// The version of the library, as of https://semver.org. CMakeLists.txt reads it from here.
#define CLEAVE_VERSION_MAJOR 0
#define CLEAVE_VERSION_MINOR 2
#define CLEAVE_VERSION_PATCH 0
#define CLEAVE_VERSION "0.2.0"
