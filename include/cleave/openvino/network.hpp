// SPDX-License-Identifier: MIT
#pragma once
#include <openvino/openvino.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/inference/inference_stages.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::openvino {

/// Options of OpenVINO's network.
struct network_options {
  std::string device = "CPU";
  /// Properties of the compiled model. By default one thread for each rank, and no type of fewer bits than
  /// the model says.
  ov::AnyMap properties = {ov::inference_num_threads(1), ov::hint::inference_precision(ov::element::dynamic),
                           ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY)};
};

/// OpenVINO's engine for the stages of a model. It optimises each stage by itself, so results may differ from
/// those of the whole model in the last bits.
class network {
 public:
  /// \throws ov::Exception if OpenVINO does not know an operator
  explicit network(onnx_stage const& s, openvino::network_options const& o = {}) : names_(s.outputs) {
    auto compiled = core().compile_model(core().read_model(s.model, ov::Tensor()), o.device, o.properties);
    inputs_ = find_ports(compiled.inputs(), s.inputs);
    for (auto const& p : find_ports(compiled.outputs(), s.outputs)) {
      if (!p) throw error("openvino: the compiled stage lacks a result");
      outputs_.push_back(*p);
    }
    request_ = compiled.create_infer_request();
  }

  /// \throws error, ov::Exception
  void infer(std::span<tensor_view const> in, std::span<tensor_view> out) {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (inputs_[i]) request_.set_tensor(*inputs_[i], tensor_of(in[i]));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!varies(i)) request_.set_tensor(outputs_[i], tensor_of(out[i]));
    request_.infer();
    for (std::size_t i = 0; i < out.size(); ++i)
      if (varies(i)) write(request_.get_tensor(outputs_[i]), names_[i], out[i]);
  }

 private:
  using port = ov::Output<ov::Node const>;

  /// Returns the port of each name. OpenVINO drops inputs that nothing reads; they have none. It may rename
  /// values that are only passed on; their ports are in the order of the names that are left.
  static std::vector<std::optional<port>> find_ports(std::vector<port> open,
                                                     std::vector<std::string> const& names) {
    std::vector<std::optional<port>> found(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      auto const at =
          std::ranges::find_if(open, [&](port const& p) { return p.get_names().contains(names[i]); });
      if (at == open.end()) continue;
      found[i] = *at;
      open.erase(at);
    }
    auto const left = std::ranges::count_if(found, [](auto const& p) { return !p; });
    if (open.empty()) return found;
    if (std::ssize(open) != left)
      throw error("openvino: the compiled stage has " + std::to_string(open.size()) +
                  " inputs or results of unknown names");
    auto next = open.begin();
    for (auto& p : found)
      if (!p) p = *next++;
    return found;
  }
  /// Returns true if the shape of a result is not known before.
  bool varies(std::size_t i) const { return outputs_[i].get_partial_shape().is_dynamic(); }
  static void write(ov::Tensor const& made, std::string const& name, tensor_view& to) {
    auto const room = to.elements();
    auto const& sizes = made.get_shape();
    if (made.get_element_type() != type_of(to.type))
      throw error("openvino: result '" + name + "' is " + made.get_element_type().get_type_name() + ", not " +
                  std::string(name_of(to.type)));
    if (sizes.size() > detail::most_axes) throw error("openvino: result '" + name + "' has more than 8 axes");
    std::vector<std::int64_t> const extents(sizes.begin(), sizes.end());
    to.shape = tensor_shape(std::span(extents));
    if (made.get_byte_size() <= room.bytes()) std::memcpy(room.data, made.data(), made.get_byte_size());
  }
  static ov::Core& core() {
    static ov::Core one;
    return one;
  }
  static ov::element::Type type_of(element_type t) {
    using enum ov::element::Type_t;
    constexpr ov::element::Type_t types[] = {f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean};
    static_assert(std::size(types) == detail::element_names.size());  // in the same order
    return types[static_cast<std::size_t>(t)];
  }
  static ov::Tensor tensor_of(tensor_view const& v) {
    auto const extents = v.shape.list();
    return {type_of(v.type), ov::Shape(extents.begin(), extents.end()), v.data};
  }

  ov::InferRequest request_;
  std::vector<std::optional<port>> inputs_;
  std::vector<port> outputs_;
  std::vector<std::string> names_;  // of the results
};

static_assert(inference_network<network>);

}  // namespace cleave::openvino
