// SPDX-License-Identifier: MIT
#include "cleave/draw/markup_writer.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "support/markup.hpp"
#include "support/nasty_names.hpp"

using namespace cleave;
using testing::read_markup;

TEST_CASE("markup_writer: no text or attribute breaks out of its element") {
  for (auto const& name : testing::nasty_names()) {
    markup_writer to;
    to.open("p", {{"title", name}})
        .text(name)
        .element("b", name)
        .empty("i", {{"x", 0.125}, {"n", 7u}})
        .close("p");
    auto const elements = read_markup(to.str());
    REQUIRE(elements.size() == 3);
    CHECK(elements[0].at("title") == printable(name, 10000));
    CHECK(elements[1].text == printable(name, 10000));
    CHECK(elements[2].at("x") == "0.12");
    CHECK(elements[2].at("n") == "7");
    CHECK(elements[2].parent == 0);
  }
}

TEST_CASE("read_markup: rejects malformed pages") {
  for (auto const* text : {"<p>", "</p>", "<p><b></p></b>", "<p>a & b</p>", "<p>&nope;</p>", "<p a=b></p>",
                           "<p a=\"1\" a=\"2\"/>", "<p a=\"<\"/>", "<p>\"</p>", "<p></p>more", "<p"})
    CHECK_THROWS_AS(read_markup(text), std::runtime_error);
  CHECK(read_markup("<!doctype html>\n<p a=\"1\">x<b/></p>\n").size() == 2);
}
