// SPDX-License-Identifier: MIT
#pragma once
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/run/rendezvous/network_address.hpp"

/// Non-blocking TCP. All waits have a deadline, and no signals are raised.
namespace cleave::inline v0_2::detail {

/// Thrown if a network call of the system fails. The message has the operation, the address and the reason.
class socket_error : public error {
 public:
  socket_error(std::string const& what, int code) : error(what + ": " + std::strerror(code)) {}
};

/// A non-blocking socket, or none. Closed by the destructor and on exec.
class tcp_socket {
 public:
  tcp_socket() = default;
  explicit tcp_socket(int descriptor) : descriptor_(descriptor) {}
  tcp_socket(tcp_socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  tcp_socket& operator=(tcp_socket&& other) noexcept {
    if (this != &other) close();
    descriptor_ = std::exchange(other.descriptor_, descriptor_);
    return *this;
  }
  ~tcp_socket() { close(); }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close() noexcept {
    if (int const open = std::exchange(descriptor_, -1); open >= 0) ::close(open);
  }
  /// Half-closes the socket; the other end sees the end after it has read everything.
  void end_sending() const noexcept { ::shutdown(descriptor_, SHUT_WR); }

 private:
  int descriptor_ = -1;
};

/// Returns the time left until `until` as a timeout for `poll`: in milliseconds, rounded up, at most a
/// minute.
inline int milliseconds_until(std::chrono::steady_clock::time_point until) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// Waits until `s` is ready for one of `events`, has failed or has ended. Returns false if `until` passes
/// first.
inline bool wait_for_socket(tcp_socket const& s, short events, std::chrono::steady_clock::time_point until) {
  for (;;) {
    pollfd one{s.descriptor(), events, 0};
    int const ready = ::poll(&one, 1, milliseconds_until(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next read or write reports the error
    if (std::chrono::steady_clock::now() >= until) return false;
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The result of one send or receive.
struct moved_bytes {
  std::size_t count = 0;
  bool ended = false;  ///< the connection has ended or failed
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Receives what is available without blocking.
inline moved_bytes receive_some(tcp_socket const& s, std::span<char> to) {
  auto const n = ::recv(s.descriptor(), to.data(), to.size(), 0);
  if (n > 0) return {static_cast<std::size_t>(n)};
  return {0, n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)};
}

/// Sends as much as possible without blocking.
inline moved_bytes send_some(tcp_socket const& s, std::string_view bytes) {
  auto const n = ::send(s.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n >= 0) return {static_cast<std::size_t>(n)};
  return {0, errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR};
}

/// A socket address in the form of the system.
struct system_address {
  sockaddr_storage bytes = {};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&bytes); }

  /// Returns the address as text. An IPv4 address in the form of IPv6, which a listener at `::` sees, has its
  /// usual form.
  network_address plain() const {
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (::getnameinfo(get(), size, host.data(), host.size(), port.data(), port.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return {"unknown", 0};
    std::string_view text(host.data());
    constexpr std::string_view mapped = "::ffff:";
    if (text.starts_with(mapped) && text.find('.') != text.npos) text.remove_prefix(mapped.size());
    return {std::string(text), find_port(port.data()).value_or(0)};
  }
};

/// The result of a look-up: the addresses of a host, or the error code of `getaddrinfo`.
struct host_lookup {
  int code = 0;
  std::vector<system_address> found = {};
};

/// Looks up a host. A name is resolved, which blocks as long as the system takes, unless `flags` contains
/// AI_NUMERICHOST. IP addresses and `localhost` (RFC 6761, 6.3) are not looked up.
inline host_lookup look_up_host(network_address const& a, int flags = 0) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  char const* const host = a.host == "localhost" ? nullptr : a.host.c_str();
  host_lookup made{::getaddrinfo(host, std::to_string(a.port).c_str(), &wanted, &list)};
  if (made.code != 0) return made;
  for (auto const* i = list; i != nullptr; i = i->ai_next) {
    made.found.emplace_back();
    std::memcpy(&made.found.back().bytes, i->ai_addr, i->ai_addrlen);
    made.found.back().size = i->ai_addrlen;
  }
  ::freeaddrinfo(list);
  return made;
}

/// Looks up a host like `look_up_host`. Returns nothing if the system does not answer before `until`; a
/// thread then waits for the answer and ignores it.
inline std::optional<host_lookup> look_up_host_until(network_address const& a,
                                                     std::chrono::steady_clock::time_point until) {
  if (auto number = look_up_host(a, AI_NUMERICHOST); number.code == 0) return number;
  struct answer {
    std::mutex mutex;
    std::condition_variable news;
    std::optional<host_lookup> made = {};
  };
  auto const shared = std::make_shared<answer>();
  std::thread([shared, a] {
    auto made = look_up_host(a);
    std::lock_guard lock(shared->mutex);
    shared->made = std::move(made);
    shared->news.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  shared->news.wait_until(lock, until, [&] { return shared->made.has_value(); });
  return shared->made;
}

/// Formats the failure of a look-up.
inline std::string describe_unknown_host(std::string const& host, int code) {
  return "the host " + host + " is not known: " + ::gai_strerror(code);
}

/// Returns all addresses of a host. A name is resolved, which blocks as long as the system takes.
/// \throws error if the host is not known
inline std::vector<system_address> system_addresses(network_address const& a) {
  auto made = look_up_host(a);
  if (made.code != 0) throw error(describe_unknown_host(a.host, made.code));
  return std::move(made.found);
}

/// Returns the numeric addresses of this host's interfaces that are up, in the order of the system, at most
/// `most`. Addresses that only this host can use (loopback, IPv6 link-local) are left out.
inline std::vector<std::string> interface_addresses(std::size_t most) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  std::vector<std::string> found;
  for (auto const* i = list; i != nullptr && found.size() < most; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    auto const family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    system_address a;
    a.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&a.bytes, i->ifa_addr, a.size);
    auto text = a.plain().host;
    if (text.find('%') != text.npos || text.starts_with("127.") || text == "::1") continue;
    found.push_back(std::move(text));
  }
  ::freeifaddrs(list);
  return found;
}

/// Returns the local address of a connection or listener.
inline network_address local_address(tcp_socket const& s) {
  system_address a;
  ::getsockname(s.descriptor(), a.get(), &a.size);
  return a.plain();
}
/// Returns the remote address of a connection.
inline network_address remote_address(tcp_socket const& s) {
  system_address a;
  ::getpeername(s.descriptor(), a.get(), &a.size);
  return a.plain();
}

inline void set_socket_option(tcp_socket const& s, int level, int name, int value) {
  ::setsockopt(s.descriptor(), level, name, &value, sizeof value);  // a failure only costs speed
}

/// Sends short messages at once, and detects a vanished host after ten seconds.
inline void set_control_options(tcp_socket const& s) {
  set_socket_option(s, IPPROTO_TCP, TCP_NODELAY, 1);
  set_socket_option(s, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_socket_option(s, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_socket_option(s, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_socket_option(s, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_socket_option(s, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A listening TCP socket. Port 0 selects a free port, which `address()` returns. At host `::` it also
/// accepts connections over IPv4.
class tcp_listener {
 public:
  /// \throws error, socket_error
  explicit tcp_listener(network_address const& at = {}) {
    auto const where = "listening at " + name_of(at);
    int code = EADDRNOTAVAIL;
    for (auto const& a : detail::system_addresses(at)) {
      socket_ = detail::tcp_socket(
          ::socket(a.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
      if (socket_.is_open()) detail::set_socket_option(socket_, SOL_SOCKET, SO_REUSEADDR, 1);
      if (socket_.is_open() && at.host == "::")
        detail::set_socket_option(socket_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (socket_.is_open() && ::bind(socket_.descriptor(), a.get(), a.size) == 0 &&
          ::listen(socket_.descriptor(), SOMAXCONN) == 0)
        return;
      code = errno;
    }
    throw detail::socket_error(where, code);
  }

  network_address address() const { return detail::local_address(socket_); }
  detail::tcp_socket const& socket() const { return socket_; }
  /// Returns the next pending connection, or nothing.
  /// \throws socket_error if the process has no descriptors or memory left
  std::optional<detail::tcp_socket> accept() const {
    detail::tcp_socket s(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s.is_open()) {
      for (int const code : {EMFILE, ENFILE, ENOBUFS, ENOMEM})
        if (errno == code)
          throw detail::socket_error("accepting a connection at " + name_of(address()), code);
      return std::nullopt;  // the client has gone away
    }
    detail::set_control_options(s);
    return s;
  }

 private:
  detail::tcp_socket socket_;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a listener at all addresses of this host: over IPv6 and IPv4, or over IPv4 if the host has no
/// IPv6.
/// \throws socket_error
inline tcp_listener listen_everywhere(std::uint16_t port) {
  try {
    return tcp_listener({"::", port});
  } catch (error const&) {
    return tcp_listener({"0.0.0.0", port});
  }
}

/// Connects to the first of the addresses `at` that accepts, trying each once. Returns nothing if none
/// accepts before `until`. The time is divided evenly among the addresses.
/// \throws socket_error if the process cannot make a socket
inline std::optional<tcp_socket> try_connect(std::span<system_address const> at,
                                             std::chrono::steady_clock::time_point until) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    auto const& a = at[i];
    auto const now = std::chrono::steady_clock::now();
    auto const share = (until - now) / static_cast<std::int64_t>(at.size() - i);
    tcp_socket s(::socket(a.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!s.is_open()) throw socket_error("making a socket", errno);
    if (::connect(s.descriptor(), a.get(), a.size) != 0) {
      if (errno != EINPROGRESS && errno != EINTR) continue;
      if (!wait_for_socket(s, POLLOUT, now + share)) continue;
      int code = 0;
      socklen_t size = sizeof code;
      if (::getsockopt(s.descriptor(), SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code != 0) continue;
    }
    // If there is no listener at a port in the ephemeral range, the system may connect the socket to itself.
    if (local_address(s) == remote_address(s)) continue;
    set_control_options(s);
    return s;
  }
  return std::nullopt;
}

}  // namespace cleave::detail
