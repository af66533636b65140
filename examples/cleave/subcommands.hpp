// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>

namespace tool {

/// The subcommands, each in the file of its name. They return the exit code, 0 (done) or 1 (infeasible), and
/// throw all other errors.
int place(std::span<std::string const> words);
int recompute(std::span<std::string const> words);
int inspect(std::span<std::string const> words);
int split(std::span<std::string const> words);
int demo(std::span<std::string const> words);
int schedule(std::span<std::string const> words);
int verify(std::span<std::string const> words);
int simulate(std::span<std::string const> words);
int instances(std::span<std::string const> words);
int partition(std::span<std::string const> words);
int order(std::span<std::string const> words);
int bench(std::span<std::string const> words);
int report(std::span<std::string const> words);
int doctor(std::span<std::string const> words);
int train(std::span<std::string const> words);  ///< `cleave demo train`

}  // namespace tool
