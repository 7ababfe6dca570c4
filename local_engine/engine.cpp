#include "local_engine/engine.hpp"

#include "kernels/backend.hpp"
#include "kernels/profile.hpp"
#include "local_engine/fingerprint_files.hpp"
#include "local_engine/job.hpp"
#include "local_engine/model/model.hpp"
#include "local_engine/scheduler.hpp"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace verbatim::local_engine {
namespace {

/// What the engine's thread works on. Shared with the thread, so that an engine whose last owner is
/// one of its own callbacks can go while the thread winds down.
struct Core {
  std::unique_ptr<Model> model;
  std::unique_ptr<Scheduler> scheduler;
  JobContext context;
  float suggested_penalty = 1;

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> waiting;
  std::vector<std::pair<std::shared_ptr<Job>, Error>>
      refused;  // done() runs on the thread for these too
  bool stopping = false;

  void run();
  void end_refused_and_cancelled();
  void admit_waiting();
};

Error shutting_down() { return {Errc::unavailable, "the engine is shutting down", "", ""}; }

void Core::end_refused_and_cancelled() {
  std::vector<std::shared_ptr<Job>> cancelled;
  std::vector<std::pair<std::shared_ptr<Job>, Error>> failed;
  {
    const std::lock_guard lock(mutex);
    failed.swap(refused);
    std::erase_if(waiting, [&](const auto& job) {
      if (job->cancelled) cancelled.push_back(job);
      return job->cancelled.load();
    });
  }
  for (auto& [job, error] : failed) job->fail(std::move(error));
  for (const auto& job : cancelled) job->finish(FinishReason::cancelled);
}

/// In order of arrival: a request that must wait for memory holds up those behind it, so none
/// starves.
void Core::admit_waiting() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      const std::lock_guard lock(mutex);
      if (waiting.empty()) return;
      job = waiting.front();
    }
    const auto admitted = job->empty() ? Result<void>() : scheduler->admit(job);
    if (!admitted && admitted.error().code == Errc::unavailable) return;
    {
      const std::lock_guard lock(mutex);
      waiting.pop_front();  // only this thread takes from the queue, so it is still the same
    }
    if (!admitted) {
      job->fail(admitted.error());
    } else if (job->empty()) {
      job->finish(FinishReason::length);
    }
  }
}

void Core::run() {
  kernels::make_floating_point_exact();
  for (;;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        return stopping || !waiting.empty() || !refused.empty() || !scheduler->idle();
      });
      if (stopping) break;
    }
    end_refused_and_cancelled();
    admit_waiting();
    try {
      // Weights that changed on disk would give answers under a name that is no longer theirs.
      if (const auto same = model->check_files(); same) {
        scheduler->step();
      } else {
        scheduler->abort(same.error());
      }
    } catch (const std::bad_alloc&) {
      scheduler->abort({Errc::unavailable, "out of memory", "", "allow less KV cache"});
    }
  }
  end_refused_and_cancelled();
  scheduler->abort(shutting_down());
  std::deque<std::shared_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex);
    left.swap(waiting);
  }
  for (const auto& job : left) job->fail(shutting_down());
}

class RunningGeneration final : public Generation {
 public:
  RunningGeneration(std::shared_ptr<Core> core, std::shared_ptr<Job> job)
      : core_(std::move(core)), job_(std::move(job)) {}
  void cancel() override {
    {
      const std::lock_guard lock(core_->mutex);
      job_->cancelled = true;
    }
    core_->changed.notify_one();
  }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<Job> job_;
};

class CpuEngine final : public Engine {
 public:
  CpuEngine(std::shared_ptr<Core> core, const EngineOptions& options, Fingerprint fingerprint,
            std::shared_ptr<const ChatTemplate> chat_template)
      : core_(std::move(core)),
        options_(options),
        fingerprint_(std::move(fingerprint)),
        chat_template_(std::move(chat_template)),
        thread_([core = core_] { core->run(); }) {}

