// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/formats/unpriced_text.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <limits>
#include <optional>
#include <string>

#include "measured.hpp"
#include "terminal.hpp"

namespace tool {

/// Returns the costs that a load counts: the cost of the part's nodes and, if bytes have a cost, its
/// transfers. If they are relayed, stages in between pay for them too.
inline std::string objective_of(double cost_per_byte, bool relayed = false) {
  if (cost_per_byte <= 0) return "cost; transfers are free";
  return relayed ? "cost and transfer, stage by stage" : "cost and transfer";
}

/// The quality of a cut: its largest load and a lower bound.
struct certificate {
  std::string objective;
  double bottleneck = 0;
  std::optional<double> bound{};  ///< lower bound for any cut, over known costs
  std::string parts{};            ///< `4 stages`
  std::string unit{};
  cleave::unpriced lacking{};
  std::string of = "largest load";  ///< the number that `bottleneck` is
  bool counts_nodes = false;        ///< each node counts 1, since none has a cost

  /// Returns the bound, if enough costs are known for a meaningful one.
  std::optional<double> proven() const { return lacking.leaves_bounds() ? bound : std::nullopt; }
  double gap() const {
    return bottleneck <= *bound ? 0
           : *bound > 0         ? bottleneck / *bound - 1
                                : std::numeric_limits<double>::infinity();
  }
};

/// Describes the quality of a cut in a sentence.
inline std::string sentence_of(certificate const& c) {
  auto const amount = [&](double x) { return cleave::amount_text(x, c.unit); };
  auto text = c.of + " (" + c.objective + ") " + amount(c.bottleneck);
  if (c.counts_nodes)
    text += ", each node counted as 1";
  else if (c.lacking.any())
    text += " of the priced part";
  if (!c.lacking.leaves_bounds()) return text + "; no bound, for " + cleave::unpriced_text(c.lacking);
  if (c.bound && (*c.bound > 0 || c.bottleneck == 0)) {
    auto const gap = c.gap();
    text += "; no cut into " + c.parts + " can be below " + amount(*c.bound) + ": " +
            (gap == 0       ? "optimal"
             : gap < 0.0005 ? "less than 0.1\u00a0% above the optimum"
                            : "at most " + cleave::percent_text(gap) + " above the optimum");
    if (c.lacking.any()) text += "   of the priced part";
  }
  return c.lacking.any() ? text + " (" + cleave::unpriced_text(c.lacking) + ")" : text;
}

/// Writes `measured`, the origin of the costs.
inline void add_measured(cleave::json::writer& json, measured_costs const& m) {
  json.key("measured").open_object().member("file", m.path.string()).member("runs", m.runs);
  json.member("measured", m.count(cost_origin::measured)).member("shared", m.count(cost_origin::shared));
  json.member("folded", m.count(cost_origin::folded)).member("scaled", m.count(cost_origin::scaled));
  json.member("scale", m.scale).member("elsewhere", m.elsewhere).close_object();
}

/// Writes `objective`, `bottleneck`, `bound`, `gap` and `unpriced`. Bound and gap are null without a bound.
inline void add_certificate(cleave::json::writer& json, certificate const& c) {
  auto const bound = c.proven();
  json.member("objective", c.objective).member("bottleneck", c.bottleneck).key("bound");
  bound ? json.value(*bound) : json.null();
  json.key("gap");
  bound ? json.value(c.gap()) : json.null();
  json.key("unpriced")
      .open_object()
      .member("nodes", c.lacking.nodes)
      .member("node_share", c.lacking.node_share());
  json.member("values", c.lacking.values).member("value_share", c.lacking.value_share()).close_object();
}

}  // namespace tool
