#include "audit/log.hpp"

#include "audit/note.hpp"
#include "audit/proof.hpp"
#include "tests/audit/fixture.hpp"

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

namespace verbatim::audit::test {
namespace {

TEST_F(LogTest, WhatIsAppendedIsRead) {
  open();
  const Appended asked = log->append_and_wait(request("{\"n\":1}")).value();
  EXPECT_EQ(asked.index, 2u);  // after log_created and start
  EXPECT_EQ(asked.tree_size, 3u);
  EXPECT_EQ(asked.time_us, kNow);
  (void)log->append_and_wait(response(asked, "yes")).value();
  const auto r = reader();
  EXPECT_EQ(r->origin(), "log.example/test");
  EXPECT_EQ(r->vkey(), log->vkey());
  EXPECT_EQ(r->size().value(), 4u);
  const auto leaves = r->leaves_of(asked.id).value();
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0].json.at("type"), "request");
  EXPECT_EQ(leaves[0].json.at("time"), "2026-11-29T13:59:56.000000Z");
  EXPECT_EQ(leaves[1].json.at("request"), 2);
  EXPECT_EQ(canonical(leaves[0].json), leaves[0].bytes);
  EXPECT_EQ(r->content(2, "request.body").value().bytes, "{\"n\":1}");
  EXPECT_EQ(r->content(3, "response.body").value().bytes, "yes");
  EXPECT_EQ(r->content(3, "request.body").error().code, Errc::not_found);
  EXPECT_EQ(r->leaf(4).error().code, Errc::not_found);
  EXPECT_EQ(r->leaves_of(Uuid{}).error().code, Errc::not_found);
}

