// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cleave/core/random.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Models that the demo makes on the spot. They have the layers and sizes of well-known ones, and random
/// weights.
namespace tool {

/// The producer in the models that the demo makes.
inline constexpr char demo_producer[] = "cleave demo";

/// Returns whether the text of a file begins like a model that the demo made.
inline bool is_demo_model(std::string const& text) {
  return text.substr(0, 64).find(demo_producer) != text.npos;
}

/// Writes an ONNX model node by node. The weights are random numbers from a seed.
///
/// A layer's name is its module path, `layer1.0.conv1`. Nodes and weights are named as torch's exporter names
/// them: `/layer1/layer1.0/conv1/Conv` and `layer1.0.conv1.weight`.
class model_maker {
 public:
  using value = std::string;
  using sizes = std::vector<std::int64_t>;

  model_maker(std::string const& name, std::uint64_t seed) : random_(seed) {
    model_.set_ir_version(7);
    model_.set_producer_name(demo_producer);
    model_.add_opset_import()->set_version(13);
    model_.mutable_graph()->set_name(name);
  }

  value input(std::string const& name, sizes const& shape) {
    declare(*graph().add_input(), name, shape);
    return name;
  }
  ::onnx::ModelProto finish(value const& output, sizes const& shape) {
    declare(*graph().add_output(), output, shape);
    return std::move(model_);
  }

  static ::onnx::AttributeProto ints(std::string const& name, sizes const& list) {
    ::onnx::AttributeProto a;
    a.set_name(name);
    a.set_type(::onnx::AttributeProto::INTS);
    for (auto const i : list) a.add_ints(i);
    return a;
  }
  static ::onnx::AttributeProto number(std::string const& name, std::int64_t i) {
    ::onnx::AttributeProto a;
    a.set_name(name);
    a.set_type(::onnx::AttributeProto::INT);
    a.set_i(i);
    return a;
  }

  /// Adds a node to a layer and returns its result.
  value node(std::string const& layer, std::string const& type, std::vector<value> const& reads,
             std::vector<::onnx::AttributeProto> const& attributes = {}) {
    auto& n = *graph().add_node();
    auto name = node_path(layer) + "/" + type;
    if (auto const before = times_[name]++; before > 0) name += "_" + std::to_string(before);
    n.set_name(name);
    n.set_op_type(type);
    for (auto const& v : reads) n.add_input(v);
    for (auto const& a : attributes) *n.add_attribute() = a;
    n.add_output(name + "_output_0");
    return n.output(0);
  }

  /// Adds a weight with random elements below `most` in magnitude.
  value weight(std::string const& name, sizes const& shape, double most) {
    std::vector<float> elements(count(shape));
    for (std::size_t i = 0; i < elements.size(); i += 2) {
      auto const bits = random_.next();
      auto const scaled = [&](std::uint64_t part) {
        return static_cast<float>((static_cast<double>(part & 0xffffffffu) * 0x1p-31 - 1) * most);
      };
      elements[i] = scaled(bits);
      if (i + 1 < elements.size()) elements[i + 1] = scaled(bits >> 32);
    }
    return tensor(name, shape, ::onnx::TensorProto::FLOAT, std::span<float const>(elements));
  }
  /// Adds a weight whose elements are all `element`.
  value filled(std::string const& name, sizes const& shape, float element) {
    std::vector<float> const elements(count(shape), element);
    return tensor(name, shape, ::onnx::TensorProto::FLOAT, std::span<float const>(elements));
  }
  value integers(std::string const& name, sizes const& elements) {
    return tensor(name, {static_cast<std::int64_t>(elements.size())}, ::onnx::TensorProto::INT64,
                  std::span<std::int64_t const>(elements));
  }

  /// The shape of a convolution, whose batch normalisation is folded into its weights. `gain` scales the
  /// result.
  struct convolution {
    std::int64_t in, out, kernel = 1, stride = 1;
    double gain = 1;
  };
  value conv(std::string const& layer, value const& x, convolution const& c) {
    auto const inner = static_cast<double>(c.in * c.kernel * c.kernel);
    auto const w =
        weight(layer + ".weight", {c.out, c.in, c.kernel, c.kernel}, c.gain * std::sqrt(6 / inner));
    auto const b = weight(layer + ".bias", {c.out}, 0.1);
    auto const pad = c.stride == c.kernel ? 0 : c.kernel / 2;
    return node(layer, "Conv", {x, w, b},
                {ints("dilations", {1, 1}), number("group", 1), ints("kernel_shape", {c.kernel, c.kernel}),
                 ints("pads", {pad, pad, pad, pad}), ints("strides", {c.stride, c.stride})});
  }

