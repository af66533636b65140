// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "support/cuda/fake_streams.hpp"

namespace cleave::testing::fake {

struct graph_node {
  work what;
  std::vector<std::size_t> after;  // earlier nodes
  std::size_t branch = 0;          // the captured stream that it was issued to
};

/// Memory allocated by nodes of a graph. It lives as long as the graph and its executables. Memory that the
/// graph does not free lives from its first launch until it is freed.
struct graph_memory {
  std::vector<allocation*> taken;
  std::vector<allocation const*> given_back;
  bool is_there = false;  // launched
};

struct graph {
  std::vector<graph_node> nodes;
  std::vector<int> devices;  // of the branches
  std::shared_ptr<graph_memory> memory = std::make_shared<graph_memory>();
  std::vector<std::shared_ptr<communicator>> communicators;  // whose messages are nodes
  bool is_destroyed = false;
};

/// A stream capture: work issued to its streams becomes nodes of a graph.
struct capture {
  std::shared_ptr<graph> into;
  stream* origin = nullptr;
  std::vector<stream*> members;  // by branch
  host_thread* by = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool is_invalid = false, has_ended = false;
};

struct graph_exec {
  std::shared_ptr<graph> what;
  std::vector<std::shared_ptr<stream>> branches;  // its own streams
  bool frees_on_launch = false;                   // memory that an earlier launch has not freed
  bool is_destroyed = false;
};

/// Adds a node after the front of `s`, which is being captured.
cudaError_t record(stream& s, work w);
/// Frees the graph's memory, unless another graph shares it.
void let_go_of_memory(runtime& r, graph& g);
/// Returns the error of a call that cannot be captured, if a capture forbids it.
cudaError_t forbid_capture(runtime& r, host_thread& t);

}  // namespace cleave::testing::fake
