// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cleave/core/ids.hpp"
#include "cleave/run/failure.hpp"
#include "cleave/run/tensor_view.hpp"

/// What carries stages out. The executor is written against these concepts only; host threads, MPI processes
/// and CUDA devices are models of them.
namespace cleave {

/// Where work runs beside the program that issues it, and when. A stream runs its work in issue order;
/// nothing is ordered across streams but by events.
/// - `D::stream`, `D::event`   movable.
/// - `d.make_stream(priority)` a stream; the smaller the number, the sooner its work.
/// - `d.make_event()`          a point in time, not yet known.
/// - `d.record(e, s)`          `e` becomes the time at which all that was issued to `s` so far has ended.
/// - `d.elapsed(from, to)`     the time between two events that have happened.
template <class D>
concept clocked_device =
    std::movable<typename D::stream> && std::movable<typename D::event> &&
    requires(D& d, typename D::stream& s, typename D::event& e, typename D::event const& past) {
      { d.make_stream(int{}) } -> std::same_as<typename D::stream>;
      { d.make_event() } -> std::same_as<typename D::event>;
      { d.record(e, s) };
      { d.elapsed(past, past) } -> std::convertible_to<std::chrono::nanoseconds>;
    };

/// Elements that `accumulate` reads and those that it adds them to: as many, of types that may differ.
struct region_pair {
  region from, to;
};

/// `to = to + factor * from`, or `to = factor * from`. Both addresses are of memory of the device, and are
/// used when the work runs.
struct accumulate_options {
  double factor = 1;
  enum class target : std::uint8_t { added_to, overwritten } target = target::added_to;
  float const* device_factor = nullptr;  ///< multiplies `factor`, where there is one
  std::uint32_t* nonfinite = nullptr;    ///< becomes 1 where a result is not finite, and otherwise stays
};

/// Where stages compute and keep what they make.
/// - `D::buffer`, `D::sums`   movable; `b.data()` is memory of the device.
/// - `d.wait(s, e)`           what is issued to `s` from now on begins after `e`. Where work runs as it is
///                            issued, this waits, and throws `run_error` once the run has failed.
/// - `d.query(e)`             whether `e` has happened; never waits.
/// - `d.allocate(n)`          n bytes, aligned to 256.
/// - `d.copy(s, to, from, n)` n bytes.
/// - `d.make_sums(pairs)`     a list of additions, made ready once and issued often.
/// - `d.accumulate(s, sums, options)`  carries them out, pair after pair.
template <class D>
concept device = clocked_device<D> && std::movable<typename D::buffer> && std::movable<typename D::sums> &&
                 requires(D& d, typename D::stream& s, typename D::event& e, typename D::buffer& b,
                          typename D::sums& sums, std::span<region_pair const> pairs, std::size_t n, void* to,
                          void const* from, accumulate_options const& o) {
                   { d.wait(s, e) };
                   { d.query(e) } -> std::same_as<bool>;
                   { d.allocate(n) } -> std::same_as<typename D::buffer>;
                   { b.data() } -> std::convertible_to<void*>;
                   { d.copy(s, to, from, n) };
                   { d.make_sums(pairs) } -> std::same_as<typename D::sums>;
                   { d.accumulate(s, sums, o) };
                 };

/// A device that can tell how large gradients are.
/// - `d.sum_of_squares(regions)`  of all their elements; waits for nothing but itself.
template <class D>
concept measuring_device = device<D> && requires(D& d, std::span<region const> regions) {
  { d.sum_of_squares(regions) } -> std::same_as<double>;
};

/// Which message of a step. Both ends name it alike, so that a disagreement is an error and not a wrong value
/// or a wait for ever.
struct message {
  rank_id peer;
  std::uint32_t number;  ///< the same at both ends, different for all messages of a step
  stage_call of;         ///< whose value or gradient it is, for people

