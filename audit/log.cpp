#include "audit/log.hpp"

#include "audit/append_socket.hpp"
#include "audit/backup_mark.hpp"
#include "audit/eraser.hpp"
#include "audit/erasure.hpp"
#include "audit/folder_lock.hpp"
#include "audit/json_member.hpp"
#include "audit/key_rotator.hpp"
#include "audit/pruner.hpp"
#include "audit/retention.hpp"
#include "audit/subject.hpp"
#include "audit/writer.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::size_t kBatchDraftsMax = 256;
constexpr std::size_t kBatchBytesMax = 4u << 20;
// The WAL is copied into the database when it has grown by this much, or by less when nobody waits: a copy
// stalls the writer for as long as the disk takes.
constexpr std::uint64_t kCopyWalBusy = 16u << 20;
constexpr std::uint64_t kCopyWalIdle = 2u << 20;

constexpr int kEmptyWalAttempts = 50;
constexpr std::chrono::milliseconds kEmptyWalPause{500};
constexpr int kEmptyWalWaitMs = 100;  // the writer's thread waits: short

std::string made_up_origin() {
  std::array<std::uint8_t, 8> random;
  fill_random(random);
  return "verbatim-log/" + to_hex(random);
}

Error stopped_error() {
  return Error{Errc::storage_failed, "the log has stopped", "",
               "restart: it is reconciled when it is opened"};
}

/// What is decided is finished by whoever opens the log next, however it was interrupted.
Error unfinished_pruning(std::uint64_t leaf, const Error& cause) {
  return Error{cause.code,
               "the pruning is decided, as leaf " + std::to_string(leaf) +
                   " says, and not finished: " + cause.what,
               cause.where, "mend the cause; it goes on when the log is opened next"};
}

/// A hold or a kept record may come while a subject is erased. What went stays gone.
Error stopped_partway(const ErasureReport& report, const Error& cause) {
  return Error{cause.code,
               cause.what + "; before that, " + std::to_string(report.contents) +
                   " contents were erased, as leaves " + std::to_string(report.leaves.front()) +
                   " to " + std::to_string(report.leaves.back()) + " say: the rest is still there",
               cause.where, cause.advice};
}

}  // namespace

class Log::Impl {
 public:
  Impl(const LogOptions& options, const Clock& clock)
      : options_(options), clock_(clock), ids_(clock) {}
  ~Impl();

  Result<void> open();
  void append(LeafDraft draft, AppendDone done);
  Result<Appended> append_and_wait(LeafDraft draft);
  Result<ErasureReport> erase(const EraseRequest& request);
  std::string vkey();
  void listen_for(Log& log);
  void stop_listening() { socket_.reset(); }

  LogOptions options_;
  const Clock& clock_;
  std::string origin_;
  std::unique_ptr<Keys> keys_;
  std::atomic<bool> healthy_{true};
  std::atomic<std::uint64_t> erasures_{0};

  std::optional<Uuid> canonical_output(const Digest& key);
  Stats stats();

 private:
  Result<std::unique_ptr<FileSigner>> open_signer(bool create);
  Result<void> append_first_leaves(bool created, const std::vector<OpenRequest>& open);
  void run();
  Result<Appended> complete_and_append(LeafDraft draft);
  Result<Appended> prune(const LeafDraft& draft);
  bool empty_wal();
  Result<void> on_writer(const std::function<Result<void>()>& work);
  Result<void> erase_on_writer(const std::function<Result<void>(Eraser&)>& work);
  Result<void> erase_subject(const EraseRequest& request, ErasureReport& report);
  Result<bool> erased_already(const std::string& subject);
  Result<void> check_subject_kept(Queries& queries, std::int64_t kek, const EraseRequest& request);
  [[nodiscard]] std::uint64_t queue_end() const { return taken_ + queue_.size(); }
  bool prepare_next(std::unique_lock<std::mutex>& lock, std::uint64_t end, Packer& packer);
  void prepare_ahead();
  std::vector<QueuedDraft> take_batch(std::unique_lock<std::mutex>& lock);
  void write(std::vector<QueuedDraft> batch);
  void copy_wal(bool idle);

  UuidGenerator ids_;
  FolderLock lock_;                      // first in, last out
  std::unique_ptr<BatchWriter> writer_;  // owned by the thread while it runs