TEST_F(LogTest, ContentsOfAnySizeComeBackAsTheyWere) {
  open();
  for (const std::size_t size : {0u, 1u, 127u, 128u, 4096u, 100'000u, 3'000'000u}) {
    std::string random(size, '\0');
    fill_random({reinterpret_cast<std::uint8_t*>(random.data()), random.size()});
    for (const std::string& body : {random, std::string(size, 'x')}) {
      const auto at = log->append_and_wait(request(body)).value();
      EXPECT_EQ(reader()->content(at.index, "request.body").value().bytes, body);
    }
  }
}

TEST_F(LogTest, ReceiptsVerifyWithTheKeyAlone) {
  open();
  for (int i = 0; i < 40; ++i) exchange(std::to_string(i));
  const auto r = reader();
  const auto key = parse_vkey(log->vkey()).value();
  for (std::uint64_t i = 0; i < r->size().value(); ++i) {
    const auto proof = parse_tlog_proof(r->receipt(i).value()).value();
    const auto leaf = r->leaf(i).value();
    EXPECT_EQ(verify_tlog_proof(proof, as_bytes(leaf.bytes), key)->size, 82u);
    EXPECT_FALSE(verify_tlog_proof(proof, as_bytes(leaf.bytes + " "), key));
  }
}

TEST_F(LogTest, ListShowsExchangesNewestFirstAndFiltered) {
  open();
  for (int i = 0; i < 5; ++i) exchange(std::to_string(i), i % 2 == 0 ? "even" : "odd");
  (void)log->append_and_wait(request("open")).value();
  const auto r = reader();
  RecordFilter all;
  ASSERT_EQ(r->list(all)->size(), 6u);
  EXPECT_EQ(r->list(all)->front().response_index, 3u);
  EXPECT_EQ(r->list(all)->front().route, "openai.chat");
  EXPECT_EQ(r->list(all)->back().status, "open");
  EXPECT_FALSE(r->list(all)->back().response_index);
  RecordFilter odd;
  odd.model = "odd";
  odd.newest_first = true;
  odd.limit = 1;
  ASSERT_EQ(r->list(odd)->size(), 1u);
  EXPECT_EQ(r->list(odd)->front().index, 8u);
  RecordFilter since;
  since.since_us = kNow + 2000;
  since.until_us = kNow + 6000;
  EXPECT_EQ(r->list(since)->size(), 2u);
  RecordFilter open_only;
  open_only.status = "open";
  EXPECT_EQ(r->list(open_only)->size(), 1u);
  RecordFilter leaves;
  leaves.type.clear();
  EXPECT_EQ(r->list(leaves)->size(), r->size().value());
}

TEST_F(LogTest, ManyThreadsShareCommits) {
  open();
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<std::uint64_t> indices;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        std::promise<void> told;
        log->append(request(std::to_string(t * kEach + i)), [&](const Result<Appended>& done) {
          {
            const std::lock_guard lock(mutex);
            indices.push_back(done->index);
          }
          told.set_value();
        });
        told.get_future().wait();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::sort(indices.begin(), indices.end());
  ASSERT_EQ(indices.size(), 800u);
  for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(indices[i], i + 2);
  EXPECT_EQ(log->stats().leaves, 802u);
  EXPECT_LT(log->stats().commits, 802u);
  EXPECT_TRUE(log->healthy());
}

TEST_F(LogTest, AFullQueueRefusesOnTheWritersThreadAndGoesOn) {
  LogOptions small = options();
  small.queue_drafts_max = 4;
  log = Log::open(small, clock).value();
  std::promise<void> blocked;
  std::promise<void> release;
  log->append(request("first"), [&](const Result<Appended>&) {
    blocked.set_value();
    release.get_future().wait();
  });
  blocked.get_future().wait();
  std::atomic<int> appended{0};
  std::atomic<int> refused{0};
  for (int i = 0; i < 10; ++i) {
    log->append(request("next"), [&](const Result<Appended>& done) {
      if (done) ++appended;
      if (!done && done.error().code == Errc::unavailable) ++refused;
    });
  }
  EXPECT_EQ(log->stats().queue_drafts, 4u);
  release.set_value();
  close();
  EXPECT_EQ(appended, 4);
  EXPECT_EQ(refused, 6);
}

TEST_F(LogTest, RefusesWhatIsNoLeafAndAppendsTheRestOfTheBatch) {
  open();
  const auto refused = [&](LeafDraft draft) {
    return log->append_and_wait(std::move(draft)).error().code == Errc::invalid_input;
  };
  LeafDraft floats = request("x");
  floats.fields["params"] = {{"temperature", 0.5}};
  EXPECT_TRUE(refused(floats));
  LeafDraft big = request("x");
  big.fields["client"] = std::string(66'000, 'x');
  EXPECT_TRUE(refused(big));
  LeafDraft own = request("x");
  own.fields["time"] = "now";
  EXPECT_TRUE(refused(own));
  LeafDraft field = request("x");
  field.contents[0].field = "../../etc/passwd";
  EXPECT_TRUE(refused(field));
  LeafDraft twice = request("x");
  twice.contents.push_back(twice.contents[0]);
  EXPECT_TRUE(refused(twice));
  LeafDraft bytes = request("x");
  bytes.fields["client"] = "\xff";
  EXPECT_TRUE(refused(bytes));
  EXPECT_TRUE(log->healthy());
  EXPECT_EQ(log->append_and_wait(request("x"))->index, 2u);

  LeafDraft largest = request("x");
  largest.fields["client"] = "";
  const auto at = log->append_and_wait(largest).value();
  const std::size_t room = 65'535 - reader()->leaf(at.index)->bytes.size();
  largest.fields["client"] = std::string(room, 'x');
  EXPECT_EQ(reader()->leaf(log->append_and_wait(largest)->index)->bytes.size(), 65'535u);
  largest.fields["client"] = std::string(room + 1, 'x');
  EXPECT_TRUE(refused(largest));
}

TEST_F(LogTest, AResponseAnswersOneOpenRequestOfItsRecordOnce) {
  open();
  const Appended asked = log->append_and_wait(request("q")).value();
  LeafDraft answer = response(asked, "a");
  LeafDraft stranger = answer;
  stranger.id.reset();
  EXPECT_EQ(log->append_and_wait(stranger).error().code, Errc::invalid_input);
  LeafDraft elsewhere = answer;
  elsewhere.fields["request"] = 0;
  EXPECT_EQ(log->append_and_wait(elsewhere).error().code, Errc::invalid_input);
  EXPECT_TRUE(log->append_and_wait(answer));
  EXPECT_EQ(log->append_and_wait(answer).error().code, Errc::invalid_input);
}

TEST_F(LogTest, GoesOnWhereItStopped) {
  open();
  exchange();
  close();
  open();
  exchange();
  const auto r = reader();
  std::vector<std::string> types;
  for (std::uint64_t i = 0; i < r->size().value(); ++i) {
    types.push_back(r->leaf(i)->json.at("type"));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"log_created", "start", "request", "response", "stop",
                                             "start", "request", "response"}));
}

TEST_F(LogTest, ClosesRequestsThatAStopLeftOpen) {
  open();
  const Appended first = log->append_and_wait(request("a")).value();
  exchange("b");
  const Appended second = log->append_and_wait(request("c")).value();
  close();
  open();
  const auto r = reader();
  for (const Appended& open_request : {first, second}) {
    const auto leaves = r->leaves_of(open_request.id).value();
    ASSERT_EQ(leaves.size(), 2u);
    EXPECT_EQ(leaves[1].json.at("status"), "interrupted");
    EXPECT_EQ(leaves[1].json.at("request"), open_request.index);
  }
  RecordFilter interrupted;
  interrupted.status = "interrupted";
  EXPECT_EQ(r->list(interrupted)->size(), 2u);
  EXPECT_EQ(r->leaf(r->size().value() - 1)->json.at("recovered"), 2);
  close();
  open();  // and not a second time
  EXPECT_EQ(reader()->leaf(reader()->size().value() - 1)->json.at("recovered"), 0);
}

TEST_F(LogTest, KeyedHashesAreStableAndDifferByTenant) {
  open();
  const auto key = log->cache_key("a", as_bytes("body")).value();
  EXPECT_NE(key, log->cache_key("b", as_bytes("body")).value());
  EXPECT_NE(key, log->cache_key("a", as_bytes("bodz")).value());
  const std::string handle = log->subject_handle("sk-123");
  EXPECT_EQ(handle.size(), 64u);
  EXPECT_NE(handle, sha256(std::string_view("sk-123")).hex());
  close();
  open();
  EXPECT_EQ(key, log->cache_key("a", as_bytes("body")).value());
  EXPECT_EQ(handle, log->subject_handle("sk-123"));
}

TEST_F(LogTest, TheFirstRecordIsTheCanonicalOutputUntilItExpires) {
  open();
  const auto key = log->cache_key("a", as_bytes("body")).value();
  EXPECT_FALSE(log->canonical_output(key));
  const auto answer = [&](std::int64_t expires_us) {
    LeafDraft draft = response(log->append_and_wait(request("q")).value(), "a");
    draft.canonical = CanonicalOutput{key, expires_us};
    return log->append_and_wait(draft)->id;
  };
  const Uuid one = answer(kNow + 10'000'000);
  EXPECT_EQ(log->canonical_output(key), one);
  const Uuid two = answer(kNow + 10'000'000);
  EXPECT_EQ(log->canonical_output(key), one);
  clock.advance_us(10'000'000);
  EXPECT_FALSE(log->canonical_output(key));
  const Uuid three = answer(0);
  EXPECT_EQ(log->canonical_output(key), three);
  EXPECT_NE(two, three);
}

TEST_F(LogTest, ASecondWriterIsRefusedAndAppendsThroughTheSocket) {
  LogOptions listening = options();
  listening.listen = true;
  log = Log::open(listening, clock).value();
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.what.find("process " + std::to_string(::getpid())), std::string::npos);

  auto appender = open_appender(folder, clock).value();
  LeafDraft access;
  access.type = "access";
  access.fields = {{"actor", "auditor"}};
  access.contents = {{"note", std::string("\0\xff", 2)}};
  const auto at = appender->append_and_wait(access).value();
  EXPECT_EQ(at.index, 2u);
  EXPECT_EQ(reader()->leaf(2)->json.at("actor"), "auditor");
  EXPECT_EQ(reader()->content(2, "note")->bytes, std::string("\0\xff", 2));
  LeafDraft named = access;
  named.id = at.id;
  EXPECT_EQ(appender->append_and_wait(named).error().code, Errc::invalid_input);
  access.fields["v"] = 2;
  EXPECT_EQ(appender->append_and_wait(access).error().code, Errc::invalid_input);
  access.fields.erase("v");
  close();
  // Nobody holds it now: the same object opens it, and others append through that.
  EXPECT_EQ(appender->append_and_wait(access)->index, 5u);
  auto other = open_appender(folder, clock).value();
  EXPECT_EQ(other->append_and_wait(access)->index, 6u);
  appender.reset();
  EXPECT_EQ(other->append_and_wait(access)->index, 9u);  // behind a `stop` and a `start`
}

TEST_F(LogTest, AppendersNeedALog) {
  EXPECT_EQ(open_appender(folder, clock).error().code, Errc::not_found);
  EXPECT_EQ(LogReader::open(folder).error().code, Errc::not_found);
}

TEST_F(LogTest, ReadingLeavesNoTraceInAClosedLogsFolder) {
  open();
  exchange();
  close();
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const auto before = names();
  {
    const auto r = reader();
    (void)r->content(2, "request.body").value();
    EXPECT_EQ(names(), before);
    open();  // a writer comes while the reader is there
    exchange();
    EXPECT_EQ(r->size().value(), 8u);
    (void)r->content(6, "request.body").value();
    close();
    EXPECT_EQ(r->size().value(), 9u);
  }
}

}  // namespace
}  // namespace verbatim::audit::test
