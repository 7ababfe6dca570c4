#pragma once
// A run of a probe with something in every member.

#include "replay/probe_series.hpp"

namespace verbatim::replay::test {

inline SeriesRun some_run() {
  SeriesRun run;
  run.time_us = 1'795'960'796'000'000;
  run.url = "https://api.example.com";
  run.api = "openai.chat";
  run.model = "m";
  SeriesQuestion question;
  question.request = "{}";
  question.texts = {"a", "b"};
  question.phases = {{1, 0, 3, {0, 0, 1}}};
  run.questions = {question};
  run.fingerprints = {{"fp", 3}};
  run.failures = {{"timeout", 1}};
  run.new_fingerprints = {"fp"};
  run.test = SeriesTest{{}, 0.01, 1000, UINT64_MAX};
  return run;
}

}  // namespace verbatim::replay::test