  std::mutex read_mutex_;  // one use of the reading connection at a time
  std::unique_ptr<Database> read_db_;
  std::unique_ptr<Queries> read_queries_;

  std::mutex mutex_;  // guards all below, down to the threads
  std::string vkey_;
  std::condition_variable wake_;
  std::deque<QueuedDraft> queue_;
  std::size_t queue_bytes_ = 0;
  std::vector<std::pair<AppendDone, Error>> refused_;  // to be told on the writer's thread
  std::deque<std::function<void()>> work_;             // to be done there, between two batches
  bool closing_ = false;
  Stats stats_;

  // Most of a leaf's work (compressing, hashing, canonical JSON) needs no place in the log: a second thread prepares what
  // queues up while the writer is busy, and half of what the writer takes. Drafts are counted from the log's opening.
  std::condition_variable work_ahead_;
  std::condition_variable prepared_ahead_;
  std::uint64_t taken_ = 0;               // by the writer: the queue's first is next
  std::uint64_t next_ = 0;                // the next to prepare
  std::optional<std::uint64_t> in_hand_;  // what the second thread prepares
  Packer packer_;                         // the writer's

  std::uint64_t wal_copied_at_ = 0;  // the WAL's size when it was last copied
  bool wal_to_empty_ = false;        // what was erased may be in it
  std::unique_ptr<AppendSocket> socket_;
  std::thread thread_;
  std::thread ahead_thread_;
};

Result<void> Log::Impl::open() {
  const auto& folder = options_.data_dir;
  std::error_code error;
  const bool there = std::filesystem::exists(folder / "log.db", error);
  if (!there && !options_.create) {
    return Error{Errc::not_found, "there is no log", folder.string(), "start the gateway once"};
  }
  const bool made = std::filesystem::create_directories(folder, error);
  if (made) std::filesystem::permissions(folder, std::filesystem::perms(0700), error);
  if (error) {
    return Error{Errc::storage_failed, "cannot make the log's folder: " + error.message(),
                 folder.string(), ""};
  }

  // 1. Nobody else writes.
  auto lock = FolderLock::take(folder);
  if (!lock) return lock.error();
  lock_ = std::move(*lock);

  // 2. Keys first: a log never refers to a key that is not durable.
  const auto mark = read_high_water(folder);
  if (!mark) return mark.error();
  // A crash may have come between the first file and the first leaf: then the log is made as if anew.
  const bool fresh = mark->present ? mark->claimed_size() == 0 && !mark->damaged : !there;
  // keys.db is made after the high-water mark: they are of a log that was here, whose key would sign a second tree.
  if (!there && !mark->present && std::filesystem::exists(folder / "keys.db", error)) {
    return Error{Errc::tampered,
                 "log.db and the high-water mark are gone, but the keys of a log are here",
                 folder.string(), "restore the log, or begin one in an empty folder"};
  }
  auto signer = open_signer(fresh);
  if (!signer) {
    // Of a start that failed for its key no folder stays that looks like a log.
    if (made) lock_.give_up(folder);
    return signer.error();
  }
  if (!there && !fresh) {
    return Error{Errc::tampered,
                 "log.db is gone, but the high-water mark says that the log had " +
                     std::to_string((*signer)->last().size) + " leaves",
                 folder.string(), "restore the log, or begin one in an empty folder"};
  }
  origin_ = (*signer)->key().name;
  auto keys = Keys::open(folder, fresh ? Keys::Mode::create : Keys::Mode::write);
  if (!keys) return keys.error();
  keys_ = std::move(*keys);
  if (auto secret = keys_->secret("subject"); !secret) return secret.error();

  // 3. The log must go on from what was signed.
  auto store = Store::open(folder / "log.db", options_.mode, fresh);
  if (!store && store.error().code == Errc::not_found) {
    return Error{Errc::tampered, "log.db is empty, but the log once had leaves", folder.string(),
                 "restore the log, or begin one in an empty folder"};
  }
  if (!store) return store.error();
  const auto leaves = (*store)->queries().leaf_count();
  if (!leaves) return leaves.error();
  const auto chain = *leaves > 0 ? read_key_chain((*store)->queries(), *leaves)
                                 : Result<KeyChain>(KeyChain((*signer)->key()));
  auto state = chain ? recover((*store)->queries(), *chain, (*signer)->last(), keys_->id())
                     : Result<Recovered>(chain.error());
  if (!state) {
    Error refused = state.error();
    if (refused.where.empty()) refused.where = folder.string();
    return refused;
  }
  // A crash may have come between a leaf about a key and the key's own file.
  if (auto kept = (*signer)->keep(chain->signing()); !kept) return kept;
  vkey_ = (*signer)->key().str();
  const std::vector<OpenRequest> open = state->open;
  const bool created = state->tree.size() == 0;
  writer_ = std::make_unique<BatchWriter>(std::move(*store), std::move(*signer), *keys_,
                                          std::move(*state));
  if (auto done = Eraser(*writer_, *keys_, ids_, clock_).finish_interrupted(); !done) return done;
  if (auto done = Pruner(*writer_).finish_interrupted(); !done) return done;
  stats_.leaves = writer_->size();
  // What it holds may have been erased before a crash.
  wal_to_empty_ = !writer_->store().truncate_wal();

  // 4. From here on everything goes the usual way.
  thread_ = std::thread([this] { run(); });
  ahead_thread_ = std::thread([this] { prepare_ahead(); });
  ::pthread_setname_np(thread_.native_handle(), "log-writer");
  ::pthread_setname_np(ahead_thread_.native_handle(), "log-preparer");
  if (auto first = append_first_leaves(created, open); !first) return first;
  auto read_db = Database::open(folder / "log.db", Database::Mode::read);
  if (!read_db) return read_db.error();
  read_db_ = std::make_unique<Database>(std::move(*read_db));
  read_queries_ = std::make_unique<Queries>(*read_db_);
  return {};
}

