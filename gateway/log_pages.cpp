#include "gateway/log_pages.hpp"

#include "audit/reader.hpp"
#include "audit/tiles.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace verbatim::gateway {

namespace {

Page failure(const Error& error) {
  if (error.code == Errc::not_found) return {};
  return {503, "the log cannot be read\n"};
}

}  // namespace

class LogPages::Impl {
 public:
  Impl(std::filesystem::path data_dir, bool shared)
      : data_dir_(std::move(data_dir)),
        kept_((shared ? "public" : "private") + std::string(", max-age=31536000, immutable")) {}

  net::awaitable<Page> page(std::string path) {
    const auto read = [this](std::string wanted) -> net::awaitable<Page> {
      co_return look_up(wanted);
    };
    Page found = co_await net::co_spawn(thread_, read(std::move(path)), net::use_awaitable);
    co_return found;
  }

 private:
  // All on thread_.

  Page look_up(const std::string& path) {
    if (!reader_) {
      auto opened = audit::LogReader::open(data_dir_);
      if (!opened) return failure(opened.error());
      reader_ = std::move(*opened);
    }
    if (path == "checkpoint") {
      auto note = reader_->checkpoint();
      if (!note) return failure(note.error());
      return {200, std::move(*note), "text/plain; charset=utf-8", "", "", "no-cache"};
    }
    if (const auto name = audit::parse_tile_path(path)) return hashes(*name);
    if (const auto name = audit::parse_entries_path(path)) return entries(*name);
    return {};
  }

  /// A tile never changes, and stays when its leaves are pruned.
  Page hashes(const audit::TileName& name) {
    auto bytes = reader_->tile(name);
    if (!bytes) return failure(bytes.error());
    return {200, std::move(*bytes), "application/octet-stream", "", "", kept_};
  }

  /// Leaves go when their time is over: nobody is asked to keep them.
  Page entries(const audit::TileName& name) {
    const auto is_in_tree = reader_->tile(name);
    if (!is_in_tree) return failure(is_in_tree.error());
    auto bundle = reader_->entries(name.index, name.width);
    if (!bundle && bundle.error().code == Errc::not_found) {
      return {410, "leaves of this bundle were pruned: their hashes are in the tile\n"};
    }
    if (!bundle) return failure(bundle.error());
    return {200, std::move(*bundle), "application/octet-stream"};
  }

  const std::filesystem::path data_dir_;
  const std::string kept_;
  std::unique_ptr<audit::LogReader> reader_;
  net::thread_pool thread_{1};  // the last: joined before what it uses goes
};

LogPages::LogPages(std::filesystem::path data_dir, bool shared)
    : impl_(std::make_unique<Impl>(std::move(data_dir), shared)) {}
LogPages::~LogPages() = default;

net::awaitable<Page> LogPages::page(std::string path) { return impl_->page(std::move(path)); }

}  // namespace verbatim::gateway
