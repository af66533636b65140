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
#include "cleave/core/registry.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_kinds.hpp"
#include "cleave/io/bytes/checker.hpp"
#include "cleave/io/bytes/fault.hpp"
#include "cleave/io/bytes/reader.hpp"
#include "cleave/io/bytes/writer.hpp"
#include "cleave/io/envelope.hpp"

/// A stage as bytes, and back, safe against bytes from anybody; docs/stage_format.md describes the format.
namespace cleave {

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

/// \throws stage_bytes_error where bytes are no envelope
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

/// `stage` and all bodies inside it as bytes; the same stage gives the same bytes. Expected O(size).
/// \throws stage_bytes_error where `read_stage_bytes` would refuse them: above a limit, names that are no
/// UTF-8, metadata that names nodes which are not there
inline std::vector<std::byte> write_stage_bytes(module_graph const& stage,
                                                stage_bytes_limits const& limits = {}) {
  stage_writer const writer(stage);
  auto const most = writer.bytes();
  if (most > limits.bytes || most >= std::size_t{1} << 31)
    throw stage_bytes_error(
        {stage_bytes_fault::kind::above_limit, 0, "the stage",
         std::to_string(most) + " bytes are above the limit of " + std::to_string(limits.bytes)});
  flatbuffers::FlatBufferBuilder builder(most + 64);
  writer.finish(builder);
  auto const payload = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  stage_checker(aligned_payload(payload).bytes(), limits).check();
  return seal_envelope(payload);
}

/// The stage that `bytes` hold. What is checked, in this order, and nothing is made before all of it is
/// right: size, magic, version, length, checksum, structure, counts, texts, what each number names,
/// operators. `operators` has kinds `call_function`, `call_method` and `call_module`; a call's target must be
/// registered for its kind, or its kind have a default; a module whose body is in the bytes need not be.
/// O(size).
/// \throws stage_bytes_error
template <class Entry>
module_graph read_stage_bytes(std::span<std::byte const> bytes, registry<Entry> const& operators,
                              stage_bytes_limits const& limits = {}) {
  aligned_payload const payload(stage_payload(bytes, limits));
  stage_checker checker(payload.bytes(), limits);
  auto const& content = checker.check();
  demand_operators(checker.operators(), operators);
  return stage_reader(content).read();
}

/// Why `read_stage_bytes` would refuse `bytes`, or nothing.
template <class Entry>
std::optional<stage_bytes_fault> find_stage_bytes_fault(std::span<std::byte const> bytes,
                                                        registry<Entry> const& operators,
                                                        stage_bytes_limits const& limits = {}) {
  try {
    aligned_payload const payload(stage_payload(bytes, limits));
    stage_checker checker(payload.bytes(), limits);
    checker.check();
    demand_operators(checker.operators(), operators);
  } catch (stage_bytes_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

}  // namespace cleave
