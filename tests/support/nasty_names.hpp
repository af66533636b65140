// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace cleave::testing {

/// Returns names that occur in files, or could: quotes, markup, escapes of each format, control characters,
/// and bytes that are not UTF-8.
inline std::vector<std::string> nasty_names() {
  using namespace std::string_literals;
  return {
      "conv1"s,
      ""s,
      " "s,
      "a\"];evil[label=\"<b>"s,
      "</script><script>alert(1)</script>"s,
      "\x1b[31mred\n{|}"s,
      "back\\slash\\n\\N\\"s,
      "&amp; &#60; &lt"s,
      "'single' \"double\" `grave`"s,
      "]]> --> <!-- <![CDATA["s,
      "tab\tnul\0end"s,
      "naïve 層 🙂 e\u0301"s,
      "\u202eright to left\u2066"s,
      "cut \xe5\xb1"s,
      "\xff\xfe\x80 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80"s,
      "\xef\xbf\xbf\xef\xbb\xbf\xc2\x85"s,
      "${PATH} %s %n $(id)"s,
      "strict digraph node edge subgraph"s,
      std::string(5000, 'x') + "é"s,
  };
}

}  // namespace cleave::testing
