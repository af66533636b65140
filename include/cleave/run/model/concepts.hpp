// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// The backend interface: devices, communicators, rendezvous and stages. The executor is written against
/// these concepts only; host threads, MPI processes and CUDA devices model them. Rules for all of them:
/// - Thread safety: one thread at a time uses the device of a rank, its communicators and the objects they
///   made. Exceptions say "from any thread".
/// - Asynchrony: a call that issues work waits neither for the work nor for a peer, though it may wait for
///   room in the stream. A backend may run work synchronously on the issuing thread. Then the work has ended
///   when the call returns, except for transfers, for which `wait` blocks.
/// - Lifetime: memory, sums and events must outlive the work that uses them. A device must outlive the
///   objects it made. A communicator must outlive the streams that it was given.
/// - Errors: calls throw `run_error` if the device or the transport fails. Calls that wait also throw it if
///   the run has failed. After that the state of issued work is unknown, and no more work is issued.
namespace cleave::inline v0_2 {

/// A device with streams and events, like those of CUDA. A stream runs its work in issue order: each piece
/// begins after the ones before it have ended, except for transfers. Only events order work across streams.
/// - `D::stream`, `D::event`: movable, also while in use. Destroying a stream waits for its work for a
///   bounded time. Work that has not begun by then never runs.
/// - `d.make_stream(priority)`: returns a stream. A smaller number means a higher priority.
/// - `d.make_event()`: returns an event, which counts as happened until it is recorded.
/// - `d.record(e, s)`: makes `e` happen when all work issued to `s` so far has ended. An event may be
///   recorded again. Work that already waits for it keeps waiting for the recording that was current when the
///   wait was issued.
/// - `d.elapsed(from, to)`: returns the time between two recorded events that have happened.
template <class D>
concept clocked_device =
    std::movable<typename D::stream> && std::movable<typename D::event> &&
    requires(D& d, typename D::stream& s, typename D::event& e, typename D::event const& past) {
      { d.make_stream(int{}) } -> std::same_as<typename D::stream>;
      { d.make_event() } -> std::same_as<typename D::event>;
      { d.record(e, s) };
      { d.elapsed(past, past) } -> std::convertible_to<std::chrono::nanoseconds>;
    };

/// Source and target of an addition in `accumulate`: equally many elements, perhaps of different types.
struct region_pair {
  region from, to;
};

/// Options of `accumulate`: `to = to + factor * from`, or `to = factor * from`. Both pointers are to device
/// memory and are read or written when the work runs, not when it is issued.
struct accumulate_options {
  double factor = 1;
  enum class target : std::uint8_t { added_to, overwritten } target = target::added_to;
  float const* device_factor = nullptr;  ///< if not null, its value multiplies `factor`
  std::uint32_t* nonfinite = nullptr;    ///< if not null, set to 1 if a result is not finite, else unchanged
};

/// A device that computes stages and stores their values. `allocate` and `make_sums` may synchronise with the
/// whole device; call them between steps.
/// - `D::buffer`, `D::sums`: movable. `b.data()` is a device address, which never changes.
/// - `d.wait(s, e)`: work issued to `s` from now on begins after `e`.
/// - `d.query(e)`: returns true if `e` has happened and the results of its work are visible. Never waits.
///   Transfers may make progress only in this call, so callers poll.
/// - `d.allocate(n)`: returns a buffer of n >= 0 bytes, aligned to 256 bytes, uninitialised.
/// - `d.copy(s, to, from, n)`: copies n >= 0 bytes between non-overlapping addresses in device or host
///   memory.
/// - `d.make_sums(pairs)`: prepares a list of additions that will be issued repeatedly. \throws sums_error
/// - `d.accumulate(s, sums, options)`: executes the additions. Each pair sees the results of the pairs before
///   it.
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

/// A device that computes the squared norm of gradients.
/// - `d.sum_of_squares(regions)`: returns the sum of squares of all elements, which are floating-point.
///   Precondition: no work issued before still writes them. Waits only for its own computation.
template <class D>
concept measuring_device = device<D> && requires(D& d, std::span<region const> regions) {
  { d.sum_of_squares(regions) } -> std::same_as<double>;
};

/// The identity of a message within a step. Both ends name it the same way, so a mismatch is reported as an
/// error instead of causing a wrong value or a hang. A mismatch in number or bytes fails the run, whichever
/// end comes first. A transport that does not send numbers relies on `agree_on_program`, which compares the
/// ranks' programs.
struct message {
  rank_id peer;          ///< rank in the numbering of the communicator
  std::uint32_t number;  ///< the same at both ends, unique within a step
  stage_call of;         ///< the stage call that the value or gradient belongs to, for error messages

