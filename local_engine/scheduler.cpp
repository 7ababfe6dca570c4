#include "local_engine/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::size_t kLogitsBytesMax = 64u << 20;

std::size_t blocks_for(std::size_t positions) {
  return (positions + kernels::kBlock - 1) / kernels::kBlock;
}

}  // namespace

Scheduler::Scheduler(Model& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      blocks_max_(options.kv_bytes_max / model.kv_block_bytes()) {}

Result<void> Scheduler::admit(const std::shared_ptr<Job>& job) {
  const std::size_t wanted = blocks_for(job->positions_max());
  if (wanted > blocks_max_)
    return Error{Errc::invalid_input,
                 "the request may reach " + std::to_string(job->positions_max()) +
                     " positions, which need " + std::to_string(wanted * model_.kv_block_bytes()) +
                     " bytes of KV cache of " + std::to_string(options_.kv_bytes_max),
                 "", "ask for fewer tokens, or allow more KV cache"};
  if (blocks_reserved_ + wanted > blocks_max_)
    return Error{Errc::unavailable, "the KV cache is full", "", ""};

  // What the job will read from the cache is held before anything is evicted. Scoring is evidence:
  // it recomputes its whole prefix rather than trust what the generation left behind.
  std::vector<std::shared_ptr<KvBlock>> known;
  if (options_.prefix_cache && !job->computes_all())
    known = prefixes_.find(job->ids(), (job->ids().size() - 1) / kernels::kBlock);
  for (auto& block : known) job->kv.append(std::move(block));
  while (blocks_reserved_ + wanted + prefixes_.idle_blocks() > blocks_max_) {
    if (!prefixes_.evict_one()) break;
  }
  job->skip(job->kv.blocks() * kernels::kBlock);
  job->blocks_reserved = wanted;
  if (job->started_us == 0) job->started_us = clock_.steady_us();
  blocks_reserved_ += wanted;
  running_.push_back(job);
  return {};
}

void Scheduler::release(const std::shared_ptr<Job>& job) {
  blocks_reserved_ -= job->blocks_reserved;
  running_.erase(std::find(running_.begin(), running_.end(), job));
}

void Scheduler::abort(const Error& error) {
  while (!running_.empty()) {
    const auto job = running_.front();
    release(job);
    job->fail(error);
  }
}

std::deque<std::shared_ptr<Job>> Scheduler::take_all() {
  blocks_reserved_ = 0;
  return std::exchange(running_, {});
}

void Scheduler::drop_cancelled() {
  const auto jobs = running_;
  for (const auto& job : jobs) {
    if (!job->cancelled) continue;
    job->now_us = clock_.steady_us();
    release(job);
    job->finish(FinishReason::cancelled);
  }
}

std::vector<Scheduler::Planned> Scheduler::plan() {
  std::vector<Planned> planned;
  std::size_t left = options_.batch_rows_max;
  // Decoding first: one row each keeps every answer flowing while long prompts are read in.
  for (const bool decoding : {true, false}) {
    for (const auto& job : running_) {
      if (left == 0) break;
      if (job->decoding() != decoding) continue;
      const std::size_t rows = std::min({job->pending(), left, options_.prefill_chunk});
      planned.push_back({job, rows});
      left -= rows;
    }
  }
  // Whoever was served goes to the end of the line.
  for (const auto& each : planned) {
    running_.erase(std::find(running_.begin(), running_.end(), each.job));
    running_.push_back(each.job);
  }
  return planned;
}

std::vector<ForwardRow> Scheduler::lay_out(const std::vector<Planned>& planned) {
  std::vector<ForwardRow> rows;
  for (const auto& [job, count] : planned) {
    while (job->kv.blocks() < blocks_for(job->fed() + count)) job->kv.append(model_.new_kv_block());
    for (std::size_t position = job->fed(); position < job->fed() + count; ++position)
      rows.push_back({job->ids()[position], position, &job->kv, job->wants_logits(position), false,
                      job->layer_digests()});
  }
  return rows;
}

void Scheduler::remember_prefixes(const Job& job, std::size_t fed_before) {
  if (!options_.prefix_cache || job.scoring()) return;
  for (auto index = fed_before / kernels::kBlock; index < job.fed() / kernels::kBlock; ++index)
    prefixes_.insert(job.ids(), index, job.kv.block(index));
}

void Scheduler::step() {
  drop_cancelled();
  if (running_.empty()) return;
  const auto planned = plan();
  auto rows = lay_out(planned);
  model_.forward(rows);
  deliver(planned, rows);
}

void Scheduler::deliver(const std::vector<Planned>& planned, const std::vector<ForwardRow>& rows) {
  // 1. Which rows chose or scored a token: job, output index, and whether the arithmetic stayed in
  // range.
  struct Wanted {
    Job* job;
    std::size_t index;
  };
  std::vector<Wanted> wanted;
  std::vector<bool> in_range(planned.size(), true);
  std::size_t row = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    Job& job = *planned[i].job;
    for (std::size_t n = 0; n < planned[i].rows; ++n, ++row) {
      if (rows[row].range) in_range[i] = false;
      if (rows[row].wants_logits) wanted.push_back({&job, job.output_index(rows[row].position)});
    }
  }

  // 2. Logits and what they say, a slice at a time: rows are independent of each other.
  const std::size_t vocab = model_.config().vocab_size;
  const std::size_t slice = std::max<std::size_t>(1, kLogitsBytesMax / (vocab * sizeof(float)));
  std::vector<RowOutcome> outcomes(wanted.size());
  for (std::size_t first = 0; first < wanted.size(); first += slice) {
    const std::size_t count = std::min(slice, wanted.size() - first);
    float* logits = logits_.take(count * vocab);
    model_.logits(first, count, logits);
    auto* pool = count > 1 ? model_.pool() : nullptr;
    kernels::run_tasks(pool, count, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto& [job, index] = wanted[first + i];
        outcomes[first + i] =
            job->evaluate(model_.host_backend(), {logits + i * vocab, vocab}, index);
      }
    });
  }

  // 3. To the jobs, in order. A callback may take its time, but it sees one job only.
  std::size_t next = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const auto& [job, count] = planned[i];
    const std::size_t fed_before = job->fed();
    job->advance(count);
    job->now_us = clock_.steady_us();
    if (in_range[i]) remember_prefixes(*job, fed_before);
    bool ended = false;
    for (; next < wanted.size() && wanted[next].job == job.get(); ++next) {
      if (ended) continue;
      if (!in_range[i]) outcomes[next].finite = false;
      ended = job->accept(std::move(outcomes[next]), model_.last_hidden(next));
    }
    if (!ended && !in_range[i]) {
      job->fail(
          {Errc::out_of_range, "the arithmetic left the numerics profile in the prompt", "", ""});
      ended = true;
    }
    if (ended) release(job);
  }
}

}  // namespace verbatim::local_engine