 private:
  ::onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  static std::size_t count(sizes const& shape) {
    std::size_t n = 1;
    for (auto const d : shape) n *= static_cast<std::size_t>(d);
    return n;
  }

  /// Returns `/layer1/layer1.0/conv1` for `layer1.0.conv1`.
  static std::string node_path(std::string_view layer) {
    std::string path;
    std::string_view before;
    for (std::size_t at = 0; at < layer.size();) {
      auto const end = std::min(layer.find('.', at), layer.size());
      auto const step = layer.substr(at, end - at);
      path += "/";
      if (step.find_first_not_of("0123456789") == step.npos) path += std::string(before) + ".";
      path += step;
      before = step;
      at = end + 1;
    }
    return path;
  }

  static void declare(::onnx::ValueInfoProto& v, std::string const& name, sizes const& shape) {
    v.set_name(name);
    auto& type = *v.mutable_type()->mutable_tensor_type();
    type.set_elem_type(::onnx::TensorProto::FLOAT);
    for (auto const d : shape) type.mutable_shape()->add_dim()->set_dim_value(d);
  }

  template <class Element>
  value tensor(std::string const& name, sizes const& shape, ::onnx::TensorProto::DataType type,
               std::span<Element const> elements) {
    auto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(type);
    for (auto const d : shape) t.add_dims(d);
    t.set_raw_data(elements.data(), elements.size_bytes());
    return name;
  }

  ::onnx::ModelProto model_;
  cleave::splitmix random_;
  std::map<std::string, int> times_;
};

/// Makes ResNet-50 (He et al., CVPR 2016) as torchvision builds it: 25.5 million parameters.
inline ::onnx::ModelProto make_resnet50() {
  model_maker m("resnet50", 50);
  auto const relu = [&](std::string const& layer, std::string const& x) {
    return m.node(layer, "Relu", {x});
  };
  auto x = m.input("image", {1, 3, 224, 224});
  x = relu("relu", m.conv("conv1", x, {3, 64, 7, 2}));
  x = m.node("maxpool", "MaxPool", {x},
             {m.ints("kernel_shape", {3, 3}), m.ints("pads", {1, 1, 1, 1}), m.ints("strides", {2, 2})});
  std::int64_t in = 64, width = 64;
  for (int group = 1; auto const blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      auto const block = "layer" + std::to_string(group) + "." + std::to_string(i);
      std::int64_t const stride = i == 0 && group > 1 ? 2 : 1;
      auto y = relu(block + ".relu", m.conv(block + ".conv1", x, {in, width}));
      y = relu(block + ".relu", m.conv(block + ".conv2", y, {width, width, 3, stride}));
      y = m.conv(block + ".conv3", y, {.in = width, .out = 4 * width, .gain = 0.25});
      if (i == 0) x = m.conv(block + ".downsample.0", x, {in, 4 * width, 1, stride});
      x = relu(block + ".relu", m.node(block, "Add", {y, x}));
      in = 4 * width;
    }
    width *= 2;
    ++group;
  }
  x = m.node("", "Flatten", {m.node("avgpool", "GlobalAveragePool", {x})}, {m.number("axis", 1)});
  x = m.node("fc", "Gemm", {x, m.weight("fc.weight", {1000, in}, 0.02), m.weight("fc.bias", {1000}, 0.02)},
             {m.number("transB", 1)});
  return m.finish(x, {1, 1000});
}

/// The sizes of a vision transformer.
struct transformer_size {
  std::int64_t width, heads, blocks, patch, image, classes;
};

/// Makes a vision transformer (Dosovitskiy et al., ICLR 2021) node by node.
class transformer_maker {
 public:
  explicit transformer_maker(std::string const& name, transformer_size const& s, std::uint64_t seed)
      : m_(name, seed), s_(s), tokens_(1 + (s.image / s.patch) * (s.image / s.patch)) {}

  ::onnx::ModelProto make() {
    auto x = embedded(m_.input("image", {1, 3, s_.image, s_.image}));
    for (std::int64_t i = 0; i < s_.blocks; ++i) {
      auto const block = "blocks." + std::to_string(i);
      x = m_.node(block, "Add", {x, attention(block + ".attn", normalised(block + ".norm1", x))});
      x = m_.node(block, "Add", {x, perceptron(block + ".mlp", normalised(block + ".norm2", x))});
    }
    x = normalised("norm", x);
    x = m_.node(
        "head", "Slice",
        {x, m_.integers("head.begin", {0}), m_.integers("head.end", {1}), m_.integers("head.axis", {1})});
    x = m_.node("head", "Flatten", {x}, {m_.number("axis", 1)});
    x = m_.node("head", "Gemm",
                {x, m_.weight("head.weight", {s_.classes, s_.width}, 0.05),
                 m_.weight("head.bias", {s_.classes}, 0.02)},
                {m_.number("transB", 1)});
    return m_.finish(x, {1, s_.classes});
  }