Result<std::unique_ptr<FileSigner>> Log::Impl::open_signer(bool create) {
  if (!create) {
    std::error_code ignored;
    if (!std::filesystem::exists(options_.data_dir / "log.key", ignored)) {
      return Error{Errc::not_found,
                   "this folder holds a log without its key: nothing can be appended, and what is "
                   "read of contents must be",
                   (options_.data_dir / "log.key").string(),
                   "use the log's own folder, or a copy made by backup --keys"};
    }
    return FileSigner::open(options_.data_dir);
  }
  const std::string origin = options_.origin.empty() ? made_up_origin() : options_.origin;
  if (!is_key_name(origin) || origin.size() > 255) {
    return Error{Errc::invalid_input,
                 "a log's origin has 1 to 255 bytes, no white space and no '+'", origin, ""};
  }
  return FileSigner::create(options_.data_dir, origin, options_.key);
}

Result<void> Log::Impl::append_first_leaves(bool created, const std::vector<OpenRequest>& open) {
  if (created) {
    LeafDraft leaf;
    leaf.type = "log_created";
    leaf.fields = {{"origin", origin_},
                   {"vkey", vkey()},
                   {"verbatim", VERBATIM_VERSION},
                   {"keys_id", keys_->id()}};
    if (auto done = append_and_wait(std::move(leaf)); !done) return done.error();
  }
  // The leaf first: a crash before the mark is gone makes a second one, which does no harm.
  if (const auto restored = restored_fields(options_.data_dir)) {
    LeafDraft leaf;
    leaf.type = "restored";
    leaf.fields = *restored;
    if (auto done = append_and_wait(std::move(leaf)); !done) return done.error();
    if (options_.warn) options_.warn(restored_text(*restored));
    if (auto gone = remove_backup_mark(options_.data_dir); !gone) return gone;
  }
  for (const OpenRequest& request : open) {
    LeafDraft leaf;
    leaf.type = "response";
    leaf.id = request.id;
    leaf.fields = {
        {"request", request.index},
        {"status", "interrupted"},
        {"error",
         {{"kind", "interrupted"}, {"message", "the process ended before the exchange did"}}}};
    if (auto done = append_and_wait(std::move(leaf)); !done) return done.error();
  }
  LeafDraft leaf;
  leaf.type = "start";
  leaf.fields = {{"pid", ::getpid()}, {"verbatim", VERBATIM_VERSION}, {"recovered", open.size()}};
  if (auto done = append_and_wait(std::move(leaf)); !done) return done.error();
  return {};
}

Log::Impl::~Impl() {
  if (!thread_.joinable()) return;
  LeafDraft leaf;
  leaf.type = "stop";
  leaf.fields = {{"pid", ::getpid()}, {"verbatim", VERBATIM_VERSION}};
  append(std::move(leaf), [](const Result<Appended>&) {});
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
  work_ahead_.notify_one();
  ahead_thread_.join();
  read_queries_.reset();
  read_db_.reset();
  if (!writer_->stopped()) writer_->store().truncate_wal();
}