  bool operator==(message const&) const = default;
};

/// The operation of an all-reduce. All ranks get the same bits. For floating-point types and u8 (which wraps)
/// every communicator supports sums; floating-point sums use an order that the communicator fixes. Sums of
/// other integers depend on the transport. `boolean` has no sum. The maximum of NaN and other values is
/// unspecified.
enum class reduce_op : std::uint8_t { sum, max };

/// A communicator moves memory between ranks, in groups like those of NCCL. Everything issued between
/// `begin_group` and `end_group` goes to one stream. It begins together, after all earlier work of that
/// stream has ended, and its operations progress independently.
///
/// Work or events issued to the stream after a group may or may not run before the end of the group. To wait
/// for the end, wait for `e`. A program is verified for one of the two orders (`delivery`).
///
/// Messages from one rank to another match in the order in which their groups begin; so do reductions. Hence
/// the groups of one communicator go to one stream, or events order them. Groups of two communicators may or
/// may not run concurrently.
/// - `c.rank()`, `c.size()`: this rank, counted from 0, and the number of ranks. Rank numbers in the run may
///   differ.
/// - `c.begin_group()`: begins a group.
/// - `c.send(r, m, s)`, `c.receive(r, m, s)`: transfer `r`. If `r` is empty, the two ranks only synchronise.
/// - `c.all_reduce(r, op, number, s)`: reduces `r` in place. Every rank of `c` issues it with the same
///   number, operation, element count and type; otherwise the run fails, as for `message`.
/// - `c.end_group(e, s)`: ends the group; `e` happens when all of it has ended. `e` may be recorded again
///   after it has happened, or on a stream that waits for it.
/// - `c.poll()`: returns the first failure of the run known here, and the same one from then on. From any
///   thread; never waits.
/// - `c.abort(f)`: makes all current and future waits of this rank return, in calls and in streams. From any
///   thread. Other ranks learn of the failure through the rendezvous. Memory of messages must stay valid
///   until no rank takes part in the run.
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

/// A channel for failures, separate from the data. All ranks read the same failure: the first that was
/// published.
/// - `b.publish(f)`: reports a failure. From any thread; noexcept.
/// - `b.poll()`: returns the first failure, or nothing. Never waits.
template <class B>
concept rendezvous = requires(B& b, failure const& f) {
  { b.publish(f) } noexcept;
  { b.poll() } -> std::same_as<std::optional<failure>>;
};

/// A rendezvous that also synchronises ranks, before and between steps. Both calls throw `run_error` if a
/// rank is lost or late.
/// - `b.broadcast(bytes, root, until)`: copies the bytes of rank `root` to all ranks. All pass equally many
///   bytes.
/// - `b.barrier(until)`: waits until all ranks have called it.
template <class B>
concept collective_rendezvous = rendezvous<B> && requires(B& b, std::span<std::byte> bytes, rank_id root,
                                                          std::chrono::steady_clock::time_point until) {
  { b.broadcast(bytes, root, until) };
  { b.barrier(until) };
};

/// Reports gradients of a stage to the executor. Does nothing if the executor has no use for it. It is called
/// by one thread at a time, before the member function that got it returns.
struct gradient_report {
  void (*call)(void* to, stage_id, std::uint32_t) = nullptr;
  void* to = nullptr;
  stage_id stage = {};

