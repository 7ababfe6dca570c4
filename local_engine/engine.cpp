#include "local_engine/engine.hpp"

#include "kernels/backend.hpp"
#include "kernels/profile.hpp"
#include "local_engine/cuda_backend.hpp"
#include "local_engine/fingerprint_files.hpp"
#include "local_engine/job.hpp"
#include "local_engine/model/cpu_model.hpp"
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
  EngineOptions options;
  float suggested_penalty = 1;
  std::size_t kv_positions_max = 0;
  std::optional<HostModel> host;  // what the model is made of once more, if the device fails
  kernels::Backend host_backend = kernels::Backend::scalar;
  std::optional<Error> lost;  // the device computes nothing any more, and nothing else may

  std::mutex mutex;     // guards the members below
  std::string backend;  // as context.backend, for other threads
  std::string fallback_reason;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> waiting;
  std::vector<std::pair<std::shared_ptr<Job>, Error>>
      refused;  // done() runs on the thread for these too
  bool stopping = false;

  void run();
  void step();
  void end_refused_and_cancelled();
  void admit_waiting();
  void refuse_waiting(const Error& error);
  [[nodiscard]] Result<void> use_processor(const std::string& reason);
  void use(std::unique_ptr<Model> chosen, std::string reason);
  void move_to_processor(const Error& reason);
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

void Core::use(std::unique_ptr<Model> chosen, std::string reason) {
  // What reads the old model goes first: the cache of prefixes holds its blocks.
  scheduler = nullptr;
  model = std::move(chosen);
  scheduler = std::make_unique<Scheduler>(*model, options);
  context.backend = model->backend_name();
  const std::lock_guard lock(mutex);
  backend = context.backend;
  fallback_reason = std::move(reason);
}

Result<void> Core::use_processor(const std::string& reason) {
  auto chosen = CpuModel::make(*host, host_backend, *kernels::parse_profile(options.profile));
  if (!chosen) return chosen.error();
  use(std::move(*chosen), reason);
  host.reset();  // the model keeps what it needs
  return {};
}

/// The running jobs go on with the bits that they would have had: they come first, in their order.
void Core::move_to_processor(const Error& reason) {
  const auto jobs = scheduler->take_all();
  for (const auto& job : jobs) job->restart();
  if (const auto moved = use_processor(reason.message()); !moved) {
    for (const auto& job : jobs) job->fail(moved.error());
    lost = moved.error();
    return;
  }
  const std::lock_guard lock(mutex);
  waiting.insert(waiting.begin(), jobs.begin(), jobs.end());
}

void Core::refuse_waiting(const Error& error) {
  std::deque<std::shared_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex);
    left.swap(waiting);
  }
  for (const auto& job : left) job->fail(error);
}

void Core::step() {
  try {
    admit_waiting();
    // Weights that changed on disk would give answers under a name that is no longer theirs.
    if (const auto same = model->check_files(); same) {
      scheduler->step();
    } else {
      scheduler->abort(same.error());
    }
  } catch (const DeviceFailure& failure) {
    if (host) {
      move_to_processor(failure.error());
    } else {
      scheduler->abort(failure.error());
      if (failure.lost()) lost = failure.error();
    }
  } catch (const std::bad_alloc&) {
    scheduler->abort({Errc::unavailable, "out of memory", "", "allow less KV cache"});
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
    if (lost) {
      refuse_waiting(*lost);
    } else {
      step();
    }
  }
  end_refused_and_cancelled();
  scheduler->abort(shutting_down());
  refuse_waiting(shutting_down());
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

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<Core> core, const EngineOptions& options, Fingerprint fingerprint,
              std::shared_ptr<const ChatTemplate> chat_template)
      : core_(std::move(core)),
        options_(options),
        fingerprint_(std::move(fingerprint)),
        chat_template_(std::move(chat_template)),
        thread_([core = core_] { core->run(); }) {}

  ~LocalEngine() override {
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
    const std::lock_guard lock(core_->mutex);
    return core_->backend;
  }
  std::string fallback_reason() const override {
    const std::lock_guard lock(core_->mutex);
    return core_->fallback_reason;
  }
  std::string profile() const override { return options_.profile; }
  std::size_t context_max() const override { return core_->context.context_max; }
  std::size_t vocab_size() const override { return core_->context.vocab_size; }
  std::size_t hidden_size() const override { return core_->context.hidden_size; }
  const std::vector<TokenId>& eos_ids() const override { return core_->context.eos_ids; }
  std::size_t kv_positions_max() const override { return core_->kv_positions_max; }
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

const CudaBackend* provided = nullptr;

bool wants_cuda(const EngineOptions& options) { return options.backend == "cuda"; }
bool may_fall_back(const EngineOptions& options) { return options.cuda_fallback == "cpu"; }

/// Of the processor, which says what is to be said of logits whatever computes them.
Result<kernels::Backend> processor_backend(const EngineOptions& options) {
  return wants_cuda(options) ? kernels::best_backend() : kernels::parse_backend(options.backend);
}

Result<std::string> find_device() {
  if (provided == nullptr)
    return Error{Errc::unsupported, "this build has no CUDA kernels", "backend",
                 "use auto: the bits are the same; or build with nvcc"};
  return provided->device();
}

/// The model where it was asked for, or where it may be instead.
Result<void> place(Core& core, HostModel host, kernels::Profile profile) {
  core.host = std::move(host);
  if (!wants_cuda(core.options)) return core.use_processor("");
  const auto device = find_device();
  auto on_device = device ? provided->load(*core.host, core.host_backend, profile)
                          : Result<std::unique_ptr<Model>>(device.error());
  if (on_device) {
    core.use(std::move(*on_device), "");
    if (!may_fall_back(core.options)) core.host.reset();
    return {};
  }
  if (!may_fall_back(core.options)) return on_device.error();
  return core.use_processor(on_device.error().message());
}

}  // namespace

void provide(const CudaBackend& backend) {
  static CudaBackend kept;
  kept = backend;
  provided = &kept;
}

const CudaBackend* cuda_backend() { return provided; }

Result<void> check_backend(const EngineOptions& options) {
  if (options.cuda_fallback != "refuse" && !may_fall_back(options))
    return Error{Errc::invalid_input, "no fallback is named '" + options.cuda_fallback + "'",
                 "cuda_fallback", "use refuse or cpu"};
  if (const auto known = processor_backend(options); !known) return known.error();
  if (!wants_cuda(options) || may_fall_back(options)) return {};
  const auto device = find_device();
  if (!device) return device.error();
  return {};
}

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
  if (const auto known = check_backend(options); !known) return known.error();
  if (options.batch_rows_max == 0 || options.prefill_chunk == 0 || options.threads < 0)
    return Error{Errc::invalid_input, "an engine option is zero or negative", "", ""};

  // 2. The weights: copied into the kernels' form. What is hashed is what was mapped.
  const auto files = open_model(path);
  if (!files) return files.error();
  auto core = std::make_shared<Core>();
  core->options = options;
  core->host_backend = *processor_backend(options);
  auto host = load_host_model(*files, options.threads);
  if (!host) return host.error();
  if (const auto placed = place(*core, std::move(*host), *profile); !placed) return placed.error();
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
  core->kv_positions_max = core->scheduler->positions_max();
  return std::shared_ptr<Engine>(
      std::make_shared<LocalEngine>(core, options, std::move(*identity), std::move(chat_template)));
}

}  // namespace verbatim::local_engine