void Log::Impl::append(LeafDraft draft, AppendDone done) {
  QueuedDraft item;
  item.time_us = clock_.now_us();
  item.id = draft.id ? *draft.id : ids_.next();
  for (const Content& content : draft.contents) item.bytes += content.bytes.size();
  item.erases = draft.type == "erasure";
  item.draft = std::move(draft);
  item.done = std::move(done);
  bool ahead = false;
  {
    const std::lock_guard lock(mutex_);
    const bool full = queue_.size() >= options_.queue_drafts_max ||
                      queue_bytes_ + item.bytes > options_.queue_bytes_max;
    // A single draft larger than the limit passes when it is alone: it can never be shorter.
    if (full && !queue_.empty()) {
      refused_.emplace_back(std::move(item.done),
                            Error{Errc::unavailable, "the log's queue is full", "",
                                  "try again; the disk is slower than the requests"});
    } else {
      queue_bytes_ += item.bytes;
      queue_.push_back(std::move(item));
      // One that waits alone is as well prepared by the writer itself.
      ahead = queue_end() > next_ + 1;
    }
  }
  wake_.notify_one();
  if (ahead) work_ahead_.notify_one();
}

Result<Appended> Log::Impl::append_and_wait(LeafDraft draft) {
  VERBATIM_CHECK(std::this_thread::get_id() != thread_.get_id());
  if (changes_key(draft)) return complete_and_append(std::move(draft));
  if (prunes(draft)) return prune(draft);
  std::promise<Result<Appended>> promise;
  auto future = promise.get_future();
  append(std::move(draft),
         [&promise](Result<Appended> result) { promise.set_value(std::move(result)); });
  return future.get();
}

/// The writer's thread: takes what is there, writes it, tells; never waits for more.
void Log::Impl::run() {
  for (;;) {
    std::vector<std::pair<AppendDone, Error>> refused;
    std::vector<QueuedDraft> batch;
    std::deque<std::function<void()>> work;
    bool idle = false;
    {
      std::unique_lock lock(mutex_);
      idle = queue_.empty() && refused_.empty() && work_.empty();
      if (!idle || closing_) {
        refused.swap(refused_);
        work.swap(work_);
        batch = take_batch(lock);
        if (batch.empty() && refused.empty() && work.empty() && closing_) return;
      }
    }
    if (idle) {
      copy_wal(true);
      std::unique_lock lock(mutex_);
      const auto woken = [this] {
        return !queue_.empty() || !refused_.empty() || !work_.empty() || closing_;
      };
      if (wal_to_empty_) {
        wake_.wait_for(lock, kEmptyWalPause, woken);
      } else {
        wake_.wait(lock, woken);
      }
      continue;
    }
    for (auto& [done, error] : refused) done(std::move(error));
    if (!batch.empty()) write(std::move(batch));
    for (const auto& piece : work) piece();
  }
}

/// Has work done on the writer's thread, and waits for it.
Result<void> Log::Impl::on_writer(const std::function<Result<void>()>& work) {
  VERBATIM_CHECK(std::this_thread::get_id() != thread_.get_id());
  std::promise<Result<void>> promise;
  auto future = promise.get_future();
  {
    const std::lock_guard lock(mutex_);
    work_.emplace_back([&] {
      if (writer_->stopped()) return promise.set_value(stopped_error());
      Result<void> done = work();
      if (writer_->stopped()) healthy_ = false;
      {
        const std::lock_guard counters(mutex_);
        stats_.leaves = writer_->size();
        vkey_ = writer_->signer().key().str();
      }
      promise.set_value(std::move(done));
    });
  }
  wake_.notify_one();
  return future.get();
}

Result<void> Log::Impl::erase_on_writer(const std::function<Result<void>(Eraser&)>& work) {
  return on_writer([&] {
    Eraser eraser(*writer_, *keys_, ids_, clock_);
    Result<void> done = work(eraser);
    ++erasures_;  // perhaps once too often: somebody reads again what he could have kept
    return done;
  });
}

/// A leaf of which only the log itself knows all: what goes with it is done on the writer's thread.
Result<Appended> Log::Impl::complete_and_append(LeafDraft draft) {
  Result<Appended> appended = stopped_error();
  const auto done = on_writer([&]() -> Result<void> {
    appended = change_key(*writer_, std::move(draft), ids_.next(), clock_.now_us());
    return {};
  });
  if (!done) return done.error();
  return appended;
}

