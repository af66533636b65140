// expect: the arguments of overlapped are \(stream, custom_part, custom_part\)
#include <span>

#include "cleave/run/executor/detail/program_needs.hpp"
#include "cleave/run/host/host_device.hpp"

struct stages {
  using stream = cleave::host_device::stream;
  void forward(stream&, cleave::stage_pass const&, std::span<cleave::tensor_view const>,
               std::span<cleave::tensor_view>) {}
  void overlapped(stream&, cleave::action const&, cleave::action const&) {}
};

void check(cleave::rank_program const& p) {
  cleave::detail::require_abilities<stages, cleave::host_device>(p);
}
