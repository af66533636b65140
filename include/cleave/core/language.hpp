// SPDX-License-Identifier: MIT
#pragma once

// Checks what the library needs of the compiler. Every header includes this one first, or another header that
// does, so that nothing else is compiled before the check. The messages are includes of files that do not
// exist: only these stop a compilation at once, while an #error would be followed by thousands of other
// errors.
#if __cplusplus < 202002L
#include "cleave needs C++20: compile with -std=c++20 or newer"
#endif
#if defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 16
#include "cleave needs clang 16 or newer, or g++ 12 or newer"
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#include "cleave needs g++ 12 or newer, or clang 16 or newer"
#endif
