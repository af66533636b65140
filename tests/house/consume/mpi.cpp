// SPDX-License-Identifier: MIT
#include <cleave/mpi/pipeline.hpp>

static_assert(cleave::communicator<cleave::detail::mpi_communicator, cleave::mpi::device>);

int main() {
  int version = 0, subversion = 0;  // what MPI answers before it begins
  cleave::detail::check_mpi(MPI_Get_version(&version, &subversion));
  return version >= 3 ? 0 : 1;
}
