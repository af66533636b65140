// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "cleave/core/language.hpp"
#include "cleave/mpi/detail/check.hpp"
#include "cleave/mpi/progress.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::inline v0_2::detail {

/// An event of a rank that is a process. An event that was never recorded has happened. Used by one thread.
class mpi_event {
 public:
  using clock = std::chrono::steady_clock;

  struct state {
    bool happened = true;
    clock::time_point at = {};

    void pass() {
      at = clock::now();
      happened = true;
    }
  };

  bool happened() const { return state_.empty() || state_[0].happened; }
  /// Returns the time of the event. Precondition: the event has happened.
  clock::time_point at() const { return state_.empty() ? clock::time_point{} : state_[0].at; }

  /// Makes the event happen when the holder of the result calls `pass`. The address of the result does not
  /// change while the event, or the event it is moved to, lives. Precondition: it has happened.
  state& expect() {
    if (state_.empty()) state_.resize(1);
    state_[0].happened = false;
    return state_[0];
  }

 private:
  std::vector<state> state_;  // empty until the event is used
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::mpi {

/// The host as the device of a rank that is a process. A stream is the thread that issues to it: work has
/// ended when the issuing call returns, except for messages. Waiting for an event blocks the thread and
/// drives MPI's progress; with `mpi::progress::thread`, messages also progress while a stage runs. Used by
/// one thread, the one that uses its communicators.
class device : public host_memory {
 public:
  class stream {
   public:
    stream() = default;
    explicit stream(detail::mpi_progress& run) : run_(&run) {}
    /// Calls `issue`, which runs a stage. Meanwhile messages may progress on a second thread.
    template <class F>
    void watch(F const& issue) {
      if (!run_) return issue();
      background const while_it_runs(*run_);
      issue();
    }

   private:
    struct background {
      detail::mpi_progress& run;
      explicit background(detail::mpi_progress& r) : run(r) { run.begin_background(); }
      ~background() { run.end_background(); }
      background(background const&) = delete;
      background& operator=(background const&) = delete;
    };
    detail::mpi_progress* run_ = nullptr;
  };
  using event = detail::mpi_event;

  explicit device(mpi::backoff const& p = {}, mpi::progress how = mpi::progress::calls) : run_(p, how) {}
  device(mpi::device const&) = delete;
  mpi::device& operator=(mpi::device const&) = delete;

  /// Returns the pending requests of this rank.
  detail::mpi_progress& run() { return run_; }

  stream make_stream(int /*priority*/) { return stream(run_); }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.expect().pass(); }
  /// Blocks until `e` has happened.
  /// \throws run_error once the run has failed
  void wait(stream&, event const& e) {
    run_.wait([&] { return e.happened(); });
  }
  bool query(event const& e) {
    auto const mine = run_.turn();
    if (!e.happened()) run_.advance();
    return e.happened();
  }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at() - from.at(); }

  void copy(stream&, void* to, void const* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
  void accumulate(stream&, sums const& s, accumulate_options const& options) { run_sums(s, options); }

 private:
  detail::mpi_progress run_;
};

static_assert(measuring_device<mpi::device>);
}  // namespace cleave::mpi

namespace cleave::inline v0_2::detail {

/// Returns the MPI type of elements of type `t`. MPI has no 16-bit floats; they are sent as integers of that
/// size.
inline MPI_Datatype mpi_type_of(element_type t) {
  switch (t) {
    case element_type::f32:
      return MPI_FLOAT;
    case element_type::f64:
      return MPI_DOUBLE;
    case element_type::f16:
    case element_type::bf16:
      return MPI_UINT16_T;
    case element_type::i64:
      return MPI_INT64_T;
    case element_type::i32:
      return MPI_INT32_T;
    case element_type::i16:
      return MPI_INT16_T;
    case element_type::i8:
      return MPI_INT8_T;
    default:
      return MPI_UINT8_T;
  }
}

/// The reduction operations: those of MPI, or our own for element types that MPI does not know.
class mpi_operations {
 public:
  mpi_operations() = default;
  mpi_operations(mpi_operations const&) = delete;
  mpi_operations& operator=(mpi_operations const&) = delete;
  ~mpi_operations() {
    int ended = 0;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0) return;
    for (auto& o : own_)
      if (o != MPI_OP_NULL) MPI_Op_free(&o);
  }

  /// Returns the operation for elements of type `t`.
  /// \throws mpi_error
  MPI_Op operator()(element_type t, reduce_op op) {
    bool const sum = op == reduce_op::sum;
    if (t == element_type::f16)
      return sum ? own<element_type::f16, reduce_op::sum>() : own<element_type::f16, reduce_op::max>();
    if (t == element_type::bf16)
      return sum ? own<element_type::bf16, reduce_op::sum>() : own<element_type::bf16, reduce_op::max>();
    return sum ? MPI_SUM : MPI_MAX;
  }

 private:
  template <element_type Type, reduce_op Operation>
  static void combine(void* in, void* to, int* count, MPI_Datatype*) {
    auto const n = static_cast<std::size_t>(*count);
    std::array<region, 2> const both = {region{to, n, Type}, region{in, n, Type}};
    sum_in_order(both, Operation);
  }

  template <element_type Type, reduce_op Operation>
  MPI_Op own() {
    auto& o = own_[(Type == element_type::f16 ? 0 : 2) + (Operation == reduce_op::sum ? 0 : 1)];
    if (o == MPI_OP_NULL) check_mpi(MPI_Op_create(&combine<Type, Operation>, 1, &o));
    return o;
  }

  std::array<MPI_Op, 4> own_ = {MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL};
};

/// A number of bytes in the form of MPI, whose counts are `int`. A size above `longest` becomes one element
/// of a derived type. The two ends of a message may use different forms.
class mpi_extent {
 public:
  /// Precondition: 0 < `longest` < 2^31.
  /// \throws mpi_error
  mpi_extent(std::size_t bytes, std::size_t longest) : count_(static_cast<int>(bytes)) {
    if (bytes > longest) make_type(bytes, longest);
  }
  mpi_extent(mpi_extent const&) = delete;
  mpi_extent& operator=(mpi_extent const&) = delete;
  /// Pending messages keep the type alive.
  ~mpi_extent() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  void make_type(std::size_t bytes, std::size_t longest) {
    MPI_Datatype pieces[2] = {MPI_BYTE, MPI_BYTE}, piece = MPI_BYTE, all = MPI_BYTE;
    check_mpi(MPI_Type_contiguous(static_cast<int>(longest), MPI_BYTE, &piece));
    int counts[2] = {static_cast<int>(bytes / longest), static_cast<int>(bytes % longest)};
    MPI_Aint const places[2] = {0, static_cast<MPI_Aint>(bytes - bytes % longest)};
    pieces[0] = piece;
    check_mpi(MPI_Type_create_struct(2, counts, places, pieces, &all));
    check_mpi(MPI_Type_free(&piece));
    check_mpi(MPI_Type_commit(&all));
    type_ = all;
    count_ = 1;
  }

  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace cleave::detail
