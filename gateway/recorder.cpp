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

std::shared_ptr<const CanonicalAnswer> LogRecorder::canonical_answer(const Digest& key) {
  // Read before the answer is: an erasure in between makes the next look forget it.
  if (const std::uint64_t erasures = log_.erasures(); erasures != erasures_) {
    memory_.forget_all();
    erasures_ = erasures;
  }
  if (auto kept = memory_.find(key, clock_.now_us())) return kept;
  const auto origin = log_.canonical_output(key);
  if (!origin) return nullptr;
  auto read = read_answer(*origin);
  if (!read) return nullptr;  // erased, or not readable: it is asked again
  auto answer = std::make_shared<const CanonicalAnswer>(std::move(*read));
  memory_.keep(key, answer);
  return answer;
}

audit::Log::Stats LogRecorder::stats() const { return log_.stats(); }

Result<CanonicalAnswer> LogRecorder::read_answer(const Uuid& record) {
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
  CanonicalAnswer answer{
      record, {std::move((*leaves)[0].json), std::move((*leaves)[1].json), {}, {}}, 0};
  const std::uint64_t index = (*leaves)[1].index;
  auto headers = reader_->content(index, "response.headers");
  if (!headers) return headers.error();
  auto body = reader_->content(index, "response.body");
  if (!body) return body.error();
  answer.stored.headers = std::move(headers->bytes);
  answer.stored.body = std::move(body->bytes);
  const auto canonical = answer.stored.response.find("canonical");
  if (canonical != answer.stored.response.end()) {
    answer.expires_us = canonical->value("expires_us", std::int64_t{0});
  }
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
