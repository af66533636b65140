// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// What carries stages out. The executor is written against these concepts only; host threads, MPI processes
/// and CUDA devices are models of them. For all of them:
/// - One thread at a time uses the device of a rank, its communicators and what they made, but what says that
///   any may.
/// - A call that issues work does not wait for it, nor for a peer; it may wait for room in the stream. Where
///   work runs as it is issued, on the thread that issues it, it has ended when the call returns, all but
///   transfers: there `wait` waits.
/// - Work uses memory, sums and events until it has ended: they live until then. A device outlives what it
///   made, and a communicator the streams that it was given.
/// - Calls throw `run_error` where the device or the transport fails, and where they wait and the run has
///   failed. Then nothing is known of what was issued, and nothing more is issued.
namespace cleave {

/// Where work runs beside the program that issues it, and when. A stream runs its work in issue order: each
/// piece begins once those before it have ended, all but transfers. Nothing is ordered across streams but by
/// events.
/// - `D::stream`, `D::event`   movable, in use or not. A stream that is destroyed waits for its work, not for
///                             ever; what has not begun by then never does.
/// - `d.make_stream(priority)` a stream; the smaller the number, the sooner its work, if there is a choice.
/// - `d.make_event()`          a point in time. It has happened until something is recorded in it.
/// - `d.record(e, s)`          `e` becomes the time at which all that was issued to `s` so far has ended. It
///                             may be recorded again; work that waits for it goes on to wait for what was
///                             recorded when the wait was issued.
/// - `d.elapsed(from, to)`     the time between two events that were recorded and have happened.
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

/// Where stages compute and keep what they make. `allocate` and `make_sums` may wait for anything of this
/// device: they are for the time between steps.
/// - `D::buffer`, `D::sums`   movable; `b.data()` is memory of the device, which stays where it is.
/// - `d.wait(s, e)`           what is issued to `s` from now on begins after `e`.
/// - `d.query(e)`             whether `e` has happened, and its work can be seen; never waits. Transfers may
///                            go on only in this: whoever waits asks again.
/// - `d.allocate(n)`          n bytes, or none, aligned to 256 and of any content.
/// - `d.copy(s, to, from, n)` n bytes, or none, from and to memory of the device or of the program, which do
///                            not overlap.
/// - `d.make_sums(pairs)`     a list of additions, made ready once and issued often. \throws sums_error
/// - `d.accumulate(s, sums, options)`  carries them out: each pair sees what those before it wrote.
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
/// - `d.sum_of_squares(regions)`  of all their elements, floating-point numbers that nothing issued before
///                                still writes; waits for nothing but itself.
template <class D>
concept measuring_device = device<D> && requires(D& d, std::span<region const> regions) {
  { d.sum_of_squares(regions) } -> std::same_as<double>;
};

/// Which message of a step. Both ends name it alike, so that a disagreement is an error and not a wrong value
/// or a wait for ever: one in number or bytes fails the run, whoever of the two is first. A transport that
/// carries no numbers relies on programs that were compared (`agree_on_program`).
struct message {
  rank_id peer;          ///< as the communicator counts its ranks
  std::uint32_t number;  ///< the same at both ends, different for all messages of a step
  stage_call of;         ///< whose value or gradient it is, for people

  bool operator==(message const&) const = default;
};

/// What becomes of elements of all ranks, one by one. All ranks get the same bits. Floating-point numbers, in
/// an order that the communicator knows, and u8, which wraps, have it everywhere; other integers where the
/// transport knows them, truth values no sum. The maximum of a NaN and others is any.
enum class reduce_op : std::uint8_t { sum, max };

/// What moves memory between ranks, in groups: what is issued between `begin_group` and `end_group`, all of
/// it to one stream, begins together, once all that was issued there before has ended, and each of it goes on
/// without the others. What is issued to the stream afterwards, an event too, may come before the end of the
/// group, or not: who needs the end waits for `e`, and a program is verified for one of these (`delivery`).
/// Messages from one rank to one other match in the order in which their groups begin, and so do reductions;
/// so groups of one communicator go to one stream, or events order them. Whether groups of two communicators
/// go on at once is not known.
/// - `c.rank()`, `c.size()`  this rank, of so many, from 0 on; their numbers in the run may be others.
/// - `c.begin_group()`
/// - `c.send(r, m, s)`, `c.receive(r, m, s)`  `r` may be empty: then they only meet.
/// - `c.all_reduce(r, op, number, s)`  in place. Every rank of `c` issues it, with the same number and
///                        operation, on as many elements of the same type; else the run fails, as of
///                        `message`.
/// - `c.end_group(e, s)`  `e` happens when all of the group has ended. It is recorded again once it has, or
///                        on a stream that waits for it.
/// - `c.poll()`           from any thread: the first failure of the run as far as it is known here, then
///                        always the same; never waits.
/// - `c.abort(f)`         from any thread: nothing of this rank waits any more, neither calls nor streams,
///                        now and later. Other ranks hear of it by the rendezvous. Memory of messages stays
///                        until no rank takes part in the run.
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
concept rendezvous = requires(B& b, failure const& f) {
  { b.publish(f) } noexcept;
  { b.poll() } -> std::same_as<std::optional<failure>>;
};

/// A rendezvous that also brings ranks together, before and between steps.
/// - `b.broadcast(bytes, root, until)`  the bytes of rank `root` to all, as many at each.
/// - `b.barrier(until)`                 until all ranks are there.
/// Both throw `run_error` where a rank is lost, or not there in time.
template <class B>
concept collective_rendezvous = rendezvous<B> && requires(B& b, std::span<std::byte> bytes, rank_id root,
                                                          std::chrono::steady_clock::time_point until) {
  { b.broadcast(bytes, root, until) };
  { b.barrier(until) };
};

/// One pass of a stage, as it is called.
struct stage_pass {
  stage_id stage;
  microbatch_id microbatch;
  /// By how much the loss of this microbatch counts: what a stage multiplies its gradient by where a backward
  /// pass begins. As the values of the step say, or `call_options::scale`.
  double weight = 1;
  bool from_loss = false;  ///< of a backward pass: no gradient arrives, for nobody reads the stage
  bool last = false;       ///< of a backward pass: the last of the stage in this step
  bool trains = true;      ///< whether a backward pass will follow, so that anything need be kept for it
  region saved = {};       ///< room for what F keeps for B, where the plan of the memory has some
  region saved_for_weights = {};  ///< and for what I keeps for W
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

}  // namespace cleave

namespace cleave::detail {

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

}  // namespace cleave::detail