std::string Log::Impl::vkey() {
  const std::lock_guard lock(mutex_);
  return vkey_;
}

Result<ErasureReport> Log::Impl::erase(const EraseRequest& request) {
  if (auto given = check_reason(request.reason, request.actor); !given) return given.error();
  ErasureReport report;
  Result<void> done;
  if (request.scope.record) {
    done = erase_on_writer([&](Eraser& eraser) { return eraser.erase_record(request, report); });
  } else if (!request.scope.subject.empty()) {
    done = erase_subject(request, report);
  } else {
    done = Error{Errc::invalid_input, "an erasure is of a record or of a subject", "", ""};
  }
  if (!done && report.leaves.empty()) return done.error();
  report.wal_emptied = empty_wal();
  if (!done) return stopped_partway(report, done.error());
  return report;
}

/// What was there before is in the WAL until that is emptied, and readers may be in the way for a moment.
bool Log::Impl::empty_wal() {
  bool emptied = false;
  for (int attempt = 0; attempt < kEmptyWalAttempts && !emptied; ++attempt) {
    const auto done = on_writer([&]() -> Result<void> {
      emptied = writer_->store().truncate_wal(kEmptyWalWaitMs);
      wal_to_empty_ = !emptied;
      wal_copied_at_ = 0;
      return {};
    });
    if (!done) return false;
  }
  return emptied;
}

/// Planned beside the writer, decided by one leaf, and then done piece by piece, so that exchanges go on meanwhile.
Result<Appended> Log::Impl::prune(const LeafDraft& draft) {
  const std::string reason = text_at(draft.fields, "reason");
  if (auto given = check_reason(reason, text_at(draft.fields, "actor")); !given) {
    return given.error();
  }
  const auto before = parse_rfc3339(text_at(draft.fields, "before"));
  if (!before) return before.error();
  const auto plan = plan_prune(options_.data_dir, *before, clock_.now_us());
  if (!plan) return plan.error();
  if (plan->minimum_index <= plan->before.minimum_index) {
    return Error{Errc::invalid_input, "nothing can be pruned yet: " + plan->stopped_by,
                 options_.data_dir.string(), "only whole tiles of 256 leaves go"};
  }
  Result<Appended> appended = stopped_error();
  std::optional<Pruner> pruner;
  auto done = on_writer([&]() -> Result<void> {
    pruner.emplace(*writer_);
    appended = pruner->begin(*plan, draft, ids_.next(), clock_.now_us());
    return {};
  });
  if (!done) return done.error();
  if (!appended) return appended;
  for (bool more = true; more;) {
    done = on_writer([&]() -> Result<void> {
      const auto step = pruner->step();
      more = step && *step;
      copy_wal(false);
      ++erasures_;  // who keeps contents in memory forgets them
      return step ? Result<void>() : Result<void>(step.error());
    });
    if (!done) return unfinished_pruning(appended->index, done.error());
  }
  if (!empty_wal()) {
    return Error{Errc::unavailable,
                 "it is pruned, but a reader kept the write-ahead log from being emptied",
                 options_.data_dir.string(), "it is emptied as soon as nobody reads the log"};
  }
  return appended;
}

Result<void> Log::Impl::check_subject_kept(Queries& queries, std::int64_t kek,
                                           const EraseRequest& request) {
  const auto leave = retention_override(queries, request.scope);
  if (!leave) return leave.error();
  // What comes meanwhile is checked when it goes: this must not run after it.
  const auto size = queries.leaf_count();
  if (!size) return size.error();
  for (std::uint64_t from = 0;;) {
    const auto found = contents_under_key(queries, kek, from);
    if (!found) return found.error();
    if (found->ids.empty() || found->ids.front() >= *size * kContentsMax) return {};
    std::optional<std::uint64_t> last;
    for (const std::uint64_t id : found->ids) {
      if (last == id / kContentsMax) continue;
      last = id / kContentsMax;
      auto free = check_retention(queries, *last, clock_.now_us(), *leave);
      if (!free) return free;
    }
    if (!found->more) return {};
    from = found->ids.back() + 1;
  }
}

