// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/bytes/checker.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/pipe_checker.hpp"
#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/module_kinds.hpp"

namespace cleave::detail {

enum class content_kind : std::uint8_t { stage, pipe };

/// The payload of an envelope, where FlatBuffers can be read in place: it is copied if it does not lie so.
class aligned_payload {
 public:
  explicit aligned_payload(std::span<std::byte const> payload) : payload_(payload) {
    if (reinterpret_cast<std::uintptr_t>(payload.data()) % sizeof(std::uint64_t) == 0) return;
    copy_.resize(payload.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(copy_.data(), payload.data(), payload.size());
    payload_ = std::as_bytes(std::span(copy_)).first(payload.size());
  }
  aligned_payload(aligned_payload const&) = delete;
  aligned_payload& operator=(aligned_payload const&) = delete;

  std::span<std::byte const> bytes() const { return payload_; }

 private:
  std::span<std::byte const> payload_;
  std::vector<std::uint64_t> copy_;
};

/// A payload that was found sound, all but its operators.
class checked_content {
 public:
  /// O(size). \throws stage_bytes_error
  checked_content(std::span<std::byte const> payload, content_kind expected, stage_bytes_limits const& limits)
      : payload_(payload), checker_(payload_.bytes(), limits), content_(checker_.check()) {
    bool const pipe = content_.pipe() != nullptr;
    if (pipe != (expected == content_kind::pipe))
      stage_place{.payload = payload_.bytes()}.fail(stage_bytes_fault::kind::value, payload_.bytes().data(),
                                                    pipe ? "it holds a pipe, not a stage; read it as one"
                                                         : "it holds a stage, not a pipe; read it as one");
    if (pipe) pipe_checker(payload_.bytes(), content_, limits).check();
  }

  stage_format::Content const& operator*() const { return content_; }
  std::vector<operator_use> const& operators() const { return checker_.operators(); }

 private:
  aligned_payload payload_;
  stage_checker checker_;
  stage_format::Content const& content_;
};

/// The payload within `bytes`. \throws stage_bytes_error where they are no envelope
inline std::span<std::byte const> stage_payload(std::span<std::byte const> bytes,
                                                stage_bytes_limits const& limits) {
  if (auto const fault = find_envelope_fault(bytes, limits.bytes))
    throw stage_bytes_error({stage_bytes_fault::kind::envelope, fault->at, "the envelope", describe(*fault)});
  return bytes.subspan(envelope_header_bytes);
}

/// \throws stage_bytes_error where calls name what is not registered
template <class Entry>
void demand_operators(std::vector<operator_use> const& uses, registry<Entry> const& operators) {
  for (auto const& use : uses) {
    auto const kind = std::string(node_kind_names[static_cast<std::size_t>(use.kind)]);
    auto const target = std::string(use.target);
    auto const fault = operators.find_fault(kind, target, registry_default::allowed);
    if (!fault) continue;
    auto const known =
        fault->what == registry_fault::kind::unknown_kind ? std::vector<std::string>() : fault->known;
    auto const said = "it calls " + quoted(target) + ", which is not registered for " + quoted(kind) +
                      suggestion(nearest_names(target, known));
    throw stage_bytes_error({stage_bytes_fault::kind::unknown_operator, use.at, use.place, said});
  }
}

/// Why `bytes` are refused as a stage or as a pipe, or nothing. O(size).
template <class Entry>
std::optional<stage_bytes_fault> find_content_fault(std::span<std::byte const> bytes,
                                                    registry<Entry> const& operators, content_kind expected,
                                                    stage_bytes_limits const& limits) {
  try {
    checked_content const content(stage_payload(bytes, limits), expected, limits);
    demand_operators(content.operators(), operators);
  } catch (stage_bytes_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

/// \throws stage_bytes_error where content that takes `most` bytes is above the limit, or above 2 GiB, which
/// is all that FlatBuffers can
inline void demand_size(std::size_t most, stage_bytes_limits const& limits) {
  if (most > limits.bytes || most >= std::size_t{1} << 31)
    throw stage_bytes_error(
        {stage_bytes_fault::kind::above_limit, 0, "what is to be written",
         std::to_string(most) + " bytes are above the limit of " + std::to_string(limits.bytes)});
}

/// What was built, in an envelope, once a reader would take it. O(size).
/// \throws stage_bytes_error
inline std::vector<std::byte> sealed_content(flatbuffers::FlatBufferBuilder const& built, content_kind what,
                                             stage_bytes_limits const& limits) {
  auto const payload = std::as_bytes(std::span(built.GetBufferPointer(), built.GetSize()));
  checked_content const taken(payload, what, limits);
  return seal_envelope(payload);
}

}  // namespace cleave::detail
