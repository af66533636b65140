// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/loopback_group.hpp"
#include "cleave/run/host/member_communicator.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// One member of a `loopback_group`.
using loopback_communicator = member_communicator<cuda_device, loopback_group>;

static_assert(communicator<loopback_communicator, cuda_device>);
}  // namespace cleave