  ~CpuEngine() override {
    {
      const std::lock_guard lock(core_->mutex);
      core_->stopping = true;
    }
    core_->changed.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_
          .detach();  // the last owner was a callback: the thread ends by itself, and owns its core
    } else {
      thread_.join();
    }
  }

  std::shared_ptr<Generation> generate(
      GenerationRequest request, std::function<void(const TokenInfo&)> on_token,
      std::function<void(Result<GenerationResult>)> done) override {
    return submit(std::move(request), std::nullopt, std::move(on_token), std::move(done));
  }

  Result<GenerationResult> score(const GenerationRequest& request,
                                 const std::vector<TokenId>& output_ids) override {
    std::promise<Result<GenerationResult>> promise;
    auto future = promise.get_future();
    submit(request, output_ids, nullptr,
           [&](Result<GenerationResult> result) { promise.set_value(std::move(result)); });
    return future.get();
  }

  const Fingerprint& fingerprint() const override { return fingerprint_; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return core_->context.tokenizer; }
  std::shared_ptr<const ChatTemplate> chat_template() const override { return chat_template_; }
  std::string backend() const override {
    return std::string(kernels::name(core_->model->backend()));
  }
  std::string profile() const override {
    return std::string(kernels::name(core_->model->profile()));
  }
  std::size_t context_max() const override { return core_->context.context_max; }
  std::size_t vocab_size() const override { return core_->context.vocab_size; }
  std::size_t hidden_size() const override { return core_->context.hidden_size; }
  const std::vector<TokenId>& eos_ids() const override { return core_->context.eos_ids; }
  std::size_t kv_positions_max() const override { return core_->scheduler->positions_max(); }
  float suggested_repetition_penalty() const override { return core_->suggested_penalty; }

 private:
  std::shared_ptr<Generation> submit(GenerationRequest request,
                                     std::optional<std::vector<TokenId>> forced,
                                     Job::OnToken on_token, Job::Done done) {
    auto job = std::make_shared<Job>(core_->context, std::move(request), std::move(forced),
                                     std::move(on_token), std::move(done));
    auto valid = job->validate();
    // Once the job is in the queue its callback may drop this engine's last owner: from there on only `core` is used.
    const auto core = core_;
    {
      const std::lock_guard lock(core->mutex);
      if (valid && core->waiting.size() >= options_.queue_max)
        valid = Error{Errc::unavailable,
                      std::to_string(options_.queue_max) + " requests are waiting already", "",
                      "try again later"};
      if (valid) {
        core->waiting.push_back(job);
      } else {
        core->refused.emplace_back(job, valid.error());
      }
    }
    core->changed.notify_one();
    return std::make_shared<RunningGeneration>(core, std::move(job));
  }

  std::shared_ptr<Core> core_;
  EngineOptions options_;
  Fingerprint fingerprint_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  std::thread thread_;
};

/// 1 where it is missing or makes no sense: it is only ever a suggestion.
float suggested_penalty(const Json& generation_config) {
  const auto found = generation_config.is_object() ? generation_config.find("repetition_penalty")
                                                   : generation_config.end();
  if (found == generation_config.end() || !found->is_number()) return 1;
  const float penalty = found->get<float>();
  return penalty > 0 && penalty <= 100 ? penalty : 1;
}

Result<kernels::Backend> choose_backend(const EngineOptions& options) {
  if (options.backend == "cuda")
    return Error{Errc::unsupported, "backend cuda is not in this build", "", "use auto"};
  return kernels::parse_backend(options.backend);
}

}  // namespace

bool knows_profile(const std::string& name) { return kernels::parse_profile(name).has_value(); }

Result<GenerationResult> Engine::generate_and_wait(GenerationRequest request) {
  std::promise<Result<GenerationResult>> promise;
  auto future = promise.get_future();
  const auto running = generate(std::move(request), nullptr, [&](Result<GenerationResult> result) {
    promise.set_value(std::move(result));
  });
  return future.get();
}

Result<std::shared_ptr<Engine>> Engine::load(const std::filesystem::path& path,
                                             const EngineOptions& options) {
  // 1. What was asked for, before anything is read.
  const auto profile = kernels::parse_profile(options.profile);
  if (!profile) return profile.error();
  const auto backend = choose_backend(options);
  if (!backend) return backend.error();
  if (options.batch_rows_max == 0 || options.prefill_chunk == 0 || options.threads < 0)
    return Error{Errc::invalid_input, "an engine option is zero or negative", "", ""};

  // 2. The weights: copied into the kernels' form. What is hashed is what was mapped.
  const auto files = open_model(path);
  if (!files) return files.error();
  auto core = std::make_shared<Core>();
  auto model = Model::load(*files, *backend, options.threads, *profile);
  if (!model) return model.error();
  core->model = std::move(*model);
  auto identity = fingerprint_of(*files);
  if (!identity) return identity.error();

  // 3. Text, where the model has it.
  if (files->has_tokenizer) {
    auto tokenizer = Tokenizer::load(path);
    if (!tokenizer) return tokenizer.error();
    core->context.tokenizer = *tokenizer;
  }
  std::shared_ptr<const ChatTemplate> chat_template;
  if (!files->chat_template.empty()) {
    auto parsed = ChatTemplate::parse(files->chat_template);
    if (!parsed) return parsed.error();
    chat_template = *parsed;
  }

  // 4. The thread.
  const auto& config = core->model->config();
  core->context.layers = config.layers;
  core->context.vocab_size = config.vocab_size;
  core->context.hidden_size = config.hidden_size;
  core->context.context_max = config.context_max;
  core->context.eos_ids = config.eos_ids;
  core->suggested_penalty = suggested_penalty(files->generation_config);
  core->scheduler = std::make_unique<Scheduler>(*core->model, options);
  return std::shared_ptr<Engine>(
      std::make_shared<CpuEngine>(core, options, std::move(*identity), std::move(chat_template)));
}

}  // namespace verbatim::local_engine
