// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>

#include "cleave/core/language.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace cleave::inline v0_2::detail {

/// A range of the host's time that profilers show by name, in the domain `cleave`. What the thread issues
/// while it lives is shown below it. Without the NVTX headers of the CUDA toolkit there are no ranges.
class profiler_range {
 public:
  /// Begins a range with the text that `name()` returns, which is called only under a profiler.
  template <class Name>
  explicit profiler_range(Name const& name) {
#if __has_include(<nvtx3/nvToolsExt.h>)
    if (!domain()) return;
    std::string const text = name();
    nvtxEventAttributes_t range = {};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text.c_str();
    nvtxDomainRangePushEx(domain(), &range);
#else
    static_cast<void>(name);
#endif
  }
  profiler_range(profiler_range&&) = delete;
  ~profiler_range() {
#if __has_include(<nvtx3/nvToolsExt.h>)
    if (domain()) nvtxDomainRangePop(domain());
#endif
  }

#if __has_include(<nvtx3/nvToolsExt.h>)
 private:
  /// Returns null if no profiler watches.
  static nvtxDomainHandle_t domain() {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("cleave");
    return made;
  }
#endif
};

}  // namespace cleave::detail
