// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"
#include "cleave/run/host/member_communicator.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// One member of a `host_group`.
using host_communicator = member_communicator<host_device, host_group>;

static_assert(communicator<host_communicator, host_device>);
}  // namespace cleave
