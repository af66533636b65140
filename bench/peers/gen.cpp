// SPDX-License-Identifier: MIT
// Benchmark-graph generator (own code, no dependencies).  g++ -O2 -std=c++20 gen.cpp -o gen
// gen <kind> <args...> <out>           kinds:
//   grid2d  NX NY            5-point grid
//   mesh2d  NX NY            triangulated grid (grid + one diagonal, alternating)
//   grid3d  NX NY NZ         7-point grid
//   mesh3d  NX NY NZ         27-point stencil
//   rgg2d   N SEED           random geometric, radius 0.55*sqrt(ln n/n), ids in cell order
//   rgg3d   N SEED AVGDEG
//   rmat    SCALE EDGEFACTOR SEED   a,b,c=.57,.19,.19, dedup, no loops, isolated kept, ids scrambled
//   ba      N M SEED         Barabasi-Albert
//   road    N SEED           road-like: random points, k-nn planar-ish skeleton + degree-2 chains
//   sbm     N BLOCKS DIN DOUT SEED    planted partition (known good cut)
//   rhyp    N AVGDEG SEED    random hyperbolic (power law 2.8)
// DAG kinds write .dag text: header "n m", node lines "w mem", edge lines "u v w" (0-based, topologically
// numbered up to a random relabel unless noted) ; option env SHUF=1 shuffles ids.
//   transformer LAYERS HEADS  SEED    per-head operator graph, training=0/1 by env TRAIN=1 (adds mirrored backward)
//   resnet  BLOCKS SEED | inception MODULES SEED | unet DEPTH BLOCKS SEED | moe LAYERS EXPERTS SEED
//   layered N WIDTH DEG SEED          random layered DAG
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
using u32 = uint32_t;
using u64 = uint64_t;
struct Rng {
  u64 s;
  explicit Rng(u64 x) : s(x * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  u64 next() {
    u64 z = (s += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double d() { return (next() >> 11) * 0x1.0p-53; }
  u64 below(u64 n) { return (unsigned __int128)next() * n >> 64; }
  double normal() { return std::sqrt(-2 * std::log(d() + 1e-300)) * std::cos(2 * M_PI * d()); }
};
using E = std::vector<std::pair<u32, u32>>;
static void write_metis(char const* f, u32 n, E& e) {  // undirected, each pair once
  for (auto& p : e)
    if (p.first > p.second) std::swap(p.first, p.second);
  std::sort(e.begin(), e.end());
  e.erase(std::unique(e.begin(), e.end()), e.end());
  e.erase(std::remove_if(e.begin(), e.end(), [](auto& p) { return p.first == p.second; }), e.end());
  std::vector<u32> off(n + 1);
  for (auto& [a, b] : e) {
    off[a + 1]++;
    off[b + 1]++;
  }
  for (u32 i = 0; i < n; i++) off[i + 1] += off[i];
  std::vector<u32> adj(off[n]), p(off.begin(), off.end() - 1);
  for (auto& [a, b] : e) {
    adj[p[a]++] = b;
    adj[p[b]++] = a;
  }
  FILE* o = fopen(f, "w");
  std::vector<char> buf(1 << 22);
  setvbuf(o, buf.data(), _IOFBF, buf.size());
  fprintf(o, "%u %zu\n", n, e.size());
  std::string s;
  for (u32 i = 0; i < n; i++) {
    s.clear();
    for (u32 j = off[i]; j < off[i + 1]; j++) {
      char t[16];
      int l = snprintf(t, 16, j + 1 < off[i + 1] ? "%u " : "%u", adj[j] + 1);
      s.append(t, l);
    }
    s += '\n';
    fwrite(s.data(), 1, s.size(), o);
  }
  fclose(o);
  fprintf(stderr, "%s n=%u m=%zu\n", f, n, e.size());
}
static void scramble(u32 n, E& e, u64 seed) {
  std::vector<u32> q(n);
  std::iota(q.begin(), q.end(), 0);
  Rng r(seed ^ 77);
  for (u32 i = n; i > 1; i--) std::swap(q[i - 1], q[r.below(i)]);
  for (auto& p : e) p = {q[p.first], q[p.second]};
}
struct Dag {
  std::vector<double> w, mem;
  std::vector<std::tuple<u32, u32, double>> e;
  u32 node(double a, double b) {
    w.push_back(a);
    mem.push_back(b);
    return (u32)w.size() - 1;
  }
  void edge(u32 a, u32 b, double c) { e.push_back({a, b, c}); }
};
static void write_dag(char const* f, Dag d, u64 seed) {
  if (getenv("TRAIN") &&
      atoi(getenv("TRAIN"))) {  // mirrored backward pass: b(v) after b(succ v); consumes fwd activation
    u32 n = d.w.size();
    auto fe = d.e;
    for (u32 i = 0; i < n; i++) d.node(2 * d.w[i], 0.5 * d.mem[i]);
    for (auto& [a, b, c] : fe) {
      d.edge(n + b, n + a, c);
    }
    for (u32 i = 0; i < n; i++) d.edge(i, n + i, 0.25 * (1 + d.mem[i] * 0));
  }
  u32 n = d.w.size();
  std::vector<u32> q(n);
  std::iota(q.begin(), q.end(), 0);
  if (getenv("SHUF") && atoi(getenv("SHUF"))) {
    Rng r(seed ^ 99);
    for (u32 i = n; i > 1; i--) std::swap(q[i - 1], q[r.below(i)]);
  }
  std::vector<u32> inv(n);
  for (u32 i = 0; i < n; i++) inv[q[i]] = i;
  FILE* o = fopen(f, "w");
  std::vector<char> buf(1 << 22);
  setvbuf(o, buf.data(), _IOFBF, buf.size());
  fprintf(o, "%u %zu\n", n, d.e.size());
  for (u32 i = 0; i < n; i++) fprintf(o, "%.6g %.6g\n", d.w[inv[i]], d.mem[inv[i]]);
  for (auto& [a, b, c] : d.e) fprintf(o, "%u %u %.6g\n", q[a], q[b], c);
  fclose(o);
  fprintf(stderr, "%s n=%u m=%zu\n", f, n, d.e.size());
}
int main(int c, char** v) {
  if (c < 3) return 1;
  std::string k = v[1];
  char const* out = v[c - 1];
  auto A = [&](int i) { return i < c - 1 ? strtoull(v[i], 0, 10) : 0ull; };
  auto D = [&](int i) { return strtod(v[i], 0); };
  E e;
  u32 n = 0;
  if (k == "grid2d" || k == "mesh2d") {
    u32 X = A(2), Y = A(3);
    n = X * Y;
    for (u32 y = 0; y < Y; y++)
      for (u32 x = 0; x < X; x++) {
        u32 i = y * X + x;
        if (x + 1 < X) e.push_back({i, i + 1});
        if (y + 1 < Y) e.push_back({i, i + X});
        if (k == "mesh2d" && x + 1 < X && y + 1 < Y) {
          if ((x ^ y) & 1)
            e.push_back({i, i + X + 1});
          else
            e.push_back({i + 1, i + X});
        }
      }
    write_metis(out, n, e);
  } else if (k == "grid3d" || k == "mesh3d") {
    int X = A(2), Y = A(3), Z = A(4);
    n = X * Y * Z;
    for (int z = 0; z < Z; z++)
      for (int y = 0; y < Y; y++)
        for (int x = 0; x < X; x++) {
          u32 i = (z * Y + y) * X + x;
          for (int dz = 0; dz < 2; dz++)
            for (int dy = -1; dy < 2; dy++)
              for (int dx = -1; dx < 2; dx++) {
                int q = dz * 9 + dy * 3 + dx;
                if (q <= 0) continue;
                if (k == "grid3d" && abs(dx) + abs(dy) + dz != 1) continue;
                int a = x + dx, b = y + dy, g = z + dz;
                if (a < 0 || b < 0 || a >= X || b >= Y || g >= Z) continue;
                e.push_back({i, u32((g * Y + b) * X + a)});
              }
        }
    write_metis(out, n, e);
  } else if (k == "rgg2d" || k == "rgg3d") {
    n = A(2);
    Rng r(A(3));
    bool d3 = k == "rgg3d";
    double rad = d3 ? std::cbrt(D(4) * 3 / (4 * M_PI * n)) : 0.55 * std::sqrt(std::log((double)n) / n);
    u32 C = std::max(1.0, std::floor(1 / rad));
    struct P {
      double x, y, z;
      u64 cell;
    };
    std::vector<P> p(n);
    for (auto& a : p) {
      a.x = r.d();
      a.y = r.d();
      a.z = d3 ? r.d() : 0;
      a.cell = ((u64)(a.z * C) * C + (u64)(a.y * C)) * C + (u64)(a.x * C);
    }
    std::sort(p.begin(), p.end(), [](auto& a, auto& b) { return a.cell < b.cell; });
    u64 NC = d3 ? (u64)C * C * C : (u64)C * C;
    std::vector<u32> st(NC + 1, 0);
    for (auto& a : p) st[a.cell + 1]++;
    for (u64 i = 0; i < NC; i++) st[i + 1] += st[i];
    for (u32 i = 0; i < n; i++) {
      int cx = p[i].x * C, cy = p[i].y * C, cz = p[i].z * C;
      for (int z = d3 ? cz - 1 : 0; z <= (d3 ? cz + 1 : 0); z++)
        for (int y = cy - 1; y <= cy + 1; y++)
          for (int x = cx - 1; x <= cx + 1; x++) {
            if (x < 0 || y < 0 || z < 0 || x >= (int)C || y >= (int)C || (d3 && z >= (int)C)) continue;
            u64 cl = ((u64)z * C + y) * C + x;
            for (u32 j = st[cl]; j < st[cl + 1]; j++)
              if (j > i) {
                double a = p[i].x - p[j].x, b = p[i].y - p[j].y, g = p[i].z - p[j].z;
                if (a * a + b * b + g * g <= rad * rad) e.push_back({i, j});
              }
          }
    }
    write_metis(out, n, e);
  } else if (k == "rmat") {
    u32 s = A(2);
    n = 1u << s;
    u64 m = A(3) * (u64)n;
    Rng r(A(4));
    e.reserve(m);
    for (u64 i = 0; i < m; i++) {
      u32 a = 0, b = 0;
      for (u32 j = 0; j < s; j++) {
        double x = r.d();
        u32 p = x >= 0.76, q = (x >= 0.57 && x < 0.76) || x >= 0.95;
        a = a << 1 | p;
        b = b << 1 | q;
      }
      if (a != b) e.push_back({a, b});
    }
    scramble(n, e, A(4));
    write_metis(out, n, e);
  } else if (k == "ba") {
    n = A(2);
    u32 m = A(3);
    Rng r(A(4));
    std::vector<u32> t;
    for (u32 i = 0; i < n; i++)
      for (u32 j = 0; j < m && i; j++) {
        u32 x = t.empty() ? 0 : t[r.below(t.size())];
        if (x == i) x = i - 1;
        e.push_back({i, x});
        t.push_back(i);
        t.push_back(x);
      }
    scramble(n, e, A(4));
    write_metis(out, n, e);
  } else if (k == "road") {  // jittered grid of junctions, 62% of grid edges kept + a spanning comb, each
                             // edge subdivided 0..4 times
    u32 tgt = A(2);
    Rng r(A(3));
    u32 X = std::sqrt(tgt / 3.4) + 1;
    n = X * X;
    auto add = [&](u32 a, u32 b) {
      u32 s = r.below(4) == 0 ? r.below(5) : r.below(3);
      u32 p = a;
      for (u32 i = 0; i < s; i++) {
        u32 q = n++;
        e.push_back({p, q});
        p = q;
      }
      e.push_back({p, b});
    };
    for (u32 y = 0; y < X; y++)
      for (u32 x = 0; x < X; x++) {
        u32 i = y * X + x;
        if (x + 1 < X && (r.d() < 0.62 || y % 64 == 0)) add(i, i + 1);
        if (y + 1 < X && r.d() < 0.80) add(i, i + X);
      }
    write_metis(out, n, e);
  } else if (k == "sbm") {
    n = A(2);
    u32 b = A(3);
    double di = D(4), dq = D(5);
    Rng r(A(6));
    u32 bs = n / b;
    n = bs * b;
    u64 mi = n * di / 2, mo = n * dq / 2;
    for (u64 i = 0; i < mi; i++) {
      u32 q = r.below(b);
      e.push_back({q * bs + (u32)r.below(bs), q * bs + (u32)r.below(bs)});
    }
    for (u64 i = 0; i < mo; i++) e.push_back({(u32)r.below(n), (u32)r.below(n)});
    scramble(n, e, A(6));
    write_metis(out, n, e);
  } else if (k == "rhyp") {  // GIRG-like 1-d: weights pareto(2.8), positions on a ring, connect if dist*n <=
                             // wi*wj*c ; layered buckets
    n = A(2);
    double deg = D(3);
    Rng r(A(4));
    std::vector<double> w(n), x(n);
    double W = 0;
    for (u32 i = 0; i < n; i++) {
      w[i] = std::min(std::pow(1 - r.d(), -1 / 1.8), (double)n / 64);
      W += w[i];
      x[i] = r.d();
    }
    std::sort(x.begin(), x.end());
    double mw = W / n;
    double cc = deg / (2 * mw * mw) / 1.0;
    int L = 0;
    std::vector<std::vector<u32>> ly;
    for (u32 i = 0; i < n; i++) {
      int l = std::log2(w[i]);
      if (l >= (int)ly.size()) ly.resize(l + 1);
      ly[l].push_back(i);
    }
    L = ly.size();
    for (u32 i = 0; i < n; i++) {
      int li = std::log2(w[i]);
      for (int l = 0; l <= li && l < L; l++) {
        double wm = std::pow(2.0, l + 1);
        double rd = cc * w[i] * wm / n;
        auto& q = ly[l];
        auto scan = [&](double lo, double hi) {
          auto b = std::lower_bound(q.begin(), q.end(), lo, [&](u32 a, double t) { return x[a] < t; });
          for (; b != q.end() && x[*b] <= hi; ++b) {
            u32 j = *b;
            if (j == i || (l == li && j < i)) continue;
            double d = std::fabs(x[i] - x[j]);
            d = std::min(d, 1 - d);
            if (d * n <= cc * w[i] * w[j]) e.push_back({i, j});
          }
        };
        if (rd >= 0.5)
          scan(0, 1);
        else {
          scan(std::max(0.0, x[i] - rd), std::min(1.0, x[i] + rd));
          if (x[i] - rd < 0) scan(1 + x[i] - rd, 1);
          if (x[i] + rd > 1) scan(0, x[i] + rd - 1);
        }
      }
    }
    write_metis(out, n, e);
  } else {
    Dag d;
    if (k == "transformer") {
      u32 L = A(2), H = A(3);
      Rng r(A(4));
      auto j = [&](double b) { return b * (0.9 + 0.2 * r.d()); };
      u32 x = d.node(j(1), 50);
      u32 mask = d.node(0.1, 0.1);
      auto ln = [&](u32 in) {
        u32 a = d.node(j(.3), 0.01), b = d.node(j(.3), 0.01), s = d.node(j(.1), 0), g = d.node(j(.2), 0.02);
        d.edge(in, a, 1);
        d.edge(in, s, 1);
        d.edge(a, s, .01);
        d.edge(s, b, 1);
        d.edge(b, g, .01);
        d.edge(s, g, 1);
        return g;
      };
      for (u32 l = 0; l < L; l++) {
        u32 h = ln(x);
        u32 cat = 0;
        std::vector<u32> o;
        for (u32 i = 0; i < H; i++) {
          u32 q = d.node(j(12. / H), 4. / H), kk = d.node(j(12. / H), 4. / H),
              vv = d.node(j(12. / H), 4. / H);
          d.edge(h, q, 1);
          d.edge(h, kk, 1);
          d.edge(h, vv, 1);
          u32 t = d.node(j(.2 / H), 0);
          d.edge(kk, t, 1. / H);
          u32 mm = d.node(j(6. / H), 0);
          d.edge(q, mm, 1. / H);
          d.edge(t, mm, 1. / H);
          u32 sc = d.node(j(.4 / H), 0);
          d.edge(mm, sc, 2. / H);
          u32 ad = d.node(j(.4 / H), 0);
          d.edge(sc, ad, 2. / H);
          d.edge(mask, ad, .05);
          u32 sm = d.node(j(.8 / H), 0);
          d.edge(ad, sm, 2. / H);
          u32 av = d.node(j(6. / H), 0);
          d.edge(sm, av, 2. / H);
          d.edge(vv, av, 1. / H);
          o.push_back(av);
        }
        cat = d.node(j(.3), 0);
        for (u32 a : o) d.edge(a, cat, 1. / H);
        u32 pr = d.node(j(12), 4);
        d.edge(cat, pr, 1);
        u32 r1 = d.node(j(.2), 0);
        d.edge(pr, r1, 1);
        d.edge(x, r1, 1);
        u32 h2 = ln(r1);
        u32 f1 = d.node(j(48), 16), g = d.node(j(1), 0), f2 = d.node(j(48), 16);
        d.edge(h2, f1, 1);
        d.edge(f1, g, 4);
        d.edge(g, f2, 4);
        u32 r2 = d.node(j(.2), 0);
        d.edge(f2, r2, 1);
        d.edge(r1, r2, 1);
        x = r2;
      }
      u32 o = d.node(j(60), 50);
      d.edge(ln(x), o, 1);
    } else if (k == "moe") {
      u32 L = A(2), X = A(3);
      Rng r(A(4));
      auto j = [&](double b) { return b * (0.8 + 0.4 * r.d()); };
      u32 x = d.node(1, 50);
      for (u32 l = 0; l < L; l++) {
        u32 at = d.node(j(30), 8);
        d.edge(x, at, 1);
        u32 rs = d.node(.2, 0);
        d.edge(at, rs, 1);
        d.edge(x, rs, 1);
        u32 gate = d.node(j(1), .1);
        d.edge(rs, gate, 1);
        u32 cmb = 0;
        std::vector<u32> os;
        for (u32 i = 0; i < X; i++) {
          u32 a = d.node(j(40. / X * 2), 8), b = d.node(j(1. / X), 0), g = d.node(j(40. / X * 2), 8);
          d.edge(gate, a, 2. / X);
          d.edge(a, b, 4. / X);
          d.edge(b, g, 4. / X);
          os.push_back(g);
        }
        cmb = d.node(.5, 0);
        for (u32 a : os) d.edge(a, cmb, 2. / X);
        d.edge(rs, cmb, 1);
        x = cmb;
      }
    } else if (k == "resnet") {
      u32 B = A(2);
      Rng r(A(3));
      auto j = [&](double b) { return b * (0.9 + 0.2 * r.d()); };
      u32 x = d.node(j(5), .1);
      double act = 4, mem = .1;
      for (u32 b = 0; b < B; b++) {
        bool down = b % (std::max(1u, B / 4)) == 0 && b;
        if (down) {
          act /= 2;
          mem *= 4;
        }
        u32 p = x;
        for (int i = 0; i < 3; i++) {
          u32 cv = d.node(j(i == 1 ? 9 : 4), mem * (i == 1 ? 9 : 4) / 4), bn = d.node(j(.5), .001);
          d.edge(p, cv, act);
          d.edge(cv, bn, act);
          p = bn;
          if (i < 2) {
            u32 re = d.node(j(.2), 0);
            d.edge(p, re, act);
            p = re;
          }
        }
        u32 sk = x;
        if (down || b == 0) {
          u32 cv = d.node(j(4), mem), bn = d.node(j(.5), .001);
          d.edge(x, cv, act * 2);
          d.edge(cv, bn, act);
          sk = bn;
        }
        u32 ad = d.node(j(.2), 0);
        d.edge(p, ad, act);
        d.edge(sk, ad, act);
        u32 re = d.node(j(.2), 0);
        d.edge(ad, re, act);
        x = re;
      }
    } else if (k == "inception") {
      u32 M = A(2);
      Rng r(A(3));
      auto j = [&](double b) { return b * (0.8 + 0.4 * r.d()); };
      u32 x = d.node(j(5), .1);
      for (u32 m = 0; m < M; m++) {
        std::vector<u32> outs;
        int br = 4 + (int)r.below(3);
        for (int b = 0; b < br; b++) {
          int len = 1 + (int)r.below(4);
          u32 p = x;
          double ac = .5 + r.d();
          for (int i = 0; i < len; i++) {
            u32 cv = d.node(j(3 + r.d() * 6), .05 + .3 * r.d()), bn = d.node(j(.3), 0.001),
                re = d.node(j(.1), 0);
            d.edge(p, cv, i ? ac : 4);
            d.edge(cv, bn, ac);
            d.edge(bn, re, ac);
            p = re;
          }
          outs.push_back(p);
        }
        u32 ct = d.node(j(.3), 0);
        for (u32 o : outs) d.edge(o, ct, .8);
        x = ct;
      }
    } else if (k == "unet") {
      u32 Dp = A(2), B = A(3);
      Rng r(A(4));
      auto j = [&](double b) { return b * (0.9 + 0.2 * r.d()); };
      u32 x = d.node(j(2), .1);
      u32 temb = d.node(j(1), .5);
      double act = 8, mem = .1;
      auto blk = [&](u32 in) {
        u32 a = d.node(j(.4), 0.001), s = d.node(j(.2), 0), cv = d.node(j(9), mem);
        d.edge(in, a, act);
        d.edge(a, s, act);
        d.edge(s, cv, act);
        u32 tp = d.node(j(.1), .05);
        d.edge(temb, tp, .05);
        u32 ad = d.node(j(.2), 0);
        d.edge(cv, ad, act);
        d.edge(tp, ad, .05);
        u32 c2 = d.node(j(9), mem);
        d.edge(ad, c2, act);
        u32 rs = d.node(j(.2), 0);
        d.edge(c2, rs, act);
        d.edge(in, rs, act);
        return rs;
      };
      std::vector<std::pair<u32, double>> sk;
      for (u32 l = 0; l < Dp; l++) {
        for (u32 b = 0; b < B; b++) {
          x = blk(x);
          sk.push_back({x, act});
        }
        u32 dn = d.node(j(3), mem);
        d.edge(x, dn, act);
        x = dn;
        act /= 2;
        mem *= 2.5;
      }
      for (u32 b = 0; b < B; b++) x = blk(x);
      for (u32 l = 0; l < Dp; l++) {
        act *= 2;
        mem /= 2.5;
        u32 up = d.node(j(3), mem);
        d.edge(x, up, act);
        x = up;
        for (u32 b = 0; b < B; b++) {
          auto [s, ac] = sk.back();
          sk.pop_back();
          u32 ct = d.node(j(.2), 0);
          d.edge(x, ct, act);
          d.edge(s, ct, ac);
          x = blk(ct);
        }
      }
    } else if (k == "layered") {
      u32 N = A(2), W = A(3), G = A(4);
      Rng r(A(5));
      for (u32 i = 0; i < N; i++) {
        d.node(std::exp(r.normal()), r.d());
        u32 l = i / W;
        if (l)
          for (u32 g = 0; g < G; g++) {
            u32 back = r.d() < 0.9 ? 1 : 1 + r.below(std::min(l, 8u));
            if (back > l) back = l;
            u32 pos = i % W;
            long q = (long)pos + (long)(r.normal() * 4);
            if (r.d() < 0.05) q = r.below(W);
            q = ((q % (long)W) + W) % W;
            d.edge((l - back) * W + q, i, .1 + r.d());
          }
      }
    } else
      return 2;
    write_dag(out, d, A(c - 2));
  }
}