 private:
  using value = model_maker::value;

  /// Cuts the image into patches and makes a token of each, after the token of the class.
  value embedded(value const& image) {
    auto x = m_.conv("patch_embed.proj", image, {3, s_.width, s_.patch, s_.patch});
    x = m_.node("patch_embed", "Reshape", {x, m_.integers("patch_embed.shape", {1, s_.width, tokens_ - 1})});
    x = m_.node("patch_embed", "Transpose", {x}, {m_.ints("perm", {0, 2, 1})});
    x = m_.node("", "Concat", {m_.weight("cls_token", {1, 1, s_.width}, 0.04), x}, {m_.number("axis", 1)});
    return m_.node("", "Add", {x, m_.weight("pos_embed", {1, tokens_, s_.width}, 0.04)});
  }

  value linear(std::string const& layer, value const& x, std::int64_t in, std::int64_t out) {
    auto const w = m_.weight(layer + ".weight", {in, out}, std::sqrt(3.0 / static_cast<double>(in)));
    return m_.node(layer, "Add", {m_.node(layer, "MatMul", {x, w}), m_.weight(layer + ".bias", {out}, 0.02)});
  }

  /// Normalises each token. The factors and biases of the norm are folded into the linear layers behind it.
  value normalised(std::string const& layer, value const& x) {
    auto const mean = [&](value const& v) {
      return m_.node(layer, "ReduceMean", {v}, {m_.ints("axes", {-1}), m_.number("keepdims", 1)});
    };
    auto const centred = m_.node(layer, "Sub", {x, mean(x)});
    auto const variance = mean(m_.node(layer, "Mul", {centred, centred}));
    auto const safe = m_.node(layer, "Add", {variance, m_.filled(layer + ".epsilon", {1}, 1e-6f)});
    return m_.node(layer, "Div", {centred, m_.node(layer, "Sqrt", {safe})});
  }

  value attention(std::string const& layer, value const& x) {
    auto const depth = s_.width / s_.heads;
    auto const headed = [&](std::string const& part, model_maker::sizes const& turned) {
      auto const y = linear(layer + "." + part, x, s_.width, s_.width);
      auto const shape = m_.integers(layer + "." + part + ".shape", {1, tokens_, s_.heads, depth});
      return m_.node(layer + "." + part, "Transpose", {m_.node(layer + "." + part, "Reshape", {y, shape})},
                     {m_.ints("perm", turned)});
    };
    auto const q = headed("q", {0, 2, 1, 3}), k = headed("k", {0, 2, 3, 1}), v = headed("v", {0, 2, 1, 3});
    auto const factor = static_cast<float>(1 / std::sqrt(static_cast<double>(depth)));
    auto const scores =
        m_.node(layer, "Mul", {m_.node(layer, "MatMul", {q, k}), m_.filled(layer + ".scale", {1}, factor)});
    auto const shares = m_.node(layer, "Softmax", {scores}, {m_.number("axis", -1)});
    auto const mixed =
        m_.node(layer, "Transpose", {m_.node(layer, "MatMul", {shares, v})}, {m_.ints("perm", {0, 2, 1, 3})});
    auto const flat =
        m_.node(layer, "Reshape", {mixed, m_.integers(layer + ".shape", {1, tokens_, s_.width})});
    return linear(layer + ".proj", flat, s_.width, s_.width);
  }

  /// Two layers with GELU between them, here x · sigmoid(1.702 x).
  value perceptron(std::string const& layer, value const& x) {
    auto const wide = linear(layer + ".fc1", x, s_.width, 4 * s_.width);
    auto const bent =
        m_.node(layer + ".act", "Sigmoid",
                {m_.node(layer + ".act", "Mul", {wide, m_.filled(layer + ".act.factor", {1}, 1.702f)})});
    return linear(layer + ".fc2", m_.node(layer + ".act", "Mul", {wide, bent}), 4 * s_.width, s_.width);
  }

  model_maker m_;
  transformer_size s_;
  std::int64_t tokens_;
};

/// Makes ViT-Tiny (DeiT-Tiny of Touvron et al., ICML 2021): 5.7 million parameters.
inline ::onnx::ModelProto make_vit_tiny() {
  return transformer_maker(
             "vit_tiny", {.width = 192, .heads = 3, .blocks = 12, .patch = 16, .image = 224, .classes = 1000},
             16)
      .make();
}

/// A model that the demo makes itself.
struct demo_model {
  std::string_view name;
  ::onnx::ModelProto (*make)();
};

inline constexpr std::array<demo_model, 2> demo_models = {
    {{"resnet50", make_resnet50}, {"vit_tiny", make_vit_tiny}}};

}  // namespace tool
