// Canonical answers in memory: what is kept, what is forgotten, and that an erasure reaches them.

#include "gateway/answer_memory.hpp"

#include "audit/database.hpp"
#include "gateway/recorder.hpp"
#include "schema/clock.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace verbatim::test {
namespace {

using gateway::AnswerMemory;
using gateway::CanonicalAnswer;

std::shared_ptr<const CanonicalAnswer> answer(const std::string& body,
                                              std::int64_t expires_us = 0) {
  CanonicalAnswer made;
  made.stored.body = body;
  made.expires_us = expires_us;
  return std::make_shared<const CanonicalAnswer>(std::move(made));
}

Digest key(int number) { return sha256(std::to_string(number)); }

TEST(AnswerMemory, KeepsWhatWasAskedForLast) {
  AnswerMemory memory(100'000);  // room for ten answers of some ten thousand bytes
  for (int i = 0; i < 10; ++i) {
    memory.keep(key(i), answer(std::string(1000, 'x')));
    EXPECT_NE(memory.find(key(0), 0), nullptr) << i;
  }
  memory.keep(key(10), answer(std::string(1000, 'x')));
  EXPECT_LE(memory.bytes(), 100'000u);
  EXPECT_EQ(memory.find(key(1), 0), nullptr);
  EXPECT_NE(memory.find(key(0), 0), nullptr);
  EXPECT_NE(memory.find(key(10), 0), nullptr);
}

TEST(AnswerMemory, KeepsNothingThatWouldPushOutMuch) {
  AnswerMemory memory(100'000);
  memory.keep(key(1), answer(std::string(12'500, 'x')));
  EXPECT_EQ(memory.find(key(1), 0), nullptr);
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST(AnswerMemory, ReplacesAndForgets) {
  AnswerMemory memory(100'000);
  memory.keep(key(1), answer("old"));
  memory.keep(key(1), answer("newer"));
  EXPECT_EQ(memory.find(key(1), 0)->stored.body, "newer");
  memory.forget_all();
  EXPECT_EQ(memory.find(key(1), 0), nullptr);
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST(AnswerMemory, ForgetsWhatHasExpired) {
  AnswerMemory memory(100'000);
  memory.keep(key(1), answer("short-lived", 50));
  EXPECT_NE(memory.find(key(1), 49), nullptr);
  EXPECT_EQ(memory.find(key(1), 50), nullptr);
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST(AnswerMemory, AnErasureInTheLogReachesIt) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("verbatim-answers-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const SystemClock clock;
  {
    audit::LogOptions options;
    options.data_dir = folder;
    options.listen = false;
    const auto log = audit::Log::open(options, clock).value();
    gateway::LogRecorder recorder(*log, clock, 1 << 20);
    const Digest question = log->cache_key("default", as_bytes("a question")).value();
    EXPECT_EQ(recorder.canonical_answer(question), nullptr);

    audit::LeafDraft request;
    request.type = "request";
    const auto asked = log->append_and_wait(std::move(request)).value();
    audit::LeafDraft response;
    response.type = "response";
    response.id = asked.id;
    response.fields = {{"request", asked.index}};
    response.contents = {{"response.headers", "[]"}, {"response.body", "the answer"}};
    response.canonical = audit::CanonicalOutput{question, 0};
    const auto answered = log->append_and_wait(std::move(response)).value();
    const auto hit = recorder.canonical_answer(question);
    ASSERT_NE(hit, nullptr);
    EXPECT_EQ(hit->stored.body, "the answer");
    EXPECT_EQ(hit->origin, asked.id);

    // The contents go, as an erasure takes them; memory is the only place left that has them.
    auto db = audit::Database::open(folder / "log.db", audit::Database::Mode::write).value();
    ASSERT_TRUE(db.execute("UPDATE content SET dek = NULL, sealed = NULL WHERE id / 16 = " +
                           std::to_string(answered.index)));
    EXPECT_EQ(recorder.canonical_answer(question), hit);
    audit::LeafDraft erasure;
    erasure.type = "erasure";
    ASSERT_TRUE(log->append_and_wait(std::move(erasure)));
    EXPECT_EQ(recorder.canonical_answer(question), nullptr);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbatim::test
