#include "audit/append_socket.hpp"

#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace verbatim::audit {

namespace {

/// A socket's address has room for 107 bytes: a longer folder is named through its open descriptor.
struct Address {
  sockaddr_un name{};
  Descriptor folder;

  explicit Address(const std::filesystem::path& path)
      : folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    name.sun_family = AF_UNIX;
    const std::string text = "/proc/self/fd/" + std::to_string(folder.get()) + "/append.sock";
    std::memcpy(name.sun_path, text.c_str(), text.size() + 1);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool receive_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_message(int fd, std::string_view text) {
  std::string message;
  for (int shift = 24; shift >= 0; shift -= 8) {
    message.push_back(static_cast<char>(text.size() >> shift));
  }
  return send_all(fd, message.append(text));
}

std::optional<std::string> receive_message(int fd) {
  std::array<std::uint8_t, 4> head;
  if (!receive_all(fd, reinterpret_cast<char*>(head.data()), head.size())) return std::nullopt;
  const std::size_t size =
      std::size_t{head[0]} << 24 | std::size_t{head[1]} << 16 | std::size_t{head[2]} << 8 | head[3];
  if (size > kSocketMessageMax) return std::nullopt;
  std::string text(size, '\0');
  if (!receive_all(fd, text.data(), size)) return std::nullopt;
  return text;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

/// The client's end: one message at a time.
class RemoteAppender final : public Appender {
 public:
  explicit RemoteAppender(int fd) : fd_(fd) {}

  Result<Appended> append_and_wait(LeafDraft draft) override {
    const auto answer = ask(encode_draft(draft));
    if (!answer) return answer.error();
    return decode_result(*answer);
  }

  Result<ErasureReport> erase(const EraseRequest& request) override {
    const auto answer = ask(encode_erase(request));
    if (!answer) return answer.error();
    return decode_erased(*answer);
  }

 private:
  Result<std::string> ask(const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (message.size() > kSocketMessageMax) {
      return Error{Errc::invalid_input, "the leaf's contents are larger than append.sock takes",
                   "append.sock", ""};
    }
    if (!send_message(fd_.get(), message)) {
      return Error{Errc::unavailable, "the process that holds the log hung up", "append.sock",
                   "try again"};
    }
    auto answer = receive_message(fd_.get());
    if (!answer) {
      return Error{Errc::in_doubt, "the process that holds the log hung up before it answered",
                   "append.sock", "look whether the leaf is there"};
    }
    return std::move(*answer);
  }

  std::mutex mutex_;  // one message in flight
  Descriptor fd_;
};

}  // namespace

struct AppendSocket::Client {
  int fd = -1;
  std::atomic<bool> done{false};
  std::thread thread;
  ~Client() {
    if (thread.joinable()) thread.join();
    ::close(fd);
  }
};

Result<std::unique_ptr<AppendSocket>> AppendSocket::listen(const std::filesystem::path& folder,
                                                           Appender& appender) {
  const auto path = folder / "append.sock";
  const Address address(folder);
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(path.c_str());
  // The mode of the file is set before anybody can connect: listen() comes after.
  if (fd.get() < 0 || ::bind(fd.get(), address.get(), sizeof address.name) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(fd.get(), 16) != 0) {
    return Error{Errc::storage_failed, "cannot listen: " + errno_text(), path.string(), ""};
  }
  return std::unique_ptr<AppendSocket>(new AppendSocket(path, appender, fd.release()));
}

AppendSocket::AppendSocket(std::filesystem::path path, Appender& appender, int fd)
    : path_(std::move(path)), appender_(appender), fd_(fd) {
  VERBATIM_CHECK(::pipe2(wake_, O_CLOEXEC) == 0);
  thread_ = std::thread([this] { accept_clients(); });
}

AppendSocket::~AppendSocket() {
  ::unlink(path_.c_str());
  VERBATIM_CHECK(::write(wake_[1], "x", 1) == 1);
  thread_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& client : clients_) ::shutdown(client->fd, SHUT_RD);
  }
  clients_.clear();  // joins each
  for (const int fd : {fd_, wake_[0], wake_[1]}) ::close(fd);
}

void AppendSocket::accept_clients() {
  for (;;) {
    pollfd ready[] = {{fd_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if ((ready[0].revents & POLLIN) == 0) continue;
    Descriptor fd(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.get() < 0 || !same_user(fd.get())) continue;
    const std::lock_guard lock(mutex_);
    std::erase_if(clients_, [](const auto& client) { return client->done.load(); });
    if (clients_.size() >= kSocketClientsMax) continue;
    auto& client = *clients_.emplace_back(std::make_unique<Client>());
    client.fd = fd.release();
    client.thread = std::thread([this, &client] {
      serve(client.fd);
      ::shutdown(client.fd, SHUT_RDWR);  // the peer sees the end now, not when this is swept up
      client.done = true;
    });
  }
}

void AppendSocket::serve(int fd) {
  for (;;) {
    const auto message = receive_message(fd);
    if (!message) return;
    if (!send_message(fd, answer(*message))) return;
  }
}

std::string AppendSocket::answer(const std::string& message) {
  const auto erase = decode_erase(message);
  if (erase) return encode_erased(appender_.erase(*erase));
  if (erase.error().code != Errc::not_found) return encode_erased(erase.error());
  auto draft = decode_draft(message);
  return encode_result(draft ? appender_.append_and_wait(std::move(*draft))
                             : Result<Appended>(draft.error()));
}

Result<std::unique_ptr<Appender>> connect_appender(const std::filesystem::path& folder) {
  const Address address(folder);
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0 || ::connect(fd.get(), address.get(), sizeof address.name) != 0) {
    return Error{Errc::unavailable, "the process that holds the log does not listen",
                 (folder / "append.sock").string(), "try again, or stop it"};
  }
  return std::unique_ptr<Appender>(std::make_unique<RemoteAppender>(fd.release()));
}

}  // namespace verbatim::audit
