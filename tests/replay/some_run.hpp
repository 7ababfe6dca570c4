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
  question.phases = {{1, 0, 6, {0, 0, 1, 0, 0}}};
  run.questions = {question};
  run.fingerprints = {{"fp", 5}};
  run.models = {{"m-1", 3}, {"m-2", 2}};
  run.finish_reasons = {{"stop", 5}};
  run.failures = {{"timeout", 1}};
  run.new_fingerprints = {"fp"};
  run.new_models = {"m-2"};
  run.new_finish_reasons = {"stop"};
  run.test = SeriesTest{{}, 0.01, 1000, UINT64_MAX};
  run.answered_test = run.test;
  return run;
}

}  // namespace verbatim::replay::test
