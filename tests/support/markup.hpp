// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// A strict reader of the markup that the library writes.
namespace cleave::testing {

struct element {
  std::string tag, text;  // text: its own, decoded
  std::map<std::string, std::string> attributes;
  std::size_t parent;  // itself for the outermost

  std::string const& at(std::string const& name) const { return attributes.at(name); }
  double number(std::string const& name) const { return std::stod(attributes.at(name)); }
  bool is(std::string const& wanted) const {
    auto const found = attributes.find("class");
    return found != attributes.end() &&
           (' ' + found->second + ' ').find(' ' + wanted + ' ') != std::string::npos;
  }
};

class markup_reader {
 public:
  explicit markup_reader(std::string_view text) : text_(text) {}

  /// Returns all elements, outer ones first.
  /// \throws std::runtime_error if a tag is not closed in its place, an attribute is unquoted or given twice,
  /// or a character is not escaped.
  std::vector<element> read() {
    accept("<!doctype html>\n");
    while (at_ < text_.size())
      if (text_[at_] == '<')
        tag();
      else
        content();
    require(open_.empty(), "an element is not closed");
    return std::move(elements_);
  }

 private:
  void require(bool ok, std::string const& what) const {
    if (!ok)
      throw std::runtime_error("markup: " + what + " at byte " + std::to_string(at_) + ": " +
                               std::string(text_.substr(at_, 60)));
  }
  bool accept(std::string_view s) {
    bool const here = text_.substr(at_).starts_with(s);
    if (here) at_ += s.size();
    return here;
  }
  std::string name() {
    std::size_t const begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-'))
      ++at_;
    require(at_ > begin, "a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string decoded(std::string_view raw) const {
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      require(raw[i] != '<' && raw[i] != '>' && raw[i] != '"', "a character is not escaped");
      if (raw[i] != '&') {
        out += raw[i];
        continue;
      }
      auto const end = raw.find(';', i);
      require(end != raw.npos, "an entity does not end");
      static std::map<std::string_view, char> const entities = {
          {"&amp", '&'}, {"&lt", '<'}, {"&gt", '>'}, {"&quot", '"'}, {"&#39", '\''}};
      auto const found = entities.find(raw.substr(i, end - i));
      require(found != entities.end(), "an unknown entity");
      out += found->second;
      i = end;
    }
    return out;
  }
  void content() {
    auto const end = text_.find('<', at_);
    require(end != text_.npos || text_.find_first_not_of('\n', at_) == text_.npos, "text after the end");
    auto const raw = text_.substr(at_, end - at_);
    if (!open_.empty()) elements_[open_.back()].text += decoded(raw);
    at_ = end == text_.npos ? text_.size() : end;
  }
  void tag() {
    ++at_;
    if (open_.empty() && accept("!-- Written by cleave. -->")) return;  // the last line of the tool's files
    if (accept("/")) {
      auto const closed = name();
      require(!open_.empty() && elements_[open_.back()].tag == closed,
              "</" + closed + "> closes another element");
      require(accept(">"), "> is missing");
      open_.pop_back();
      return;
    }
    element e{name(), {}, {}, open_.empty() ? elements_.size() : open_.back()};
    while (accept(" ")) {
      auto const key = name();
      require(accept("=\""), "an attribute without quotes");
      auto const end = text_.find('"', at_);
      require(end != text_.npos, "a quote does not end");
      bool const added = e.attributes.emplace(key, decoded(text_.substr(at_, end - at_))).second;
      require(added, "the attribute " + key + " is given twice");
      at_ = end + 1;
    }
    bool const empty = accept("/");
    require(accept(">"), "> is missing");
    elements_.push_back(e);
    if (!empty) open_.push_back(elements_.size() - 1);
    if (e.tag == "style" || e.tag == "script") {
      auto const end = text_.find("</" + e.tag + ">", at_);
      require(end != text_.npos, "the " + e.tag + " does not end");
      auto const raw = text_.substr(at_, end - at_);
      require(raw.find_first_of("<&") == raw.npos, "XML parsers do not accept the " + e.tag);
      elements_.back().text = raw;
      at_ = end;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<element> elements_;
  std::vector<std::size_t> open_;
};

inline std::vector<element> read_markup(std::string const& text) { return markup_reader(text).read(); }

}  // namespace cleave::testing
