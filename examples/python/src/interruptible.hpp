// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace binding {

/// Returns `compute()`, and lets Python handle signals meanwhile. For functions that have no observer.
///
/// If a signal handler raises, as that of Ctrl-C does, the exception is thrown at once. The computation
/// cannot be stopped: it goes on in its thread. What it reads is `kept`, which is never released then.
/// \pre the global lock of Python is held; `compute` is a copyable function that touches no Python object.
template <class F>
auto interruptible(F compute, nanobind::object kept) -> decltype(compute()) {
  using result = decltype(compute());
  nanobind::module_ const threads = nanobind::module_::import_("threading");
  if (!threads.attr("current_thread")().is(threads.attr("main_thread")())) {  // others get no signals
    nanobind::gil_scoped_release const unlocked;
    return compute();
  }
  std::packaged_task<result()> task(std::move(compute));
  auto found = task.get_future();
  std::thread worker(std::move(task));
  for (;;) {
    auto const state = [&] {
      nanobind::gil_scoped_release const unlocked;
      return found.wait_for(std::chrono::milliseconds(20));
    }();
    if (state == std::future_status::ready) break;
    if (PyErr_CheckSignals() != 0) {
      kept.release();
      worker.detach();
      throw nanobind::python_error();
    }
  }
  worker.join();
  return found.get();
}

}  // namespace binding
