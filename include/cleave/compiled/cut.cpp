// SPDX-License-Identifier: MIT
// Instantiates `balance` and `make_plan` for 32-bit and 64-bit indices.
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/make_plan.hpp"

namespace cleave::inline v0_2 {

template balanced_partition balance(basic_snapshot_arrays<std::uint32_t> const&, std::uint32_t,
                                    balance_options const&);
template balanced_partition balance(basic_snapshot_arrays<std::uint64_t> const&, std::uint32_t,
                                    balance_options const&);
template basic_plan<std::uint32_t> make_plan(basic_snapshot_arrays<std::uint32_t> const&, partition const&,
                                             plan_options const&);
template basic_plan<std::uint64_t> make_plan(basic_snapshot_arrays<std::uint64_t> const&, partition const&,
                                             plan_options const&);

}  // namespace cleave
