#pragma once
// Continuous batching: which rows of which jobs go into the next pass of the model.

#include "local_engine/job.hpp"
#include "local_engine/kv_cache.hpp"
#include "local_engine/model/model.hpp"
#include "schema/clock.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace verbatim::local_engine {

/// One thread. Every decision here changes when a row is computed, never a bit of its result.
class Scheduler {
 public:
  Scheduler(Model& model, const EngineOptions& options);

  /// Takes a valid job if memory for all positions it can reach may be reserved, evicting cached
  /// prefixes as needed. Reserving all of it at once means that a running job never waits for
  /// another. `unavailable`: not now, try when another job has ended; `invalid_input`: never, it is
  /// larger than the bound.
  [[nodiscard]] Result<void> admit(const std::shared_ptr<Job>& job);
  /// Of one job, if it had all the memory.
  [[nodiscard]] std::size_t positions_max() const { return blocks_max_ * kernels::kBlock; }
  [[nodiscard]] bool idle() const { return running_.empty(); }

  /// One pass: a row of every decoding job, then prompt chunks, up to batch_rows_max; then the
  /// outcomes. Jobs that end or were cancelled are finished and gone afterwards.
  void step();
  /// Ends every job with this error.
  void abort(const Error& error);
  /// Lets go of every job, in the order in which they would have been served.
  [[nodiscard]] std::deque<std::shared_ptr<Job>> take_all();

 private:
  struct Planned {
    std::shared_ptr<Job> job;
    std::size_t rows = 0;
  };
  void drop_cancelled();
  [[nodiscard]] std::vector<Planned> plan();
  [[nodiscard]] std::vector<ForwardRow> lay_out(const std::vector<Planned>& planned);
  void remember_prefixes(const Job& job, std::size_t fed_before);
  void deliver(const std::vector<Planned>& planned, const std::vector<ForwardRow>& rows);
  void release(const std::shared_ptr<Job>& job);

  Model& model_;
  EngineOptions options_;
  SystemClock clock_;
  std::size_t blocks_max_;
  std::size_t blocks_reserved_ = 0;
  PrefixCache prefixes_;
  std::deque<std::shared_ptr<Job>> running_;  // who was served longest ago is first
  kernels::Scratch logits_;                   // (rows of a slice, vocab)
};

}  // namespace verbatim::local_engine
