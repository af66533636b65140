// SPDX-License-Identifier: MIT
// Splits your own IR by callback, like torch.fx's split_module. The callback names the part of each
// operation; an outer program calls the pieces.
#include <cleave/cleave.hpp>
#include <iostream>
#include <string>
#include <vector>

struct op {
  std::string result, name;
  std::vector<std::string> reads;
};
struct program {
  std::vector<std::string> takes, gives;
  std::vector<op> body{};
};

struct program_graph {  // for reading: operations are named by their addresses, values by text
  program const* p;

  auto nodes() const {
    return cleave::counted(p->body.size(), [first = p->body.data()](std::size_t i) { return first + i; });
  }
  auto const& operands(op const* o) const { return o->reads; }
  std::vector<std::string> results(op const* o) const { return {o->result}; }
  auto const& inputs() const { return p->takes; }
  auto const& outputs() const { return p->gives; }
};

struct program_builder {  // for writing: each stage is a program
  program made{};

  std::string argument(std::string const& v, cleave::source) { return made.takes.emplace_back(v); }
  std::vector<std::string> clone(op const* o, auto lookup) {
    for (auto const& v : o->reads) lookup(v);
    return {made.body.emplace_back(*o).result};
  }
  void result(std::string const&, std::string const& v) { made.gives.push_back(v); }
};

std::string list(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int main() {
  program const p{{"image", "words"},
                  {"answer"},
                  {{"i1", "conv", {"image"}},
                   {"t1", "embed", {"words"}},
                   {"i2", "pool", {"i1"}},
                   {"t2", "attend", {"t1"}},
                   {"answer", "join", {"i2", "t2"}}}};
  program_graph const g{&p};

  // [callback]
  auto const cut = cleave::assign(g, [](op const* o) -> std::string {
    return o->name == "join" ? "head" : o->result.front() == 'i' ? "vision" : "text";
  });
  auto const stages =
      cleave::split(g, cut, {.stages = cleave::order::upstream, .outputs = cleave::output_order::first_use});
  // [callback]

  for (auto const id : stages.plan().order) {  // the outer program and the pieces
    program_builder b;
    cleave::emit(stages, id, b);
    std::cout << list(b.made.gives) << " = " << cut.label[index(id)] << '(' << list(b.made.takes) << ")\n";
    for (auto const& o : b.made.body)
      std::cout << "    " << o.result << " = " << o.name << '(' << list(o.reads) << ")\n";
  }
}

// It prints:
//
//   t2 = text(words)
//       t1 = embed(words)
//       t2 = attend(t1)
//   i2 = vision(image)
//       i1 = conv(image)
//       i2 = pool(i1)
//   answer = head(i2, t2)
//       answer = join(i2, t2)