/// Whether an earlier erasure destroyed the subject's key.
Result<bool> Log::Impl::erased_already(const std::string& subject) {
  bool found = false;
  const auto read = on_writer([&] {
    return writer_->store().queries().governance(0, [&](std::uint64_t, std::string_view bytes) {
      const auto json = parse_json(bytes);
      if (!json || !json->is_object() || !json->contains("key")) return true;
      const auto scope = read_scope(json->value("scope", Json()));
      found = scope && scope->subject == subject;
      return !found;
    });
  });
  if (!read) return read.error();
  return found;
}

/// Piece by piece, so that exchanges go on meanwhile; the key goes with the last piece.
Result<void> Log::Impl::erase_subject(const EraseRequest& request, ErasureReport& report) {
  const auto kek = keys_->live_key(request.scope.subject);
  if (!kek) return kek.error();
  if (!*kek) {
    // Once more: nothing of the subject's is left but perhaps in the WAL, which is emptied next.
    const auto before = erased_already(request.scope.subject);
    if (!before) return before.error();
    if (*before) return {};
    return Error{Errc::not_found, "nothing is recorded under this subject's handle",
                 request.scope.subject, "request leaves name handles: verbatim log show ID"};
  }
  auto reading = Database::open(options_.data_dir / "log.db", Database::Mode::read);
  if (!reading) return reading.error();
  Queries queries(*reading);
  // All of it may go, or none: otherwise a part would be gone before the first that may not.
  if (auto free = check_subject_kept(queries, **kek, request); !free) return free;
  std::uint64_t from = 0;
  for (bool destroyed = false; !destroyed;) {
    const auto piece = contents_under_key(queries, **kek, from);
    if (!piece) return piece.error();
    const auto done = erase_on_writer([&](Eraser& eraser) -> Result<void> {
      if (!piece->ids.empty()) {
        if (auto erased = eraser.erase_some(request, piece->ids, report); !erased) return erased;
        from = piece->ids.back() + 1;
      }
      // The last piece, when it was read: what has come since goes in the same turn, or a busy subject would always be
      // one piece ahead.
      if (piece->more) return {};
      const auto all = eraser.destroy_key(request, **kek, from, report);
      if (!all) return all.error();
      destroyed = *all;
      return {};
    });
    if (!done) return done;
  }
  return {};
}

/// Drafts are prepared in the order of the queue, each by whichever thread comes to it first, and stay in it until the
/// writer takes them: a deque's elements stay where they are while others come and go at its ends.
bool Log::Impl::prepare_next(std::unique_lock<std::mutex>& lock, std::uint64_t end,
                             Packer& packer) {
  if (next_ >= end) return false;
  QueuedDraft& item = queue_[next_ - taken_];
  ++next_;
  lock.unlock();
  item.prepare(packer);
  lock.lock();
  return true;
}

