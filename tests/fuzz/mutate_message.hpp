// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/rng.hpp"

/// Small mutations of a protobuf message that keep it parsable. Random byte changes are almost always
/// rejected by the parser and reach no further code.
namespace cleave::testing {

using proto_message = google::protobuf::Message;
using proto_field = google::protobuf::FieldDescriptor;

/// All messages in `m` including itself, up to a few thousand, and all texts in them.
struct message_parts {
  std::vector<proto_message*> messages;
  std::vector<std::string> texts{"", "x"};
};

inline message_parts parts_of(proto_message& m) {
  message_parts all{{&m}};
  for (std::size_t i = 0; i < all.messages.size() && all.messages.size() < 4096; ++i) {
    auto& here = *all.messages[i];
    auto const& r = *here.GetReflection();
    std::vector<proto_field const*> fields;
    r.ListFields(here, &fields);
    for (auto const* f : fields) {
      int const count = f->is_repeated() ? r.FieldSize(here, f) : 1;
      for (int k = 0; k < count; ++k) {
        if (f->cpp_type() == proto_field::CPPTYPE_MESSAGE)
          all.messages.push_back(f->is_repeated() ? r.MutableRepeatedMessage(&here, f, k)
                                                  : r.MutableMessage(&here, f));
        if (f->cpp_type() == proto_field::CPPTYPE_STRING && all.texts.size() < 4096)
          all.texts.push_back(f->is_repeated() ? r.GetRepeatedString(here, f, k) : r.GetString(here, f));
      }
    }
  }
  return all;
}

/// Returns a number that code tends to forget.
inline std::int64_t odd_number(rng& random) {
  using limits = std::numeric_limits<std::int64_t>;
  std::vector<std::int64_t> const odd{
      0, 1, 2, -1, 127, 65536, limits::max(), limits::min(), limits::max() / 4};
  return random.one_in(2) ? static_cast<std::int64_t>(random.below(24)) : odd[random.below(odd.size())];
}

/// Sets field `f` of `m`, or adds an element to it. Texts and messages are mostly copied from another place
/// of the same model.
inline void set_field(proto_message& m, proto_field const& f, message_parts const& known, rng& random) {
  auto const& r = *m.GetReflection();
  auto const put = [&](auto add, auto set, auto value) {
    f.is_repeated() ? (r.*add)(&m, &f, value) : (r.*set)(&m, &f, value);
  };
  using reflection = google::protobuf::Reflection;
  auto const n = odd_number(random);
  switch (f.cpp_type()) {
    case proto_field::CPPTYPE_INT32:
      return put(&reflection::AddInt32, &reflection::SetInt32, static_cast<std::int32_t>(n));
    case proto_field::CPPTYPE_INT64:
      return put(&reflection::AddInt64, &reflection::SetInt64, n);
    case proto_field::CPPTYPE_UINT32:
      return put(&reflection::AddUInt32, &reflection::SetUInt32, static_cast<std::uint32_t>(n));
    case proto_field::CPPTYPE_UINT64:
      return put(&reflection::AddUInt64, &reflection::SetUInt64, static_cast<std::uint64_t>(n));
    case proto_field::CPPTYPE_DOUBLE:
      return put(&reflection::AddDouble, &reflection::SetDouble, static_cast<double>(n));
    case proto_field::CPPTYPE_FLOAT:
      return put(&reflection::AddFloat, &reflection::SetFloat, static_cast<float>(n));
    case proto_field::CPPTYPE_BOOL:
      return put(&reflection::AddBool, &reflection::SetBool, n % 2 == 0);
    case proto_field::CPPTYPE_ENUM:
      return put(&reflection::AddEnumValue, &reflection::SetEnumValue, static_cast<int>(random.below(32)));
    case proto_field::CPPTYPE_STRING: {
      auto text = known.texts[random.below(known.texts.size())];
      if (random.one_in(8)) text += static_cast<char>(random.below(256));
      f.is_repeated() ? r.AddString(&m, &f, text) : r.SetString(&m, &f, text);
      return;
    }
    case proto_field::CPPTYPE_MESSAGE: {
      std::vector<proto_message const*> alike;
      for (auto const* other : known.messages)
        if (other->GetDescriptor() == f.message_type() && other->ByteSizeLong() < 2048)
          alike.push_back(other);
      std::string copy;  // taken first: the new value may be within the field, or freed by setting it
      if (!alike.empty() && !random.one_in(8))
        copy = alike[random.below(alike.size())]->SerializePartialAsString();
      (f.is_repeated() ? r.AddMessage(&m, &f) : r.MutableMessage(&m, &f))->ParsePartialFromString(copy);
    }
  }
}

/// Changes one field of one message somewhere in `m`.
inline void mutate_message(proto_message& m, rng& random) {
  auto const known = parts_of(m);
  auto& here = *known.messages[random.below(known.messages.size())];
  auto const& r = *here.GetReflection();
  auto const fields = static_cast<std::size_t>(here.GetDescriptor()->field_count());
  if (fields == 0) return;
  auto const& f = *here.GetDescriptor()->field(static_cast<int>(random.below(fields)));
  auto const count = static_cast<std::size_t>(f.is_repeated() ? r.FieldSize(here, &f) : 0);
  auto const any = [&] { return static_cast<int>(random.below(count)); };
  if (count > 1 && random.one_in(3)) return r.SwapElements(&here, &f, any(), any());
  if (count > 0 && random.one_in(3)) {
    r.SwapElements(&here, &f, any(), static_cast<int>(count) - 1);
    return r.RemoveLast(&here, &f);
  }
  if (random.one_in(8)) return r.ClearField(&here, &f);
  set_field(here, f, known, random);
}

}  // namespace cleave::testing