  bool operator==(message const&) const = default;
};

enum class reduce_op : std::uint8_t { sum, max };

/// What moves memory between ranks, in stream order. What is issued between `begin_group` and `end_group`
/// begins together, once all that was issued to `s` before has ended, and each of it goes on without the
/// others. Messages from one rank to one other match in issue order.
/// - `c.rank()`, `c.size()`
/// - `c.begin_group()`
/// - `c.send(r, m, s)`, `c.receive(r, m, s)`
/// - `c.all_reduce(r, op, number, s)`  in place; every rank of `c` issues it, with the same number.
/// - `c.end_group(e, s)`  `e` happens when all of the group has ended. Never waits for a peer.
/// - `c.poll()`           the first failure of the run as far as it is known here; never waits.
/// - `c.abort(f)`         from any thread: releases everyone who waits, now and later; noexcept.
/// All but the last two throw `run_error` where the transport fails. A mismatch of the two ends, in number or
/// bytes, fails the run.
template <class C, class D>
concept communicator =
    device<D> && requires(C& c, C const& here, typename D::stream& s, typename D::event& e, region r,
                          message const& m, std::uint32_t number, failure const& f) {
      { here.rank() } -> std::same_as<rank_id>;
      { here.size() } -> std::same_as<std::uint32_t>;
      { c.begin_group() };
      { c.send(r, m, s) };
      { c.receive(r, m, s) };
      { c.all_reduce(r, reduce_op{}, number, s) };
      { c.end_group(e, s) };
      { c.poll() } -> std::same_as<std::optional<failure>>;
      { c.abort(f) } noexcept;
    };

/// Who said what, out of band of the data: the first failure that is published is the one everybody reads.
/// - `b.publish(f)`  from any thread; noexcept.
/// - `b.poll()`      the first failure, or nothing; never waits.
template <class B>
concept board = requires(B& b, failure const& f) {
  { b.publish(f) } noexcept;
  { b.poll() } -> std::same_as<std::optional<failure>>;
};

/// A board that also brings ranks together, before and between steps.
/// - `b.broadcast(bytes, root, until)`  the bytes of rank `root` to all, as many at each.
/// - `b.barrier(until)`                 until all ranks are there.
/// Both throw `run_error` where a rank is lost, or not there in time.
template <class B>
concept meeting_board = board<B> && requires(B& b, std::span<std::byte> bytes, rank_id root,
                                             std::chrono::steady_clock::time_point until) {
  { b.broadcast(bytes, root, until) };
  { b.barrier(until) };
};

/// One pass of a stage, as it is called.
struct stage_pass {
  stage_id stage;
  microbatch_id microbatch;
  /// By how much the loss of this microbatch counts: what a stage multiplies its gradient by where a backward
  /// pass begins.
  double weight = 1;
  bool from_loss = false;    ///< of a backward pass: no gradient arrives, for nobody reads the stage
  bool last = false;         ///< of a backward pass: the last of the stage in this step
  bool trains = true;        ///< whether a backward pass will follow, so that anything need be kept for it
  region stash = {};         ///< room for what F keeps for B, where the plan of the memory has some
  region weight_stash = {};  ///< and for what I keeps for W
};

/// The user's code for all stages that one rank runs. It only issues to `s`.
/// - `st.forward(s, p, in, out)`  makes `out`, the results of the stage that are read, from `in`, its inputs,
///                                both in the order of the transport. Inputs stay as they are until the
///                                backward pass has ended. Of a value whose shape is not known before, it
///                                sets `out[i].shape`.
template <class S, class D>
concept stage = device<D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                      std::span<tensor_view const> in, std::span<tensor_view> out) {
  { st.forward(s, p, in, out) };
};

/// - `st.backward(s, p, gradients, in)`  from the gradients of the results, in their order and without data
///                                       where none arrives, makes those of the inputs, in theirs and without
///                                       data where nobody wants one; adds to those of the parameters.
template <class S, class D>
concept trained_stage =
    stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                            std::span<tensor_view const> gradients, std::span<tensor_view const> in) {
      { st.backward(s, p, gradients, in) };
    };

/// The two halves of a backward pass.
/// - `st.backward_input(s, p, gradients, in)`  as `backward`, without the parameters.
/// - `st.backward_weight(s, p)`                the parameters, later, from what the first half has kept.
template <class S, class D>
concept split_backward_stage =
    trained_stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                    std::span<tensor_view const> gradients, std::span<tensor_view const> in) {
      { st.backward_input(s, p, gradients, in) };
      { st.backward_weight(s, p) };
    };

/// - `st.gradients(i)`  those of the parameters of stage `i`, where they are added up; the same memory in
///                      every step.
template <class S>
concept parameter_stage = requires(S& st, stage_id i) {
  { st.gradients(i) } -> std::convertible_to<std::span<region const>>;
};

/// Parameters that an optimiser changes.
/// - `st.parameters(i)`       those of stage `i`, in the order of their gradients and as large.
/// - `st.update(s, i, factor)` a step of the optimiser on them, with their gradients times `factor`; then all
///                            gradients are zero.
template <class S, class D>
concept updated_stage =
    parameter_stage<S> && stage<S, D> && requires(S& st, typename D::stream& s, stage_id i, double factor) {
      { st.parameters(i) } -> std::convertible_to<std::span<region const>>;
      { st.update(s, i, factor) };
    };

/// Weights that are gathered before use and let go afterwards.
template <class S, class D>
concept sharded_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_id i) {
  { st.unshard(s, i) };
  { st.reshard(s, i) };
};

/// What forward passes keep, moved out of the device and back.
template <class S, class D>
concept offloaded_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p) {
  { st.offload(s, p) };
  { st.reload(s, p) };
};

/// A forward pass again, for what its backward pass needs.
template <class S, class D>
concept recomputed_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                                   std::span<tensor_view const> in) {
  { st.recompute(s, p, in) };
};

}  // namespace cleave
