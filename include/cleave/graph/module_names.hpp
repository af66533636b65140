// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// Names the nodes of a graph as torch.fx does: from their targets, as unique Python identifiers.
namespace cleave::inline v0_2::detail {

/// Returns true if `word` has a meaning in Python: keywords, builtins, and the names that generated code
/// imports. O(log words).
constexpr bool reserved_in_python(std::string_view word) {
  // clang-format off
  constexpr std::string_view words[] = {
      "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup",
      "BlockingIOError", "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError",
      "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError",
      "DeprecationWarning", "EOFError", "Ellipsis", "EncodingWarning", "EnvironmentError", "Exception",
      "ExceptionGroup", "False", "FileExistsError", "FileNotFoundError", "FloatingPointError",
      "FutureWarning", "GeneratorExit", "IOError", "ImportError", "ImportWarning", "IndentationError",
      "IndexError", "InterruptedError", "IsADirectoryError", "KeyError", "KeyboardInterrupt", "LookupError",
      "MemoryError", "ModuleNotFoundError", "NameError", "None", "NoneType", "NotADirectoryError",
      "NotImplemented", "NotImplementedError", "OSError", "OverflowError", "PendingDeprecationWarning",
      "PermissionError", "ProcessLookupError", "RecursionError", "ReferenceError", "ResourceWarning",
      "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration", "SyntaxError",
      "SyntaxWarning", "SystemError", "SystemExit", "TabError", "TimeoutError", "True", "TypeError",
      "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError",
      "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "ValueError", "Warning",
      "ZeroDivisionError", "__build_class__", "__debug__", "__doc__", "__import__", "__loader__",
      "__name__", "__package__", "__spec__", "abs", "aiter", "all", "and", "anext", "any", "as", "ascii",
      "assert", "async", "await", "bin", "bool", "break", "breakpoint", "bytearray", "bytes", "callable",
      "chr", "class", "classmethod", "compile", "complex", "continue", "copyright", "credits", "def", "del",
      "delattr", "device", "dict", "dir", "divmod", "elif", "else", "enumerate", "eval", "except", "exec",
      "exit", "filter", "finally", "float", "for", "format", "from", "frozenset", "getattr", "global",
      "globals", "hasattr", "hash", "help", "hex", "id", "if", "import", "in", "inf", "input", "int", "is",
      "isinstance", "issubclass", "iter", "lambda", "len", "license", "list", "locals", "map", "max",
      "memoryview", "min", "nan", "next", "nonlocal", "not", "object", "oct", "open", "or", "ord", "pass",
      "pow", "print", "property", "quit", "raise", "range", "repr", "return", "reversed", "round", "set",
      "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "torch", "try", "tuple", "type",
      "vars", "while", "with", "yield", "zip",
  };
  // clang-format on
  return std::ranges::binary_search(words, word);
}

/// Returns the name that a node asks for: its target in lower case, with `_` between a lower-case and an
/// upper-case letter. The targets of all nodes but functions are text; from these, the underscores of `__x__`
/// are removed. O(size).
inline std::string name_candidate(node_kind kind, std::string_view target) {
  if (kind != node_kind::call_function && target.size() > 4 && target.starts_with("__") &&
      target.ends_with("__"))
    target = target.substr(2, target.size() - 4);
  std::string name;
  for (std::size_t i = 0; i < target.size(); ++i) {
    char const c = target[i];
    bool const upper = c >= 'A' && c <= 'Z';
    if (upper && i > 0 && target[i - 1] >= 'a' && target[i - 1] <= 'z') name += '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

/// The names of the nodes of one graph. Expected O(size of the name) per name.
class module_names {
 public:
  /// Reserves memory for `names` names in total.
  void reserve(std::size_t names) { numbered_.reserve(names); }

  /// Returns a new name for a node with this target. For a target that was given before, the cost is only
  /// that of the next number.
  std::string take(node_kind kind, std::string_view target) {
    auto& known = kind == node_kind::call_function ? functions_ : texts_;
    if (auto const at = known.targets.find(target); at != none<std::uint32_t>) return next_of(known.stem[at]);
    std::string name = take(name_candidate(kind, target));
    auto const& kept = known.texts.emplace_back(target.begin(), target.end());
    known.targets.insert({kept.data(), kept.size()});
    known.stem.push_back(last_stem_);
    return name;
  }

  /// Returns `candidate` as an identifier that no node of the graph has yet. If it is taken or reserved,
  /// `_<number>` is appended to its stem.
  std::string take(std::string_view candidate) {
    std::string name = identifier(candidate);
    auto const [stem_size, number] = suffix(name);
    last_stem_ = stems_.insert(name.substr(0, stem_size));
    if (last_stem_ == counter_.size()) counter_.push_back(0);
    bool const plain = stem_size == name.size();
    bool const as_written = plain || std::to_string(number).size() == name.size() - stem_size - 1;
    bool const taken = reserved_in_python(name) || !(plain        ? insert_key(last_stem_, no_number)
                                                     : as_written ? insert(last_stem_, number)
                                                                  : insert_odd(name));
    if (taken) return next_of(last_stem_);
    if (!plain) counter_[last_stem_] = number;
    return name;
  }

 private:
  /// The targets that were given so far, and their stems. The texts keep their addresses.
  struct known_targets {
    numbering<std::string_view, std::uint32_t> targets;
    std::vector<std::vector<char>> texts;
    std::vector<std::uint32_t> stem;
  };

  /// Returns the next free name with a stem whose own name is taken.
  std::string next_of(std::uint32_t stem) {
    while (!insert(stem, ++counter_[stem])) continue;
    std::string name = stems_[stem];
    name += '_';
    return name += std::to_string(counter_[stem]);
  }

  /// Records a stem with a number. Returns true if this name is new.
  bool insert(std::uint32_t stem, std::uint64_t number) {
    return number < no_number ? insert_key(stem, number)
                              : insert_odd(stems_[stem] + "_" + std::to_string(number));
  }
  bool insert_key(std::uint32_t stem, std::uint64_t low) {
    auto const before = numbered_.size();
    return numbered_.insert(std::uint64_t{stem} << 32 | low) == before;
  }
  bool insert_odd(std::string const& name) {
    auto const before = odd_.size();
    return odd_.insert(name) == before;
  }

  static std::string identifier(std::string_view candidate) {
    std::string name;
    bool replaced = false;  // the previous character was not part of an identifier
    for (char const c : candidate) {
      bool const kept =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (kept || !replaced) name += kept ? c : '_';
      replaced = !kept;
    }
    if (name.empty()) return "_unnamed";
    return name[0] >= '0' && name[0] <= '9' ? "_" + name : name;
  }

  /// Returns the size of the stem before `_<number>`, and the number. Returns the whole size if there is no
  /// number, or one of more than 18 digits.
  static std::pair<std::size_t, std::uint64_t> suffix(std::string const& name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    std::size_t const count = name.size() - digits;
    if (count == 0 || count > 18 || digits == 0 || name[digits - 1] != '_') return {name.size(), 0};
    return {digits - 1, std::stoull(name.substr(digits))};
  }

  static constexpr std::uint64_t no_number = 0xffffffff;  // stands for a name that is only a stem

  numbering<std::uint64_t, std::uint32_t> numbered_;  // used names, as stem and number …
  numbering<std::string, std::uint32_t> odd_;         // … except numbers beyond 32 bits or with leading zeros
  numbering<std::string, std::uint32_t> stems_;
  std::uint32_t last_stem_ = 0;
  known_targets functions_, texts_;
  std::vector<std::uint64_t> counter_;  // of a stem: the last number that was tried
};

}  // namespace cleave::detail
