#include "gateway/recorder.hpp"

namespace verbatim::gateway {

void LogRecorder::append(audit::LeafDraft draft, audit::AppendDone done) {
  log_.append(std::move(draft), std::move(done));
}

bool LogRecorder::healthy() const { return log_.healthy(); }

Result<Digest> LogRecorder::cache_key(std::string_view tenant, Bytes preimage) {
  return log_.cache_key(tenant, preimage);
}

std::string LogRecorder::subject_handle(std::string_view credential) {
  return log_.subject_handle(credential);
}

std::optional<Uuid> LogRecorder::canonical_output(const Digest& key) const {
  return log_.canonical_output(key);
}

audit::Log::Stats LogRecorder::stats() const { return log_.stats(); }

Result<StoredAnswer> LogRecorder::answer_of(const Uuid& record) {
  if (!reader_) {
    auto reader = audit::LogReader::open(log_.data_dir());
    if (!reader) return reader.error();
    reader_ = std::move(*reader);
  }
  auto leaves = reader_->leaves_of(record);
  if (!leaves) return leaves.error();
  if (leaves->size() < 2) {
    return Error{Errc::not_found, "record " + record.str() + " has no response", "", ""};
  }
  StoredAnswer answer{std::move((*leaves)[0].json), std::move((*leaves)[1].json), {}, {}};
  const std::uint64_t index = (*leaves)[1].index;
  auto headers = reader_->content(index, "response.headers");
  if (!headers) return headers.error();
  auto body = reader_->content(index, "response.body");
  if (!body) return body.error();
  answer.headers = std::move(headers->bytes);
  answer.body = std::move(body->bytes);
  return answer;
}

PendingAppend::PendingAppend(Recorder& recorder, std::shared_ptr<Mailbox> mailbox,
                             audit::LeafDraft draft)
    : state_(std::make_shared<State>()) {
  recorder.append(std::move(draft),
                  [state = state_, mailbox = std::move(mailbox)](Result<audit::Appended> result) {
                    mailbox->post([state, result = std::move(result)]() mutable {
                      state->result.emplace(std::move(result));
                      state->signal.wake();
                    });
                  });
}

net::awaitable<Result<audit::Appended>> PendingAppend::wait() {
  const auto state = state_;
  if (!state->result) co_await state->signal.wait();
  co_return std::move(*state->result);
}

net::awaitable<Result<audit::Appended>> append(Recorder& recorder, std::shared_ptr<Mailbox> mailbox,
                                               audit::LeafDraft draft) {
  PendingAppend pending(recorder, std::move(mailbox), std::move(draft));
  auto result = co_await pending.wait();
  co_return result;
}

}  // namespace verbatim::gateway
