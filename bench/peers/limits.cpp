// SPDX-License-Identifier: MIT
// Measures the limits of the machine: g++ -O3 -march=native -std=c++20 limits.cpp -o limits && ./limits GRAPH
// K Bandwidth of one thread, and the cost of the CSR passes that every multilevel partitioner needs. Thread
// CPU seconds, best of 7; ns are per arc (an edge has two).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

static double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

template <class F>
static double best(F&& f, int repeats = 7) {
  double least = 1e9;
  for (int i = 0; i < repeats; ++i) {
    double begin = cpu_now();
    f();
    least = std::min(least, cpu_now() - begin);
  }
  return least;
}

static std::int64_t volatile sink;

struct csr {
  std::vector<std::uint32_t> first, head;
  std::uint32_t nodes() const { return std::uint32_t(first.size() - 1); }
};

static csr read_unweighted_metis(char const* path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  char* p = text.data();
  std::uint32_t n = std::strtoul(p, &p, 10);
  std::size_t m = std::strtoull(p, &p, 10);
  while (*p != '\n') ++p;
  ++p;
  csr g{{0}, {}};
  g.head.reserve(2 * m);
  for (std::uint32_t u = 0; u < n; ++u) {
    while (*p && *p != '\n') {
      if (*p == ' ') {
        ++p;
        continue;
      }
      g.head.push_back(std::strtoul(p, &p, 10) - 1);
    }
    if (*p) ++p;
    g.first.push_back(std::uint32_t(g.head.size()));
  }
  return g;
}

static void bandwidth() {
  std::size_t const size = 1 << 26;  // 256 MB an array: beyond every cache
  std::vector<float> a(size, 1), b(size, 2), c(size, 3);
  double read = best(
      [&] {
        sink = std::int64_t(std::accumulate(reinterpret_cast<std::uint32_t*>(a.data()),
                                            reinterpret_cast<std::uint32_t*>(a.data()) + size,
                                            std::uint64_t{0}));
      },
      5);
  double triad = best(
      [&] {
        for (std::size_t i = 0; i < size; ++i) a[i] = b[i] + 3 * c[i];
        sink = std::int64_t(a[7]);
      },
      5);
  std::vector<std::uint32_t> next(1 << 24),
      order(next.size());  // 64 MB, one cycle: a load waits for the last
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (std::size_t i = 0; i < order.size(); ++i) next[order[i]] = order[(i + 1) % order.size()];
  double chase = best(
      [&] {
        std::uint32_t x = 0;
        for (int i = 0; i < 2'000'000; ++i) x = next[x];
        sink = x;
      },
      3);
  std::printf("read %.1f GB/s, triad %.1f GB/s (12 bytes an element), dependent load in 64 MB %.0f ns\n",
              size * 4e-9 / read, size * 12e-9 / triad, chase / 2e6 * 1e9);
}

template <class Block>
static double cut_pass(csr const& g, std::uint32_t k) {
  std::vector<Block> part(g.nodes());
  std::mt19937 random(1);
  for (auto& b : part) b = Block(random() % k);
  return best([&] {
    std::int64_t cut = 0;
    for (std::uint32_t u = 0; u < g.nodes(); ++u)
      for (auto e = g.first[u]; e < g.first[u + 1]; ++e) cut += part[g.head[e]] != part[u];
    sink = cut;
  });
}

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("limits GRAPH K"), 1;
  bandwidth();
  csr g = read_unweighted_metis(argv[1]);
  std::uint32_t n = g.nodes(), k = std::uint32_t(std::atoi(argv[2]));
  double arcs = double(g.head.size());
  auto report = [&](char const* what, double seconds) {
    std::printf("  %-42s %8.2f ms  %6.2f ns/arc\n", what, seconds * 1e3, seconds / arcs * 1e9);
  };
  std::printf("%s: %u nodes, %.0f edges, CSR %.0f MB\n", argv[1], n, arcs / 2, (arcs + n) * 4e-6);

  report("stream the adjacency",
         best([&] { sink = std::int64_t(std::accumulate(g.head.begin(), g.head.end(), std::uint64_t{0})); }));
  report("cut pass, 4-byte blocks (EDGE PASS)", cut_pass<std::uint32_t>(g, k));
  report("cut pass, 1-byte blocks", cut_pass<std::uint8_t>(g, k));

  std::vector<std::uint32_t> part(n), count(k);
  std::mt19937 random(1);
  for (auto& b : part) b = random() % k;
  report("label propagation round into k blocks", best([&] {
           std::int64_t sum = 0;
           for (std::uint32_t u = 0; u < n; ++u) {
             for (auto e = g.first[u]; e < g.first[u + 1]; ++e) ++count[part[g.head[e]]];
             auto most = part[u];
             for (auto e = g.first[u]; e < g.first[u + 1]; ++e)
               if (auto b = part[g.head[e]]; count[b] > count[most]) most = b;
             for (auto e = g.first[u]; e < g.first[u + 1]; ++e) count[part[g.head[e]]] = 0;
             sum += most;
           }
           sink = sum;
         }));

  auto const none = ~std::uint32_t{0};
  std::vector<std::uint32_t> mate(n);
  report("first-fit matching", best([&] {
           std::fill(mate.begin(), mate.end(), none);
           for (std::uint32_t u = 0; u < n; ++u) {
             if (mate[u] != none) continue;
             mate[u] = u;
             for (auto e = g.first[u]; e < g.first[u + 1]; ++e)
               if (auto v = g.head[e]; mate[v] == none) {
                 mate[u] = v;
                 mate[v] = u;
                 break;
               }
           }
         }));

  std::uint32_t coarse = 0;
  report("contraction along it", best(
                                     [&] {
                                       coarse = 0;
                                       std::vector<std::uint32_t> id(n);
                                       for (std::uint32_t u = 0; u < n; ++u)
                                         if (mate[u] >= u) id[u] = id[mate[u]] = coarse++;
                                       std::vector<std::uint32_t> first{0}, head, weight, at(coarse, none);
                                       head.reserve(g.head.size()), weight.reserve(g.head.size());
                                       for (std::uint32_t u = 0; u < n; ++u) {
                                         if (mate[u] < u) continue;
                                         auto begin = std::uint32_t(head.size());
                                         auto merge = [&](std::uint32_t x) {
                                           for (auto e = g.first[x]; e < g.first[x + 1]; ++e) {
                                             auto c = id[g.head[e]];
                                             if (c == id[u]) continue;
                                             if (at[c] != none && at[c] >= begin) {
                                               ++weight[at[c]];
                                               continue;
                                             }
                                             at[c] = std::uint32_t(head.size());
                                             head.push_back(c), weight.push_back(1);
                                           }
                                         };
                                         merge(u);
                                         if (mate[u] != u) merge(mate[u]);
                                         first.push_back(std::uint32_t(head.size()));
                                       }
                                       sink = std::int64_t(head.size());
                                     },
                                     3));
  std::printf("  %-42s %8u nodes\n", "coarse graph", coarse);
}
