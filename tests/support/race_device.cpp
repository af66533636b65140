// SPDX-License-Identifier: MIT
#include "support/race_device.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;
using namespace cleave::testing;

namespace {

struct one_racing_rank {
  race_log log;
  host_ranks ranks{1};
  race_device d{log, ranks, rank_id{0}};
  race_device::stream a = d.make_stream(0), b = d.make_stream(0), c = d.make_stream(0);
  race_device::event e = d.make_event(), f = d.make_event();
  std::vector<float> numbers = std::vector<float>(16);

  region at(std::size_t first, std::size_t count = 4) { return {&numbers[first], count, element_type::f32}; }
};
using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("race_device: reports a write and a read on two streams unless a wait orders them") {
  one_racing_rank r;
  r.a.write(r.at(0), "first");
  r.d.record(r.e, r.a);
  r.b.read(r.at(0), "second");
  CHECK(r.log.reports() == lines{"second reads what first writes, and nothing orders them"});

  one_racing_rank s;
  s.a.write(s.at(0), "first");
  s.d.record(s.e, s.a);
  s.d.wait(s.b, s.e);
  s.b.read(s.at(0), "second");
  s.b.read(s.at(0), "third");
  CHECK(s.log.reports().empty());
  s.a.write(s.at(0), "fourth");
  CHECK(s.log.reports() == lines{"fourth writes what third reads, and nothing orders them"});
}

TEST_CASE("race_device: reads do not conflict, and a write conflicts with all reads since the last write") {
  one_racing_rank r;
  r.a.read(r.at(0), "one");
  r.b.read(r.at(0), "two");
  CHECK(r.log.reports().empty());
  r.c.write(r.at(0), "three");
  CHECK(r.log.reports() == lines{"three writes what one reads, and nothing orders them",
                                 "three writes what two reads, and nothing orders them"});
}

TEST_CASE("race_device: order is transitive across streams and excludes work after the event") {
  one_racing_rank r;
  r.a.write(r.at(0), "one");
  r.d.record(r.e, r.a);
  r.a.write(r.at(4), "late");
  r.d.wait(r.b, r.e);
  r.d.record(r.f, r.b);
  r.d.wait(r.c, r.f);
  r.c.write(r.at(0), "two");
  CHECK(r.log.reports().empty());
  r.c.read(r.at(4), "early");
  CHECK(r.log.reports() == lines{"early reads what late writes, and nothing orders them"});
}

TEST_CASE("race_device: work that the issuing thread saw finished precedes all that it issues later") {
  one_racing_rank r;
  r.a.write(r.at(0), "one");
  r.d.record(r.e, r.a);
  CHECK(r.d.query(r.e));
  r.b.write(r.at(0), "two");
  CHECK(r.log.reports().empty());
  r.d.read_here(r.at(0), "the thread");
  CHECK(r.log.reports() == lines{"the thread reads what two writes, and nothing orders them"});
}

TEST_CASE("race_device: accesses conflict only on common bytes") {
  one_racing_rank r;
  r.a.write(r.at(0, 8), "wide");
  r.b.write(r.at(8, 4), "beside");
  CHECK(r.log.reports().empty());
  r.b.read(r.at(7, 2), "across");
  CHECK(r.log.reports() == lines{"across reads what wide writes, and nothing orders them"});
  r.c.write(r.at(2, 1), "within");
  r.c.write(r.at(12, 4), "elsewhere");
  CHECK(r.log.reports().size() == 2);
  r.b.read(r.at(0, 1), "before");
  CHECK(r.log.reports().back() == "before reads what wide writes, and nothing orders them");
}

TEST_CASE("race_log: unknown_to() lists unordered accesses, and forget() removes them") {
  one_racing_rank r;
  r.a.write(r.at(0), "one");
  r.b.read(r.at(4), "two");
  CHECK(r.log.unknown_to(vector_clock(), r.at(0, 8)) == lines{"one", "two"});
  CHECK(r.log.unknown_to(vector_clock(), r.at(2, 1)) == lines{"one"});
  CHECK(r.log.unknown_to(r.a.clock, r.at(0, 8)) == lines{"two"});
  CHECK(r.log.unknown_to(vector_clock(), r.at(8)).empty());
  r.log.forget(r.at(2, 4));
  r.c.write(r.at(2, 4), "three");
  CHECK(r.log.reports().empty());
  r.c.write(r.at(0, 8), "four");
  CHECK(r.log.reports() == lines{"four writes what one writes, and nothing orders them",
                                 "four writes what two reads, and nothing orders them"});
}

TEST_CASE("race_device: copies and sums report the memory they touch") {
  one_racing_rank r;
  r.a.write(r.at(0), "one");
  r.d.copy(r.b, &r.numbers[4], &r.numbers[0], 8);
  region_pair const p{r.at(4), r.at(8)};
  auto const sums = r.d.make_sums(std::vector{p});
  r.d.accumulate(r.c, sums, {});
  CHECK(r.log.reports() == lines{"a copy reads what one writes, and nothing orders them",
                                 "a sum reads what a copy writes, and nothing orders them"});
}

TEST_CASE("race_device: an ignored wait orders nothing, and is counted if it would have") {
  one_racing_rank r;
  r.d.ignore_waits({0, 1});
  r.d.wait(r.b, r.e);
  r.a.write(r.at(0), "one");
  r.d.record(r.e, r.a);
  r.d.wait(r.b, r.e);
  r.b.read(r.at(0), "two");
  CHECK(r.d.waits() == 2);
  CHECK(r.d.missed().size() == 1);
  CHECK(r.log.reports().size() == 1);
}

TEST_CASE("race_communicator: only the event of a message orders its sending and its arrival") {
  for (bool const waits : {false, true}) {
    race_log log;
    host_ranks ranks(2);
    host_group group(ranks, {rank_id{0}, rank_id{1}});
    race_device x(log, ranks, rank_id{0}), y(log, ranks, rank_id{1});
    race_communicator a(group, 0, x), b(group, 1, y);
    auto s = x.make_stream(0), t = y.make_stream(0), other = y.make_stream(0);
    auto e = x.make_event(), f = y.make_event();
    float from = 3, to = 0, sum[2] = {1, 2};
    auto const one = [](float& v) { return region{&v, 1, element_type::f32}; };
    s.write(one(from), "made");
    a.begin_group();
    a.send(one(from), {rank_id{1}, 5, {}}, s);
    a.all_reduce(one(sum[0]), reduce_op::sum, 9, s);
    a.end_group(e, s);
    b.begin_group();
    b.receive(one(to), {rank_id{0}, 5, {}}, t);
    b.all_reduce(one(sum[1]), reduce_op::sum, 9, t);
    b.end_group(f, t);
    if (waits) {
      x.wait(s, e);
      y.wait(other, f);
    }
    s.write(one(from), "made anew");
    other.read(one(to), "used");
    other.write(one(from), "taken back");  // by rank 1, which knows by the message all earlier work of rank 0
    other.write(one(sum[1]), "reduced");
    CHECK(to == 3);
    CHECK(sum[0] == 3);
    lines const expected = waits
                               ? lines{"taken back writes what made anew writes, and nothing orders them"}
                               : lines{"made anew writes what message 5, sent reads, and nothing orders them",
                                       "used reads what message 5, received writes, and nothing orders them",
                                       "taken back writes what made anew writes, and nothing orders them",
                                       "reduced writes what reduction 9 writes, and nothing orders them"};
    CHECK(log.reports() == expected);
  }
}
