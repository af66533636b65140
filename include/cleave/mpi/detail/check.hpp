// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <source_location>
#include <string>

#include "cleave/core/error.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if an MPI call failed.
class mpi_error : public error {
 public:
  mpi_error(std::string const& message, int mpi_code) : error(message), code(mpi_code) {}
  int code;  ///< the error code of MPI
};

/// Returns the error string of MPI for `code`.
inline std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return {text, static_cast<std::size_t>(length)};
}

/// Checks a return code of MPI.
/// \throws mpi_error if it is not success, with MPI's error string and the place of the call
inline void check_mpi(int code, std::source_location at = std::source_location::current()) {
  if (code == MPI_SUCCESS) return;
  throw mpi_error("MPI: " + mpi_text(code) + " (" + at.file_name() + ":" + std::to_string(at.line()) + ")",
                  code);
}

}  // namespace cleave::detail