  /// Reports gradient `number` of the stage: no work that is issued to the stream of the pass from now on
  /// adds to it.
  /// \throws error if the stage does not have it; run_error
  void operator()(std::uint32_t number) const {
    if (call) call(to, stage, number);
  }
  explicit operator bool() const { return call != nullptr; }
};

/// The arguments of one pass of a stage.
struct stage_pass {
  stage_id stage;
  microbatch_id microbatch;
  /// Factor of the loss of this microbatch. A stage multiplies its gradient by it where a backward pass
  /// begins. Set by the values of the step, or by `call_options::scale`.
  double weight = 1;
  bool from_loss = false;  ///< backward pass: no gradient arrives, because no other stage reads this stage
  bool last = false;       ///< backward pass: the last one of the stage in this step
  bool trains = true;      ///< forward pass: a backward pass will follow, so activations must be saved
  region saved = {};       ///< memory for activations saved from F to B, if the memory plan has any
  region saved_for_weights = {};  ///< memory for values saved from I (input gradient) to W (weight gradient)
  /// Last backward pass, or last W: `ready(n)` says that gradient n of the stage is complete. Its sum over
  /// replicas then begins while the pass goes on. Gradients that are not reported are complete at its end.
  gradient_report ready = {};
};

/// The user's code for all stages of one rank. It issues all its work to `s`.
/// - `st.forward(s, p, in, out)`: computes `out`, the results that others read, from the inputs `in`. Both
///   are in the order of the dataflow. Inputs stay unchanged until the backward pass has ended. For a result
///   of dynamic shape it sets `out[i].shape`.
template <class S, class D>
concept stage = device<D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                      std::span<tensor_view const> in, std::span<tensor_view> out) {
  { st.forward(s, p, in, out) };
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A communicator that connects ranks at the first sum of a size, unless it was told before.
/// - `c.open_sums(regions, s)`: connects all ranks for sums of regions of these types and sizes, without
///   touching them. Collective; blocks until done. \throws run_error
template <class C, class D>
concept connecting_communicator =
    communicator<C, D> &&
    requires(C& c, std::span<region const> like, typename D::stream& s) { c.open_sums(like, s); };

/// The memory in which a communicator takes sums: any, or only what the device has allocated for them.
enum class sum_memory : std::uint8_t { any, own };

/// A communicator that transfers memory better once it is registered.
/// - `C::registration`: movable. The registration ends when it is destroyed, before the memory is freed.
/// - `c.register_memory(r)`: registers memory of later transfers. \throws run_error
/// - `c.wanted_sum_memory()`: returns where sums are. With `own`, all ranks register the memory of the same
///   sums in the same order.
template <class C, class D>
concept registering_communicator =
    communicator<C, D> && std::movable<typename C::registration> && requires(C& c, region const& r) {
      { c.register_memory(r) } -> std::same_as<typename C::registration>;
      { c.wanted_sum_memory() } -> std::same_as<sum_memory>;
    };

struct no_registration {};
/// Registers memory with `c`, if that kind of communicator can. \throws run_error
template <device D, communicator<D> C>
auto registered([[maybe_unused]] C& c, [[maybe_unused]] region const& r) {
  if constexpr (registering_communicator<C, D>)
    return c.register_memory(r);
  else
    return no_registration();
}
template <class D, class C>
using registration_of = decltype(registered<D>(std::declval<C&>(), region()));

/// A device that says that work has ended when the call that issues it returns, transfers excepted.
template <class D>
concept immediate_device = device<D> && requires { requires D::is_immediate; };

/// A stage with a backward pass.
/// - `st.backward(s, p, gradients, in)`: computes the gradients of the inputs, `in`, from those of the
///   results, `gradients`, each in its order. A result gradient without data does not arrive; an input
///   gradient without data is not wanted. Also adds to the gradients of the parameters.
template <class S, class D>
concept trained_stage =
    stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                            std::span<tensor_view const> gradients, std::span<tensor_view const> in) {
      { st.backward(s, p, gradients, in) };
    };

/// A stage whose backward pass is split into input and weight gradients (zero-bubble schedules).
/// - `st.backward_input(s, p, gradients, in)`: as `backward`, without the parameters.
/// - `st.backward_weight(s, p)`: adds the gradients of the parameters later, from values that the first half
///   saved.
template <class S, class D>
concept split_backward_stage =
    trained_stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                    std::span<tensor_view const> gradients, std::span<tensor_view const> in) {
      { st.backward_input(s, p, gradients, in) };
      { st.backward_weight(s, p) };
    };

/// A stage with parameters.
/// - `st.gradients(i)`: returns the accumulated gradients of the parameters of stage `i`. Their addresses are
///   the same in every step.
template <class S>
concept parameter_stage = requires(S& st, stage_id i) {
  { st.gradients(i) } -> std::convertible_to<std::span<region const>>;
};

/// A stage whose parameters an optimiser updates.
/// - `st.parameters(i)`: returns the parameters of stage `i`, in the order and sizes of their gradients.
/// - `st.update(s, i, factor)`: one optimiser step with the gradients times `factor`. Afterwards all
///   gradients are zero.
template <class S, class D>
concept updated_stage =
    parameter_stage<S> && stage<S, D> && requires(S& st, typename D::stream& s, stage_id i, double factor) {
      { st.parameters(i) } -> std::convertible_to<std::span<region const>>;
      { st.update(s, i, factor) };
    };

/// A stage whose weights are gathered before use and released afterwards (FSDP).
template <class S, class D>
concept sharded_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_id i) {
  { st.unshard(s, i) };
  { st.reshard(s, i) };
};

/// A stage whose saved activations can be moved out of the device and back.
template <class S, class D>
concept offloaded_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p) {
  { st.offload(s, p) };
  { st.reload(s, p) };
};

/// A stage that recomputes a forward pass before its backward pass (activation checkpointing).
template <class S, class D>
concept recomputed_stage = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p,
                                                   std::span<tensor_view const> in) {
  { st.recompute(s, p, in) };
};

/// A stage with hooks of the whole model. Each is optional. It may issue work to `s`, which runs in the order
/// of these calls.
/// - `st.before_forward(s, p)`: called before each forward pass of a first stage: one that reads no other
///   stage. Its inputs have arrived.
/// - `st.after_forward(s, p)`: called after each forward pass of a last stage: one that no other stage reads.
///   Its results are handed on afterwards.
/// - `st.after_backward(s, p)`: called after each backward pass of a first stage, or after its second half W
///   if it is split.
template <class S, class D>
concept hooked_before_forward = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p) {
  { st.before_forward(s, p) };
};
template <class S, class D>
concept hooked_after_forward = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p) {
  { st.after_forward(s, p) };
};
template <class S, class D>
concept hooked_after_backward = stage<S, D> && requires(S& st, typename D::stream& s, stage_pass const& p) {
  { st.after_backward(s, p) };
};

}  // namespace cleave::detail