/// The first of the queue, prepared. The second thread, if it is awake, has its share of that.
std::vector<QueuedDraft> Log::Impl::take_batch(std::unique_lock<std::mutex>& lock) {
  std::size_t count = 0;
  for (std::size_t bytes = 0; count < std::min(queue_.size(), kBatchDraftsMax); ++count) {
    bytes += queue_[count].bytes;
    if (count > 0 && bytes > kBatchBytesMax) break;
  }
  const std::uint64_t end = taken_ + count;
  while (prepare_next(lock, end, packer_)) {
  }
  prepared_ahead_.wait(lock, [&] { return !in_hand_ || *in_hand_ >= end; });

  std::vector<QueuedDraft> batch;
  batch.reserve(count);
  for (; count > 0; --count, ++taken_) {
    queue_bytes_ -= queue_.front().bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

/// The second thread.
void Log::Impl::prepare_ahead() {
  Packer packer;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ahead_.wait(lock, [this] { return next_ < queue_end() || closing_; });
    in_hand_ = next_;
    const bool prepared = prepare_next(lock, queue_end(), packer);
    in_hand_.reset();
    if (!prepared) return;  // closing, and nothing left
    prepared_ahead_.notify_one();
  }
}

void Log::Impl::write(std::vector<QueuedDraft> batch) {
  if (writer_->stopped()) {
    for (QueuedDraft& item : batch) item.done(stopped_error());
    return;
  }
  const std::int64_t begun_us = clock_.steady_us();
  std::vector<Result<Appended>> results = writer_->write(batch, clock_.now_us());
  const std::int64_t took_us = clock_.steady_us() - begun_us;
  bool failed = writer_->stopped();
  bool appended = false;
  for (const auto& result : results) {
    if (result) appended = true;
    if (!result && result.error().code != Errc::invalid_input) failed = true;
  }
  if (failed || appended) healthy_ = !failed;
  {
    const std::lock_guard lock(mutex_);
    if (appended) ++stats_.commits;
    stats_.leaves = writer_->size();
    stats_.last_commit_us = took_us;
    stats_.wal_bytes = writer_->store().wal_bytes();
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (results[i] && batch[i].erases) ++erasures_;
    batch[i].done(std::move(results[i]));
  }
  copy_wal(false);
}

void Log::Impl::copy_wal(bool idle) {
  if (writer_->stopped()) return;
  if (wal_to_empty_) {
    // Somebody read all the while, when it had to be emptied: tried until nobody does.
    wal_to_empty_ = !writer_->store().truncate_wal();
    if (!wal_to_empty_) wal_copied_at_ = 0;
  }
  const std::uint64_t bytes = writer_->store().wal_bytes();
  // The WAL began anew since: SQLite reuses it from the start once all of it was copied.
  if (bytes < wal_copied_at_) wal_copied_at_ = 0;
  if (bytes < wal_copied_at_ + (idle ? kCopyWalIdle : kCopyWalBusy)) return;
  wal_copied_at_ = bytes;
  if (!writer_->store().checkpoint_wal()) {
    writer_->stop();
    healthy_ = false;
  }
}

void Log::Impl::listen_for(Log& log) {
  // A socket that cannot be made is no reason to refuse service: other commands then wait for the lock.
  auto socket = AppendSocket::listen(options_.data_dir, log);
  if (socket) socket_ = std::move(*socket);
}

std::optional<Uuid> Log::Impl::canonical_output(const Digest& key) {
  const std::lock_guard lock(read_mutex_);
  const auto leaf = read_queries_->canonical_output(key, clock_.now_us());
  if (!leaf || !*leaf) return std::nullopt;
  const auto bytes = read_queries_->leaf(**leaf);
  if (!bytes) return std::nullopt;
  const auto json = parse_json(*bytes);
  if (!json) return std::nullopt;
  // The table only points: the leaf itself must say that it answers this key.
  const auto head = read_leaf_head(*json);
  if (!head || !head->canonical || head->canonical->key != key) return std::nullopt;
  return head->id;
}

Log::Stats Log::Impl::stats() {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.queue_drafts = queue_.size();
  stats.queue_bytes = queue_bytes_;
  stats.healthy = healthy_;
  return stats;
}

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
// Whoever appends through the socket uses this object: they go before it does.
Log::~Log() { impl_->stop_listening(); }

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options, const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, clock);
  if (auto opened = impl->open(); !opened) return opened.error();
  std::unique_ptr<Log> log(new Log(std::move(impl)));
  if (options.listen) log->impl_->listen_for(*log);
  return log;
}

void Log::append(LeafDraft draft, AppendDone done) {
  impl_->append(std::move(draft), std::move(done));
}

Result<Appended> Log::append_and_wait(LeafDraft draft) {
  return impl_->append_and_wait(std::move(draft));
}

Result<ErasureReport> Log::erase(const EraseRequest& request) { return impl_->erase(request); }

bool Log::healthy() const { return impl_->healthy_; }
std::string Log::origin() const { return impl_->origin_; }
std::string Log::vkey() const { return impl_->vkey(); }
std::filesystem::path Log::data_dir() const { return impl_->options_.data_dir; }

Result<Digest> Log::cache_key(std::string_view tenant, Bytes preimage) {
  const auto secret = impl_->keys_->secret("cache/" + std::string(tenant));
  if (!secret) return secret.error();
  return hmac_sha256(*secret, {as_bytes("verbatim/cache/v1"), preimage});
}

std::string Log::subject_handle(std::string_view credential) {
  // Made and durable when the log was opened.
  auto handle = audit::subject_handle(*impl_->keys_, credential);
  VERBATIM_CHECK(handle.has_value());
  return std::move(*handle);
}

std::optional<Uuid> Log::canonical_output(const Digest& key) const {
  return impl_->canonical_output(key);
}

std::uint64_t Log::erasures() const { return impl_->erasures_; }

Log::Stats Log::stats() const { return impl_->stats(); }

}  // namespace verbatim::audit
