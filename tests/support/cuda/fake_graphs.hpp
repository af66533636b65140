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

/// What a graph takes by nodes of its own: there as long as the graph, or what was made from it, is; and what
/// it does not give back, from its first launch on until somebody frees it.
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

/// What is issued to the streams that belong to it, as if it were issued now.
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
  std::vector<std::shared_ptr<stream>> branches;  // streams of its own
  bool frees_on_launch = false;                   // what an earlier launch has taken and not given back
  bool is_destroyed = false;
};

/// Adds a node behind the front of `s`, which is captured.
cudaError_t record(stream& s, work w);
/// Frees what the graph takes, unless another one shares it.
void let_go_of_memory(runtime& r, graph& g);
/// What a call that no graph can hold gets, where a capture forbids it.
cudaError_t forbid_capture(runtime& r, host_thread& t);

}  // namespace cleave::testing::fake
