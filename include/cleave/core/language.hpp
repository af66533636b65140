// SPDX-License-Identifier: MIT
#pragma once

// What the library needs of the compiler, asked before anything else of it is read: each header includes this
// one first, or one that does. Only an include that finds nothing ends a compilation at once; an #error would
// be followed by thousands.
#if __cplusplus < 202002L
#include "cleave needs C++20: compile with -std=c++20 or newer"
#endif
#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#include "cleave needs exceptions: compile without -fno-exceptions"
#endif
